/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: make one call of the control API and print the reply as JSON.
 *
 *	blockd_call ADDRESS METHOD [FIELD=VALUE...]
 *
 * A repeated field is given more than once; a label is labels=KEY=VALUE,
 * another message within FIELD=SUBFIELD:VALUE,SUBFIELD:VALUE, or
 * FIELD.SUBFIELD=VALUE. A stream is printed a message a line.
 * Exit 0, or 1 with "ERRNO: text" on standard error, or 2 for wrong usage.
 */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/blockd.pb-c.h"
#include "rpc/rpc.h"

#define TIMEOUT_MS 30000

static const ProtobufCMethodDescriptor *find_method(const char *name)
{
	return protobuf_c_service_descriptor_get_method_by_name(
		&tributary__v1__blockd__descriptor, name);
}

/* ---- the request ---- */

static void *label(const char *text)
{
	const char *equals = strchr(text, '=');
	Tributary__V1__Label *made = equals ? malloc(sizeof(*made)) : NULL;

	if (!made)
		return NULL;
	tributary__v1__label__init(made);
	made->key = strndup(text, (size_t)(equals - text));
	made->value = strdup(equals + 1);
	return made;
}

static int set_field(ProtobufCMessage *message, const char *name,
		     const char *value);

/* "name:value,name:value" */
static void *submessage(const ProtobufCMessageDescriptor *type,
			const char *text)
{
	ProtobufCMessage *made = malloc(type->sizeof_message);
	auto_free char *copy = strdup(text);
	char *rest = copy, *part;

	if (!made || !copy)
		abort();
	protobuf_c_message_init(type, made);
	while ((part = strsep(&rest, ","))) {
		char *value = strchr(part, ':');

		if (value)
			*value++ = '\0';
		if (!value || set_field(made, part, value) < 0) {
			protobuf_c_message_free_unpacked(made, NULL);
			return NULL;
		}
	}
	return made;
}

static void *message_value(const ProtobufCFieldDescriptor *field,
			   const char *value)
{
	return field->descriptor == &tributary__v1__label__descriptor
		       ? label(value)
		       : submessage(field->descriptor, value);
}

static int add_repeated(const ProtobufCFieldDescriptor *field,
			unsigned char *message, const char *value)
{
	size_t *count = (size_t *)(message + field->quantifier_offset);
	void ***array = (void ***)(message + field->offset);
	void **grown = realloc(*count ? *array : NULL,
			       (*count + 1) * sizeof(void *));

	if (!grown)
		return -ENOMEM;
	*array = grown;
	grown[*count] = field->type == PROTOBUF_C_TYPE_MESSAGE
				? message_value(field, value)
				: strdup(value);
	return grown[(*count)++] ? 0 : -EINVAL;
}

static int set_field(ProtobufCMessage *message, const char *name,
		     const char *value)
{
	unsigned char *bytes = (unsigned char *)message;
	const ProtobufCFieldDescriptor *field;

	field = protobuf_c_message_descriptor_get_field_by_name(
		message->descriptor, name);
	if (!field)
		return -EINVAL;
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return add_repeated(field, bytes, value);
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
		*(char **)(bytes + field->offset) = strdup(value);
		return 0;
	case PROTOBUF_C_TYPE_UINT64:
		*(uint64_t *)(bytes + field->offset) = strtoull(value, NULL,
								10);
		return 0;
	case PROTOBUF_C_TYPE_UINT32:
		*(uint32_t *)(bytes + field->offset) = (uint32_t)strtoul(
			value, NULL, 10);
		return 0;
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)(bytes + field->offset) =
			strcmp(value, "true") == 0;
		return 0;
	case PROTOBUF_C_TYPE_MESSAGE:
		*(void **)(bytes + field->offset) = message_value(field, value);
		return *(void **)(bytes + field->offset) ? 0 : -EINVAL;
	default: return -EINVAL;
	}
}

/* Of the message within @message, which is made if it is not there. */
static int set_within(ProtobufCMessage *message, const char *name,
		      const char *sub, const char *value)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(
			message->descriptor, name);
	ProtobufCMessage **at;

	if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE ||
	    field->label == PROTOBUF_C_LABEL_REPEATED)
		return -EINVAL;
	at = (ProtobufCMessage **)((unsigned char *)message + field->offset);
	if (!*at) {
		const ProtobufCMessageDescriptor *type = field->descriptor;

		*at = malloc(type->sizeof_message);
		if (!*at)
			return -ENOMEM;
		protobuf_c_message_init(type, *at);
	}
	return set_field(*at, sub, value);
}

/* "name=value" */
static int set_argument(ProtobufCMessage *message, const char *text)
{
	const char *equals = strchr(text, '=');
	auto_free char *name = NULL;
	char *sub;

	if (!equals)
		return -EINVAL;
	name = strndup(text, (size_t)(equals - text));
	sub = name ? strchr(name, '.') : NULL;
	if (sub) {
		*sub++ = '\0';
		return set_within(message, name, sub, equals + 1);
	}
	return set_field(message, name, equals + 1);
}

/* ---- the reply ---- */

static struct json_object *to_json(const ProtobufCMessage *message);

static struct json_object *value_to_json(const ProtobufCFieldDescriptor *field,
					 const void *at)
{
	switch (field->type) {
	case PROTOBUF_C_TYPE_STRING:
		return json_object_new_string(*(char *const *)at);
	case PROTOBUF_C_TYPE_UINT64:
		return json_object_new_uint64(*(const uint64_t *)at);
	case PROTOBUF_C_TYPE_UINT32:
		return json_object_new_uint64(*(const uint32_t *)at);
	case PROTOBUF_C_TYPE_BOOL:
		return json_object_new_boolean(*(const protobuf_c_boolean *)at);
	case PROTOBUF_C_TYPE_MESSAGE:
		return to_json(*(const ProtobufCMessage *const *)at);
	default: return NULL;
	}
}

static struct json_object *to_json(const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *type;
	struct json_object *object;

	if (!message)
		return NULL;
	type = message->descriptor;
	object = json_object_new_object();
	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &type->fields[i];
		const unsigned char *bytes = (const unsigned char *)message;
		const unsigned char *at = bytes + field->offset;
		struct json_object *value;

		if (field->label == PROTOBUF_C_LABEL_REPEATED) {
			size_t n = *(const size_t *)(bytes +
						     field->quantifier_offset);
			void *const *items = *(void **const *)at;

			value = json_object_new_array();
			for (size_t j = 0; j < n; j++)
				json_object_array_add(
					value, value_to_json(field, &items[j]));
		} else {
			value = value_to_json(field, at);
		}
		json_object_object_add(object, field->name, value);
	}
	return object;
}

static void print_reply(const ProtobufCMessage *reply)
{
	struct json_object *object = to_json(reply);

	(void)puts(json_object_to_json_string_ext(
		object,
		JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}

static int print_each(void *context, const ProtobufCMessage *message)
{
	(void)context;
	print_reply(message);
	return 0;
}

static int call(const char *address, const ProtobufCMethodDescriptor *method,
		const ProtobufCMessage *request)
{
	struct error err = {0};
	struct rpc_client *client = NULL;
	ProtobufCMessage *reply = NULL;
	char path[128];
	int r = rpc_client_new(address, NULL, NULL, &client, &err);

	(void)snprintf(path, sizeof(path), "/%s/%s",
		       tributary__v1__blockd__descriptor.name, method->name);
	if (r == 0 && strcmp(method->name, "ListRanges") == 0)
		r = rpc_client_stream(client, path, request, method->output,
				      TIMEOUT_MS, print_each, NULL, &err);
	else if (r == 0)
		r = rpc_client_call(client, path, request, method->output,
				    TIMEOUT_MS, &reply, &err);
	if (r == 0 && reply)
		print_reply(reply);
	protobuf_c_message_free_unpacked(reply, NULL);
	if (r < 0) {
		const char *name = strerrorname_np(-r);

		(void)fprintf(stderr, "%s: %s\n", name ? name : "?",
			      error_text(&err));
	}
	rpc_client_free(client);
	return r == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	const ProtobufCMethodDescriptor *method =
		argc < 3 ? NULL : find_method(argv[2]);
	ProtobufCMessage *request;
	int status;

	if (!method) {
		(void)fprintf(
			stderr,
			"usage: blockd_call ADDRESS METHOD FIELD=VALUE\n");
		return 2;
	}
	request = malloc(method->input->sizeof_message);
	if (!request)
		return 1;
	protobuf_c_message_init(method->input, request);
	for (int i = 3; i < argc; i++) {
		if (set_argument(request, argv[i]) < 0) {
			(void)fprintf(stderr, "blockd_call: bad field '%s'\n",
				      argv[i]);
			return 2;
		}
	}
	status = call(argv[1], method, request);
	protobuf_c_message_free_unpacked(request, NULL);
	return status;
}
