/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: one CSI call from a shell.
 *
 *	csi_call_main ENDPOINT SERVICE/METHOD [FIELD=VALUE]...
 *
 * A field is written with those around it, "capacity_range.required_bytes=1";
 * of a list of messages the first is meant, a list of strings grows, a map's
 * key is what follows its name. Prints the answer on one line; a failure is
 * "CODE: TEXT" and exit 1.
 *
 * CSI_AGAIN_S=N in the environment: ABORTED and UNAVAILABLE are no answer yet,
 * and the call is sent again for N seconds, as Kubernetes does. Without it the
 * call is sent once.
 *
 * One call has CALL_MS from its beginning. A driver that is gone, or not there
 * yet, is waited for within that time; the call is then sent to the next one,
 * once. A test that kills a driver for good kills the client, too.
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "csi/call/csi_check.h"
#include "csi/call/csi_text.h"
#include "csi/config.h"
#include "csi/service.h"

#define CALL_MS  120000 /* of one call */
#define AGAIN_MS 100    /* between two calls */

static void *get_memory(size_t size)
{
	void *p = calloc(1, size);

	if (!p)
		abort();
	return p;
}

static ProtobufCMessage *new_message(const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *m = get_memory(type->sizeof_message);

	protobuf_c_message_init(type, m);
	return m;
}

/* One more pointer in a repeated field. */
static void append(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
		   void *item)
{
	size_t *n = (size_t *)((char *)m + f->quantifier_offset);
	void ***list = (void ***)((char *)m + f->offset);
	void **longer = get_memory((*n + 1) * sizeof(void *));

	if (*n) {
		memcpy(longer, *list, *n * sizeof(void *));
		free(*list);
	}
	longer[(*n)++] = item;
	*list = longer;
}

/* The message in @f, made if it is not there. */
static ProtobufCMessage *sub_message(ProtobufCMessage *m,
				     const ProtobufCFieldDescriptor *f)
{
	void *at = (char *)m + f->offset;

	if (f->label == PROTOBUF_C_LABEL_REPEATED) {
		if (!*(size_t *)((char *)m + f->quantifier_offset))
			append(m, f, new_message(f->descriptor));
		return (*(ProtobufCMessage ***)at)[0];
	}
	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		*(uint32_t *)((char *)m + f->quantifier_offset) = f->id;
	if (!*(ProtobufCMessage **)at)
		*(ProtobufCMessage **)at = new_message(f->descriptor);
	return *(ProtobufCMessage **)at;
}

static void add_entry(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
		      char *key, char *value)
{
	struct csi_entry *e = (struct csi_entry *)new_message(f->descriptor);

	e->key = key;
	e->value = value;
	append(m, f, e);
}

static void set_scalar(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
		       char *value)
{
	void *at = (char *)m + f->offset;

	if (f->type == PROTOBUF_C_TYPE_STRING &&
	    f->label == PROTOBUF_C_LABEL_REPEATED)
		append(m, f, value);
	else if (f->type == PROTOBUF_C_TYPE_STRING)
		*(char **)at = value;
	else if (f->type == PROTOBUF_C_TYPE_INT64)
		*(int64_t *)at = strtoll(value, NULL, 0);
	else
		*(int *)at = (int)strtol(value, NULL, 0);
}

static int set(ProtobufCMessage *m, char *path, char *value)
{
	for (;;) {
		char *rest = strchr(path, '.');
		const ProtobufCFieldDescriptor *f;

		if (rest)
			*rest++ = '\0';
		f = protobuf_c_message_descriptor_get_field_by_name(
			m->descriptor, path);
		if (!f)
			return -ENOENT;
		if (f->type != PROTOBUF_C_TYPE_MESSAGE) {
			set_scalar(m, f, value);
			return 0;
		}
		if (csi_field_is_map(f)) {
			add_entry(m, f, rest ? rest : "", value);
			return 0;
		}
		m = sub_message(m, f);
		if (!rest) /* "volume_capability.block=": only that it is */
			return 0;
		path = rest;
	}
}

static const struct rpc_method *find_method(const char *name)
{
	size_t n;
	const struct rpc_method *methods = csi_methods(CSI_MODE_ALL, &n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(methods[i].path + strlen("/csi.v1."), name) == 0)
			return &methods[i];
	return NULL;
}

/* Send the call once. Returns 0 or a negative errno, with the text in @err. */
static int call_once(struct rpc_client *client, const struct rpc_method *method,
		     const ProtobufCMessage *in, struct error *err)
{
	static char text[CSI_TEXT_MAX * 16];
	ProtobufCMessage *reply = NULL;
	int r = rpc_client_call(client, method->path, in, method->out, CALL_MS,
				&reply, err);

	if (r == 0 && csi_text(text, sizeof(text), reply)[0])
		printf("%s\n", text);
	if (reply)
		protobuf_c_message_free_unpacked(reply, NULL);
	return r;
}

/* Whether Kubernetes sends the call again: something may be left of it. */
static bool is_open(int r)
{
	enum rpc_code code = rpc_code_from_errno(-r);

	return r < 0 && (code == RPC_ABORTED || code == RPC_UNAVAILABLE);
}

static int call(const char *endpoint, const struct rpc_method *method,
		const ProtobufCMessage *in)
{
	const char *again_s = getenv("CSI_AGAIN_S");
	int64_t end_ms = clock_ms() + (again_s ? atoll(again_s) * 1000 : 0);
	struct rpc_client *client = NULL;
	struct error err = {0};
	char address[128];
	int r = config_endpoint(endpoint, address, sizeof(address), &err);

	if (r == 0)
		r = rpc_client_new(address, NULL, NULL, &client, &err);
	if (r == 0)
		r = call_once(client, method, in, &err);
	while (client && is_open(r) && clock_ms() < end_ms) {
		(void)poll(NULL, 0, AGAIN_MS);
		err = (struct error){0};
		r = call_once(client, method, in, &err);
	}
	if (r < 0)
		printf("%s: %s\n", rpc_code_name(rpc_code_from_errno(-r)),
		       error_text(&err));
	rpc_client_free(client);
	return r < 0;
}

int main(int argc, char **argv)
{
	const struct rpc_method *method = argc > 2 ? find_method(argv[2])
						   : NULL;
	static ProtobufCMessage *in; /* kept to the end */

	if (!method) {
		(void)fprintf(stderr, "see csi_call_main.c\n");
		return 2;
	}
	in = new_message(method->in);
	for (int i = 3; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (value)
			*value++ = '\0';
		if (!value || set(in, argv[i], value) < 0) {
			(void)fprintf(stderr, "no field '%s'\n", argv[i]);
			return 2;
		}
	}
	return call(argv[1], method, in);
}
