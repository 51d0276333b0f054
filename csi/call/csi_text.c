/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/csi_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "csi/call/csi_check.h"

#define STRING_SHOWN 160 /* bytes of one string, escaped */

struct text {
	char *buf;
	size_t size, used;
};

static void add(struct text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void add(struct text *t, const char *fmt, ...)
{
	va_list args;
	int n;

	if (t->used >= t->size)
		return;
	va_start(args, fmt);
	n = vsnprintf(t->buf + t->used, t->size - t->used, fmt, args);
	va_end(args);
	if (n > 0)
		t->used += (size_t)n;
}

static void add_string(struct text *t, const char *string)
{
	char quoted[STRING_SHOWN];

	add(t, "%s",
	    log_quote(quoted, sizeof(quoted), string ? string : "",
		      string ? (unsigned)strnlen(string, STRING_SHOWN) : 0));
}

static void add_message(struct text *t, const ProtobufCMessage *m);

static void add_value(struct text *t, const ProtobufCFieldDescriptor *f,
		      const void *at)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING: add_string(t, *(char *const *)at); break;
	case PROTOBUF_C_TYPE_MESSAGE:
		add(t, "{");
		add_message(t, *(ProtobufCMessage *const *)at);
		add(t, "}");
		break;
	case PROTOBUF_C_TYPE_INT64:
		add(t, "%" PRId64, *(const int64_t *)at);
		break;
	default: /* int32, enum, bool */ add(t, "%d", *(const int *)at); break;
	}
}

static void add_repeated(struct text *t, const ProtobufCFieldDescriptor *f,
			 const char *items, size_t n)
{
	bool map = csi_field_is_map(f);

	if (csi_field_is_secret(f) || strcmp(f->name, "mount_flags") == 0) {
		add(t, "(%zu)", n);
		return;
	}
	add(t, "[");
	for (size_t i = 0; i < n && t->used < t->size; i++) {
		const void *item = items + i * sizeof(void *);

		if (i > 0)
			add(t, " ");
		if (map) {
			const struct csi_entry *e = *(
				const struct csi_entry *const *)item;

			add_string(t, e->key);
			add(t, "=");
			add_string(t, e->value);
		} else {
			add_value(t, f, item);
		}
	}
	add(t, "]");
}

/* Set to something; 0, false and "" are not. */
static bool text_is_set(const ProtobufCFieldDescriptor *f, const char *m)
{
	const void *at = m + f->offset;
	const char *string;

	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		return *(const uint32_t *)(m + f->quantifier_offset) == f->id;
	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		return *(const size_t *)(m + f->quantifier_offset) > 0;
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
		string = *(char *const *)at;
		return string && string[0];
	case PROTOBUF_C_TYPE_MESSAGE: return *(void *const *)at;
	case PROTOBUF_C_TYPE_INT64: return *(const int64_t *)at != 0;
	default: return *(const int *)at != 0;
	}
}

static void add_message(struct text *t, const ProtobufCMessage *m)
{
	const char *base = (const char *)m;
	bool first = true;

	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		const char *at = base + f->offset;

		if (!text_is_set(f, base))
			continue;
		add(t, "%s%s=", first ? "" : " ", f->name);
		first = false;
		if (f->label == PROTOBUF_C_LABEL_REPEATED)
			add_repeated(
				t, f, *(const char *const *)at,
				*(const size_t *)(base + f->quantifier_offset));
		else
			add_value(t, f, at);
	}
}

const char *csi_text(char *buf, size_t size, const ProtobufCMessage *in)
{
	struct text t = {.buf = buf, .size = size};

	buf[0] = '\0';
	add_message(&t, in);
	return buf;
}
