/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/csi/message.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "csi/call/csi_check.h"

#define PATH_TEXT_MAX 512

static void *get_memory(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		abort();
	return p;
}

static char *copy_text(const char *text)
{
	char *p = strdup(text);

	if (!p)
		abort();
	return p;
}

ProtobufCMessage *message_new(const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *m = get_memory(type->sizeof_message);

	protobuf_c_message_init(type, m);
	return m;
}

static void *at_offset(const ProtobufCMessage *m, unsigned offset)
{
	return (char *)(uintptr_t)m + offset;
}

static size_t *count_at(const ProtobufCMessage *m,
			const ProtobufCFieldDescriptor *f)
{
	return at_offset(m, f->quantifier_offset);
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessage *m,
						  const char *path, size_t n)
{
	char name[PATH_TEXT_MAX];

	(void)snprintf(name, sizeof(name), "%.*s", (int)n, path);
	return protobuf_c_message_descriptor_get_field_by_name(m->descriptor,
							       name);
}

/* "1.block" is 1, and "block"; anything else 0, and all of it. */
static size_t take_index(const char **path)
{
	char *end = NULL;
	unsigned long n = strtoul(*path, &end, 10);

	if (end == *path || (*end != '.' && *end != '\0'))
		return 0;
	*path = end + (*end == '.');
	return n;
}

/* ---- set ---- */

static void append(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
		   void *item)
{
	size_t *n = count_at(m, f);
	void ***list = at_offset(m, f->offset);
	void **longer = realloc(*list, (*n + 1) * sizeof(void *));

	if (!longer)
		abort();
	longer[(*n)++] = item;
	*list = longer;
}

static void set_oneof(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		*(uint32_t *)at_offset(m, f->quantifier_offset) = f->id;
}

static void set_entry(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
		      const char *key, const char *value)
{
	struct csi_entry **list = *(struct csi_entry ***)at_offset(m,
								   f->offset);
	struct csi_entry *e;

	for (size_t i = 0; i < *count_at(m, f); i++) {
		if (strcmp(list[i]->key, key) != 0)
			continue;
		free(list[i]->value);
		list[i]->value = copy_text(value);
		return;
	}
	e = (struct csi_entry *)message_new(f->descriptor);
	e->key = copy_text(key);
	e->value = copy_text(value);
	append(m, f, e);
}

static void set_string(char **at, const ProtobufCFieldDescriptor *f,
		       const char *value)
{
	if (*at != f->default_value)
		free(*at);
	*at = copy_text(value);
}

static void set_scalar(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
		       const char *value)
{
	void *at = at_offset(m, f->offset);

	if (f->type == PROTOBUF_C_TYPE_STRING &&
	    f->label == PROTOBUF_C_LABEL_REPEATED)
		append(m, f, copy_text(value));
	else if (f->type == PROTOBUF_C_TYPE_STRING)
		set_string(at, f, value);
	else if (f->type == PROTOBUF_C_TYPE_INT64)
		*(int64_t *)at = strtoll(value, NULL, 0);
	else /* int32, enum, bool */
		*(int *)at = (int)strtol(value, NULL, 0);
}

static ProtobufCMessage *sub_message(ProtobufCMessage *m,
				     const ProtobufCFieldDescriptor *f,
				     const char **rest)
{
	void *at = at_offset(m, f->offset);

	if (f->label == PROTOBUF_C_LABEL_REPEATED) {
		size_t index = take_index(rest);

		while (*count_at(m, f) <= index)
			append(m, f, message_new(f->descriptor));
		return (*(ProtobufCMessage ***)at)[index];
	}
	/* Of a oneof the members share their place. */
	if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
	    *(uint32_t *)at_offset(m, f->quantifier_offset) != f->id)
		*(ProtobufCMessage **)at = NULL;
	set_oneof(m, f);
	if (!*(ProtobufCMessage **)at)
		*(ProtobufCMessage **)at = message_new(f->descriptor);
	return *(ProtobufCMessage **)at;
}

static void free_list(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	void **list = *(void ***)at_offset(m, f->offset);

	for (size_t i = 0; i < *count_at(m, f); i++) {
		if (f->type == PROTOBUF_C_TYPE_STRING)
			free(list[i]);
		else
			protobuf_c_message_free_unpacked(list[i], NULL);
	}
	free(list);
}

static int clear(ProtobufCMessage *m, const char *path)
{
	for (;;) {
		size_t n = strcspn(path, ".");
		const ProtobufCFieldDescriptor *f = find_field(m, path, n);

		if (!f)
			return -ENOENT;
		if (!path[n]) {
			if (f->label == PROTOBUF_C_LABEL_REPEATED)
				free_list(m, f);
			/* An old message is not freed: tests are short. */
			if (f->label == PROTOBUF_C_LABEL_REPEATED ||
			    f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
				memset(at_offset(m, f->quantifier_offset), 0,
				       f->label == PROTOBUF_C_LABEL_REPEATED
					       ? sizeof(size_t)
					       : sizeof(uint32_t));
			if (f->type == PROTOBUF_C_TYPE_STRING &&
			    f->label != PROTOBUF_C_LABEL_REPEATED)
				set_string(at_offset(m, f->offset), f, "");
			else
				memset(at_offset(m, f->offset), 0,
				       f->type == PROTOBUF_C_TYPE_ENUM ||
						       f->type ==
							       PROTOBUF_C_TYPE_BOOL ||
						       f->type ==
							       PROTOBUF_C_TYPE_INT32
					       ? 4
					       : sizeof(void *));
			return 0;
		}
		path += n + 1;
		m = sub_message(m, f, &path);
	}
}

int message_set(ProtobufCMessage *m, const char *assignment)
{
	const char *path = assignment, *value = strchr(assignment, '=');
	char key[PATH_TEXT_MAX * 10];

	if (assignment[0] == '!')
		return clear(m, assignment + 1);
	if (!value || (size_t)(value - path) >= sizeof(key))
		return -ENOENT;
	memcpy(key, path, (size_t)(value - path));
	key[value - path] = '\0';
	path = key;
	for (value++;;) {
		size_t n = strcspn(path, ".");
		const ProtobufCFieldDescriptor *f = find_field(m, path, n);
		const char *rest = path + n + (path[n] == '.');

		if (!f)
			return -ENOENT;
		if (f->type != PROTOBUF_C_TYPE_MESSAGE) {
			set_scalar(m, f, value);
			return 0;
		}
		if (csi_field_is_map(f)) {
			set_entry(m, f, rest, value);
			return 0;
		}
		m = sub_message(m, f, &rest);
		if (!rest[0]) /* "volume_capability.block=": only that it is */
			return 0;
		path = rest;
	}
}

/* ---- get ---- */

static const char *entry_value(const ProtobufCMessage *m,
			       const ProtobufCFieldDescriptor *f,
			       const char *key)
{
	struct csi_entry *const *list = *(
		struct csi_entry *const *const *)at_offset(m, f->offset);

	for (size_t i = 0; i < *count_at(m, f); i++)
		if (strcmp(list[i]->key, key) == 0)
			return list[i]->value;
	return "";
}

static const char *show(const ProtobufCFieldDescriptor *f, const void *at,
			char *buf, size_t size)
{
	if (f->type == PROTOBUF_C_TYPE_STRING) {
		const char *text = *(char *const *)at;

		(void)snprintf(buf, size, "%s", text ? text : "");
	} else if (f->type == PROTOBUF_C_TYPE_INT64) {
		(void)snprintf(buf, size, "%" PRId64, *(const int64_t *)at);
	} else {
		(void)snprintf(buf, size, "%d", *(const int *)at);
	}
	return buf;
}

static const char *none(char *buf)
{
	buf[0] = '\0';
	return buf;
}

const char *message_get(const ProtobufCMessage *m, const char *path, char *buf,
			size_t size)
{
	while (m) {
		size_t n = strcspn(path, "."), index = 0;
		const ProtobufCFieldDescriptor *f = find_field(m, path, n);
		const void *at;

		if (!f)
			return none(buf);
		at = at_offset(m, f->offset);
		path += n + (path[n] == '.');
		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			size_t count = *count_at(m, f);

			if (strcmp(path, "#") == 0) {
				(void)snprintf(buf, size, "%zu", count);
				return buf;
			}
			if (csi_field_is_map(f)) {
				(void)snprintf(buf, size, "%s",
					       entry_value(m, f, path));
				return buf;
			}
			index = take_index(&path);
			if (index >= count)
				return none(buf);
			at = *(char *const *)at +
			     index * (f->type == PROTOBUF_C_TYPE_ENUM
					      ? sizeof(int)
					      : sizeof(void *));
		} else if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
			   *(uint32_t *)at_offset(m, f->quantifier_offset) !=
				   f->id) {
			return none(buf);
		}
		if (f->type != PROTOBUF_C_TYPE_MESSAGE)
			return show(f, at, buf, size);
		m = *(ProtobufCMessage *const *)at;
		if (m && !path[0]) {
			(void)snprintf(buf, size, "{}");
			return buf;
		}
	}
	return none(buf);
}
