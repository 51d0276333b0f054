/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_yaml.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <yaml.h>

struct reader {
	yaml_parser_t parser;
	struct error *err;
	unsigned depth;
};

static int refuse(struct reader *reader, const char *what)
{
	return error_set(reader->err, EINVAL, "line %zu: %s",
			 reader->parser.mark.line + 1, what);
}

static int next(struct reader *reader, yaml_event_t *event)
{
	if (yaml_parser_parse(&reader->parser, event))
		return 0;
	return refuse(reader, reader->parser.problem ? reader->parser.problem
						     : "not YAML");
}

static int read_value(struct reader *reader, yaml_event_t *event,
		      struct json_object **ret);

static bool is_word(const yaml_event_t *event, const char *word)
{
	return strcmp((const char *)event->data.scalar.value, word) == 0;
}

static int read_scalar(struct reader *reader, const yaml_event_t *event,
		       struct json_object **ret)
{
	const char *text = (const char *)event->data.scalar.value;
	size_t length = event->data.scalar.length;

	if (strlen(text) != length)
		return refuse(reader, "a NUL character in a text");
	if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
		if (!text[0] || is_word(event, "~") || is_word(event, "null")) {
			*ret = NULL;
			return 0;
		}
		if (is_word(event, "true") || is_word(event, "false")) {
			*ret = json_object_new_boolean(text[0] == 't');
			return 0;
		}
	}
	*ret = json_object_new_string_len(text, (int)length);
	return 0;
}

static int read_list(struct reader *reader, struct json_object *array)
{
	struct json_object *value = NULL;
	yaml_event_t event;
	int r = 0;

	while (r == 0) {
		r = next(reader, &event);
		if (r < 0)
			return r;
		if (event.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&event);
			return 0;
		}
		r = read_value(reader, &event, &value);
		if (r == 0)
			(void)json_object_array_add(array, value);
	}
	return r;
}

static int read_member(struct reader *reader, const char *key,
		       struct json_object *object)
{
	struct json_object *value = NULL;
	yaml_event_t event;
	int r = next(reader, &event);

	if (r == 0)
		r = read_value(reader, &event, &value);
	if (r == 0)
		(void)json_object_object_add(object, key, value);
	return r;
}

static int read_mapping(struct reader *reader, struct json_object *object)
{
	yaml_event_t key;
	int r = 0;

	while (r == 0) {
		r = next(reader, &key);
		if (r < 0)
			return r;
		if (key.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&key);
			return 0;
		}
		if (key.type != YAML_SCALAR_EVENT)
			r = refuse(reader, "a key that is no text");
		else
			r = read_member(reader,
					(const char *)key.data.scalar.value,
					object);
		yaml_event_delete(&key);
	}
	return r;
}

/* The value that starts with @event, which is deleted. */
static int read_value(struct reader *reader, yaml_event_t *event,
		      struct json_object **ret)
{
	struct json_object *value = NULL;
	int r = 0;

	if (++reader->depth > KUBE_YAML_DEPTH_MAX) {
		r = refuse(reader, "too many levels");
	} else if (event->type == YAML_SCALAR_EVENT) {
		r = read_scalar(reader, event, &value);
	} else if (event->type == YAML_SEQUENCE_START_EVENT) {
		value = json_object_new_array();
		r = read_list(reader, value);
	} else if (event->type == YAML_MAPPING_START_EVENT) {
		value = json_object_new_object();
		r = read_mapping(reader, value);
	} else {
		r = refuse(reader, "anchors and aliases are not taken");
	}
	reader->depth--;
	yaml_event_delete(event);
	if (r < 0)
		json_object_put(value);
	else
		*ret = value;
	return r;
}

static int expect(struct reader *reader, yaml_event_type_t type)
{
	yaml_event_t event;
	int r = next(reader, &event);

	if (r < 0)
		return r;
	if (event.type != type)
		r = refuse(reader, "not one document");
	yaml_event_delete(&event);
	return r;
}

int kube_yaml_parse(const char *text, size_t length, struct json_object **ret,
		    struct error *err)
{
	struct reader reader = {.err = err};
	struct json_object *value = NULL;
	yaml_event_t event;
	int r;

	if (!yaml_parser_initialize(&reader.parser))
		return error_set(err, ENOMEM, "out of memory");
	yaml_parser_set_input_string(&reader.parser,
				     (const unsigned char *)text, length);
	r = expect(&reader, YAML_STREAM_START_EVENT);
	if (r == 0)
		r = expect(&reader, YAML_DOCUMENT_START_EVENT);
	if (r == 0)
		r = next(&reader, &event);
	if (r == 0)
		r = read_value(&reader, &event, &value);
	if (r == 0)
		r = expect(&reader, YAML_DOCUMENT_END_EVENT);
	if (r == 0)
		r = expect(&reader, YAML_STREAM_END_EVENT);
	yaml_parser_delete(&reader.parser);
	if (r < 0) {
		json_object_put(value);
		return r;
	}
	*ret = value;
	return 0;
}
