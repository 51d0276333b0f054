/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: call the functions of initiator.h from a shell.
 *
 *	initiator_call_main COMMAND KEY=VALUE...
 *
 * Commands: attach detach fence get list resize probe. Keys are the
 * members of struct initiator_request. For each part it is
 * part=SIZE,ADDRESS,EXPORT[,PATH]. With get, id=ID/PART is that part alone.
 * Prints "key=value" lines; a failure is "ERRNO: TEXT" on standard error and
 * exit 1.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "initiator/initiator.h"

static struct initiator_request parts[8];

/* SIZE,ADDRESS,EXPORT[,PATH] */
static int parse_part(struct initiator_request *q, char *value,
		      struct error *err)
{
	struct initiator_request *part = &parts[q->n_parts];
	const char *size = strsep(&value, ",");

	if (q->n_parts == array_size(parts))
		return error_set(err, EINVAL, "too many parts");
	part->address = strsep(&value, ",");
	part->export_name = strsep(&value, ",");
	part->local_path = value;
	if (!part->export_name)
		return error_set(err, EINVAL, "a part is SIZE,ADDRESS,EXPORT");
	q->parts = parts;
	q->n_parts++;
	return size_parse(size, &part->size, err);
}

/* Find the member of @q that has the text of @key; NULL: none has. */
static const char **text_of(struct initiator_request *q, const char *key)
{
	const struct {
		const char *key, **text;
	} rows[] = {
		{"state", &q->state_dir},     {"id", &q->id},
		{"transport", &q->transport}, {"path", &q->local_path},
		{"address", &q->address},     {"export", &q->export_name},
		{"portal", &q->iscsi_portal}, {"target", &q->iscsi_target},
		{"identity", &q->identity},   {"chap_file", &q->chap_file},
		{"launcher", &q->launcher},
	};

	for (size_t i = 0; i < array_size(rows); i++)
		if (!strcmp(key, rows[i].key))
			return rows[i].text;
	return NULL;
}

static int parse(struct initiator_request *q, char *word, struct error *err)
{
	char *value = strchr(word, '=');

	if (!value)
		return error_set(err, EINVAL, "'%s' is not KEY=VALUE", word);
	*value++ = 0;
	const char **text = text_of(q, word);

	if (text)
		*text = value;
	else if (!strcmp(word, "read_only"))
		q->read_only = *value == '1';
	else if (!strcmp(word, "renew"))
		q->renew = *value == '1';
	else if (!strcmp(word, "connections"))
		q->connections = (unsigned)strtoul(value, NULL, 10);
	else if (!strcmp(word, "dead_timeout_ms"))
		q->dead_timeout_ms = (unsigned)strtoul(value, NULL, 10);
	else if (!strcmp(word, "stripe_width"))
		q->stripe_width = (unsigned)strtoul(value, NULL, 10);
	else if (!strcmp(word, "stripe_unit"))
		return size_parse(value, &q->stripe_unit, err);
	else if (!strcmp(word, "part"))
		return parse_part(q, value, err);
	else if (!strcmp(word, "size"))
		return size_parse(value, &q->size, err);
	else
		return error_set(err, EINVAL, "no key '%s'", word);
	return 0;
}

static void show(const struct initiator_device *d)
{
	printf("id=%s\ntransport=%s\ndevice=%s\nunder=%s\nwhy=%s\nsource=%s\n"
	       "size=%llu\nread_only=%d\nhealthy=%d\nproblem=%s\n"
	       "bad_part=%d\nkeeps=%d\n",
	       d->id, d->transport, d->device, d->under, d->why, d->source,
	       (unsigned long long)d->size, d->read_only, d->healthy,
	       d->problem, d->bad_part, d->keeps);
}

static int call_attach(struct initiator_request *q, struct error *err)
{
	struct initiator_device device;
	int r;

	for (size_t i = 0; i < q->n_parts; i++)
		parts[i].transport = parts[i].local_path ? "auto"
							 : q->transport;
	r = initiator_attach(q, &device, err);

	if (!r)
		show(&device);
	return r;
}

static int call_detach(struct initiator_request *q, struct error *err)
{
	return initiator_detach(q->state_dir, q->id, err);
}

static int call_fence(struct initiator_request *q, struct error *err)
{
	return initiator_fence(q->state_dir, q->id, false, err);
}

static int call_get(struct initiator_request *q, struct error *err)
{
	struct initiator_device device;
	const char *part = strchr(q->id, '/');
	auto_free char *id = strndup(q->id, strcspn(q->id, "/"));
	int r = part ? initiator_get_part(q->state_dir, id,
					  (unsigned)atoi(part + 1), &device,
					  err)
		     : initiator_get(q->state_dir, q->id, &device, err);

	if (!r)
		show(&device);
	return r;
}

static int call_list(struct initiator_request *q, struct error *err)
{
	auto_free struct initiator_device *list = NULL;
	size_t count;
	int r = initiator_list(q->state_dir, &list, &count, err);

	for (size_t i = 0; !r && i < count; i++)
		show(&list[i]);
	return r;
}

static int call_resize(struct initiator_request *q, struct error *err)
{
	return initiator_resize(q->state_dir, q->id, q->size, err);
}

static int call_probe(struct initiator_request *q, struct error *err)
{
	struct initiator_capability list[8];
	size_t n = initiator_probe(list, array_size(list));

	(void)q;
	(void)err;
	for (size_t i = 0; i < n; i++)
		printf("%s=%s %s\n", list[i].transport,
		       list[i].usable ? "yes" : "no", list[i].why);
	return 0;
}

static const struct {
	const char *name;
	int (*call)(struct initiator_request *q, struct error *err);
} commands[] = {
	{"attach", call_attach}, {"detach", call_detach}, {"get", call_get},
	{"list", call_list},     {"resize", call_resize}, {"probe", call_probe},
	{"fence", call_fence},
};

int main(int argc, char **argv)
{
	struct initiator_request q = {.transport = "auto", .id = "x"};
	struct error err = {.code = 0};
	int r = error_set(&err, EINVAL, "no such command");

	for (int i = 2; i < argc; i++)
		if (parse(&q, argv[i], &err) < 0) {
			fprintf(stderr, "%s\n", err.msg);
			return 2;
		}
	for (size_t i = 0; argc > 1 && i < array_size(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			r = commands[i].call(&q, &err);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", strerrorname_np(-r),
			error_text(&err));
		return 1;
	}
	return 0;
}
