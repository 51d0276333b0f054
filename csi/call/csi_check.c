/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/csi_check.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "proto/csi.pb-c.h"

enum kind {
	KIND_PLAIN,        /* the generic rules are enough */
	KIND_NAME,         /* no control characters */
	KIND_NODE_ID,      /* longer */
	KIND_PATH,         /* absolute, and nothing but down */
	KIND_PLACE,        /* a path that is looked up only: any form */
	KIND_NOT_NEGATIVE, /* a number */
	KIND_FLAGS,        /* a list with a limit of its own */
	KIND_TOPOLOGY,     /* a map with rules for keys and values */
};

#define OPTIONAL false
#define REQUIRED true

/* A field's rule. @code: when it is broken; 0: INVALID_ARGUMENT. */
static const struct rule {
	const ProtobufCMessageDescriptor *message;
	const char *field;
	enum kind kind;
	bool required;
	enum rpc_code code;
} rules[] = {
#define RULE(message, field, kind, ...)                                     \
	{                                                                   \
		&csi__v1__##message##__descriptor, field, kind, __VA_ARGS__ \
	}
	RULE(create_volume_request, "name", KIND_NAME, REQUIRED, 0),
	RULE(create_volume_request, "volume_capabilities", KIND_PLAIN, REQUIRED,
	     0),
	RULE(volume_content_source, "snapshot", KIND_PLAIN, REQUIRED, 0),
	RULE(volume_content_source__snapshot_source, "snapshot_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(volume_content_source__volume_source, "volume_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(volume_capability, "block", KIND_PLAIN, REQUIRED, 0),
	RULE(volume_capability, "access_mode", KIND_PLAIN, REQUIRED, 0),
	RULE(volume_capability__access_mode, "mode", KIND_PLAIN, REQUIRED, 0),
	RULE(volume_capability__mount_volume, "mount_flags", KIND_FLAGS,
	     OPTIONAL, 0),
	RULE(capacity_range, "required_bytes", KIND_NOT_NEGATIVE, OPTIONAL, 0),
	RULE(capacity_range, "limit_bytes", KIND_NOT_NEGATIVE, OPTIONAL, 0),
	RULE(topology, "segments", KIND_TOPOLOGY, OPTIONAL, 0),
	RULE(delete_volume_request, "volume_id", KIND_PLAIN, REQUIRED, 0),
	RULE(controller_publish_volume_request, "volume_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(controller_publish_volume_request, "node_id", KIND_NODE_ID,
	     REQUIRED, 0),
	RULE(controller_publish_volume_request, "volume_capability", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(controller_unpublish_volume_request, "volume_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(controller_unpublish_volume_request, "node_id", KIND_NODE_ID,
	     OPTIONAL, 0),
	RULE(validate_volume_capabilities_request, "volume_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(validate_volume_capabilities_request, "volume_capabilities",
	     KIND_PLAIN, REQUIRED, 0),
	RULE(list_volumes_request, "max_entries", KIND_NOT_NEGATIVE, OPTIONAL,
	     0),
	RULE(list_volumes_request, "starting_token", KIND_PLAIN, OPTIONAL,
	     RPC_ABORTED),
	RULE(controller_expand_volume_request, "volume_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(controller_expand_volume_request, "capacity_range", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(controller_get_volume_request, "volume_id", KIND_PLAIN, REQUIRED,
	     0),
	RULE(node_stage_volume_request, "volume_id", KIND_PLAIN, REQUIRED, 0),
	RULE(node_stage_volume_request, "staging_target_path", KIND_PATH,
	     REQUIRED, 0),
	RULE(node_stage_volume_request, "volume_capability", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(node_unstage_volume_request, "volume_id", KIND_PLAIN, REQUIRED, 0),
	RULE(node_unstage_volume_request, "staging_target_path", KIND_PATH,
	     REQUIRED, 0),
	RULE(node_publish_volume_request, "volume_id", KIND_PLAIN, REQUIRED, 0),
	RULE(node_publish_volume_request, "target_path", KIND_PATH, REQUIRED,
	     0),
	RULE(node_publish_volume_request, "volume_capability", KIND_PLAIN,
	     REQUIRED, 0),
	/* Missing only with an inline volume: node_publish.c. */
	RULE(node_publish_volume_request, "staging_target_path", KIND_PATH,
	     OPTIONAL, 0),
	RULE(node_unpublish_volume_request, "volume_id", KIND_PLAIN, REQUIRED,
	     0),
	RULE(node_unpublish_volume_request, "target_path", KIND_PATH, REQUIRED,
	     0),
	RULE(node_get_volume_stats_request, "volume_id", KIND_PLAIN, REQUIRED,
	     0),
	RULE(node_get_volume_stats_request, "volume_path", KIND_PLACE, REQUIRED,
	     0),
	RULE(node_get_volume_stats_request, "staging_target_path", KIND_PLACE,
	     OPTIONAL, 0),
	RULE(node_expand_volume_request, "volume_id", KIND_PLAIN, REQUIRED, 0),
	RULE(node_expand_volume_request, "volume_path", KIND_PLACE, REQUIRED,
	     0),
	RULE(node_expand_volume_request, "staging_target_path", KIND_PLACE,
	     OPTIONAL, 0),
	RULE(controller_modify_volume_request, "volume_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(controller_modify_volume_request, "mutable_parameters", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(create_snapshot_request, "source_volume_id", KIND_PLAIN, REQUIRED,
	     0),
	RULE(create_snapshot_request, "name", KIND_NAME, REQUIRED, 0),
	RULE(delete_snapshot_request, "snapshot_id", KIND_PLAIN, REQUIRED, 0),
	RULE(list_snapshots_request, "max_entries", KIND_NOT_NEGATIVE, OPTIONAL,
	     0),
	RULE(list_snapshots_request, "starting_token", KIND_PLAIN, OPTIONAL,
	     RPC_ABORTED),
	RULE(get_snapshot_request, "snapshot_id", KIND_PLAIN, REQUIRED, 0),
	RULE(create_volume_group_snapshot_request, "name", KIND_NAME, REQUIRED,
	     0),
	RULE(create_volume_group_snapshot_request, "source_volume_ids",
	     KIND_PLAIN, REQUIRED, 0),
	/* snapshot_ids: missing only with a group that is not there. */
	RULE(delete_volume_group_snapshot_request, "group_snapshot_id",
	     KIND_PLAIN, REQUIRED, 0),
	RULE(get_volume_group_snapshot_request, "group_snapshot_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(get_metadata_allocated_request, "snapshot_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(get_metadata_allocated_request, "starting_offset",
	     KIND_NOT_NEGATIVE, OPTIONAL, RPC_OUT_OF_RANGE),
	RULE(get_metadata_allocated_request, "max_results", KIND_NOT_NEGATIVE,
	     OPTIONAL, 0),
	RULE(get_metadata_delta_request, "base_snapshot_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(get_metadata_delta_request, "target_snapshot_id", KIND_PLAIN,
	     REQUIRED, 0),
	RULE(get_metadata_delta_request, "starting_offset", KIND_NOT_NEGATIVE,
	     OPTIONAL, RPC_OUT_OF_RANGE),
	RULE(get_metadata_delta_request, "max_results", KIND_NOT_NEGATIVE,
	     OPTIONAL, 0),
#undef RULE
};

struct check {
	const char *message; /* as the specification names it */
	const char *field;
	enum rpc_code code; /* for what is found wrong now */
	enum rpc_code found;
	struct error *err;
};

static int refuse(struct check *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(struct check *c, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	c->found = c->code ? c->code : RPC_INVALID_ARGUMENT;
	return error_set(c->err, EINVAL, "%s.%s %s", c->message, c->field,
			 text);
}

/* ---- kinds of fields ---- */

bool csi_field_is_map(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *m = field->descriptor;

	/* Its entry is a message the .proto has no word of. */
	return field->type == PROTOBUF_C_TYPE_MESSAGE &&
	       field->label == PROTOBUF_C_LABEL_REPEATED && m->n_fields == 2 &&
	       m->sizeof_message == sizeof(struct csi_entry) &&
	       strcmp(m->fields[0].name, "key") == 0 &&
	       strcmp(m->fields[1].name, "value") == 0;
}

bool csi_field_is_secret(const ProtobufCFieldDescriptor *field)
{
	return strcmp(field->name, "secrets") == 0;
}

static const struct rule *rule_find(const ProtobufCMessageDescriptor *message,
				    const char *field)
{
	for (size_t i = 0; i < array_size(rules); i++)
		if (rules[i].message == message &&
		    strcmp(rules[i].field, field) == 0)
			return &rules[i];
	return NULL;
}

static const void *member(const ProtobufCMessage *m, unsigned offset)
{
	return (const char *)m + offset;
}

static const char *string_of(const ProtobufCMessage *m,
			     const ProtobufCFieldDescriptor *f)
{
	const char *text = *(char *const *)member(m, f->offset);

	return text ? text : "";
}

static size_t count_of(const ProtobufCMessage *m,
		       const ProtobufCFieldDescriptor *f)
{
	return *(const size_t *)member(m, f->quantifier_offset);
}

static ProtobufCMessage *const *messages_of(const ProtobufCMessage *m,
					    const ProtobufCFieldDescriptor *f)
{
	return *(ProtobufCMessage *const *const *)member(m, f->offset);
}

/* The oneof of @f has any member set; without one: @f is set. */
static bool is_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		return *(const uint32_t *)member(m, f->quantifier_offset) != 0;
	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		return count_of(m, f) > 0;
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING: return string_of(m, f)[0];
	case PROTOBUF_C_TYPE_MESSAGE:
		return *(ProtobufCMessage *const *)member(m, f->offset);
	case PROTOBUF_C_TYPE_ENUM:
		return *(const int *)member(m, f->offset) != 0;
	default: return true; /* a number has no way to be missing */
	}
}

/* ---- strings ---- */

/* Return the length of the character at @s; 0: there is none. */
static size_t utf8_length(const unsigned char *s)
{
	size_t n = s[0] < 0x80                   ? 1
		   : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		   : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
		   : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
						 : 0;

	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Too long a form, a surrogate, or past the last character. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

bool csi_utf8_is_valid(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	while (*s) {
		size_t n = utf8_length(s);

		if (n == 0)
			return false;
		s += n;
	}
	return true;
}

/*
 * Tell whether valid UTF-8 has a control character that a name may not have:
 * U+0001-0008, 000B, 000C, 000E-001F, 007F-009F. (U+0000 ends a string in C, so
 * is never seen.)
 */
static bool has_control(const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
		if ((*s < 0x20 && *s != '\t' && *s != '\n' && *s != '\r') ||
		    *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0))
			return true;
	}
	return false;
}

/* Has @path a part "." or ".."? */
static bool has_dots(const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if ((n == 1 && path[0] == '.') ||
		    (n == 2 && path[0] == '.' && path[1] == '.'))
			return true;
		path += n + (path[n] == '/');
	}
	return false;
}

static int check_path(struct check *c, const char *path)
{
	if (path[0] != '/')
		return refuse(c, "has to be an absolute path");
	if (has_dots(path))
		return refuse(c, "has a '.' or '..' in it");
	if (has_control(path) || strpbrk(path, "\t\n\r"))
		return refuse(c, "has a control character in it");
	if (path[strspn(path, "/")] == '\0')
		return refuse(c, "is the root directory");
	return 0;
}

static int check_string(struct check *c, enum kind kind, const char *text)
{
	bool is_path = kind == KIND_PATH || kind == KIND_PLACE;
	size_t max = is_path                ? CSI_PATH_MAX
		     : kind == KIND_NODE_ID ? CSI_NODE_ID_MAX
					    : CSI_STRING_MAX;

	if (strnlen(text, max + 1) > max)
		return refuse(c, "is longer than %zu bytes", max);
	if (!csi_utf8_is_valid(text))
		return refuse(c, "is no UTF-8");
	if (kind == KIND_PATH && text[0])
		return check_path(c, text);
	if (kind == KIND_NAME && has_control(text))
		return refuse(c, "has a control character in it");
	return 0;
}

static int check_flags(struct check *c, char *const *flags, size_t n)
{
	size_t left = CSI_FLAGS_MAX;

	for (size_t i = 0; i < n; i++) {
		size_t length = strnlen(flags[i], left + 1);

		if (length > left)
			return refuse(c, "are longer than %d bytes together",
				      CSI_FLAGS_MAX);
		if (length == 0)
			return refuse(c, "have an empty one among them");
		left -= length;
		if (!csi_utf8_is_valid(flags[i]))
			return refuse(c, "are no UTF-8");
	}
	return 0;
}

/* ---- maps ---- */

static bool is_alnum(char c)
{
	return isascii((unsigned char)c) && isalnum((unsigned char)c);
}

/* "-", "_", "." inside, a letter or digit at both ends; 1 to 63 bytes. */
static bool is_label(const char *text, size_t length, const char *inside)
{
	if (length == 0 || length > CSI_TOPOLOGY_MAX || !is_alnum(text[0]) ||
	    !is_alnum(text[length - 1]))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!is_alnum(text[i]) && !strchr(inside, text[i]))
			return false;
	return true;
}

static int check_topology_key(struct check *c, const struct csi_entry *e,
			      const struct csi_entry *first)
{
	const char *slash = strchr(e->key, '/');
	const char *name = slash ? slash + 1 : e->key;
	size_t prefix = slash ? (size_t)(slash - e->key) : 0;
	const char *first_slash = strchr(first->key, '/');
	size_t first_prefix = first_slash ? (size_t)(first_slash - first->key)
					  : 0;

	if ((slash && !is_label(e->key, prefix, "-.")) ||
	    !is_label(name, strlen(name), "-_."))
		return refuse(c,
			      "have a key that is not PREFIX/NAME, each 1 to "
			      "%d letters, digits, '-', '.' and in the name "
			      "'_'",
			      CSI_TOPOLOGY_MAX);
	if (prefix != first_prefix ||
	    strncasecmp(e->key, first->key, prefix) != 0)
		return refuse(c, "have keys of two prefixes");
	if (e->value[0] && !is_label(e->value, strlen(e->value), "-_."))
		return refuse(c,
			      "have a value that is not 0 to %d letters, "
			      "digits, '-', '_' and '.'",
			      CSI_TOPOLOGY_MAX);
	return 0;
}

static bool is_secret_key(const char *key)
{
	for (const char *s = key; *s; s++)
		if (!is_alnum(*s) && !strchr("-_.", *s))
			return false;
	return key[0];
}

static bool same_key(enum kind kind, const char *a, const char *b)
{
	return kind == KIND_TOPOLOGY ? strcasecmp(a, b) == 0
				     : strcmp(a, b) == 0;
}

/* Each key once: the keys before are at most CSI_MAP_MAX, as each has bytes. */
static int check_keys(struct check *c, enum kind kind,
		      ProtobufCMessage *const *entries, size_t n)
{
	const struct csi_entry *e = (const struct csi_entry *)entries[n];

	if (!e->key[0])
		return refuse(c, "have an empty key");
	for (size_t i = 0; i < n; i++) {
		const struct csi_entry *other =
			(const struct csi_entry *)entries[i];

		if (same_key(kind, other->key, e->key))
			return refuse(c, "have a key twice");
	}
	return 0;
}

static int check_map(struct check *c, const ProtobufCFieldDescriptor *f,
		     enum kind kind, ProtobufCMessage *const *entries, size_t n)
{
	size_t left = CSI_MAP_MAX;

	for (size_t i = 0; i < n; i++) {
		const struct csi_entry *e =
			(const struct csi_entry *)entries[i];
		size_t length = strnlen(e->key, left + 1);
		int r;

		if (length <= left)
			length += strnlen(e->value, left - length + 1);
		if (length > left)
			return refuse(c, "are longer than %d bytes together",
				      CSI_MAP_MAX);
		left -= length;
		r = check_keys(c, kind, entries, i);
		if (r == 0 && (!csi_utf8_is_valid(e->key) ||
			       !csi_utf8_is_valid(e->value)))
			r = refuse(c, "are no UTF-8");
		if (r == 0 && kind == KIND_TOPOLOGY)
			r = check_topology_key(
				c, e, (const struct csi_entry *)entries[0]);
		if (r == 0 && csi_field_is_secret(f) && !is_secret_key(e->key))
			r = refuse(c, "have a key with other characters than "
				      "letters, digits, '-', '_', '.'");
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- all fields of a message ---- */

static int check_message(struct check *c, const ProtobufCMessage *m);

static int check_repeated(struct check *c, const ProtobufCMessage *m,
			  const ProtobufCFieldDescriptor *f, enum kind kind)
{
	size_t n = count_of(m, f);
	int r = 0;

	if (csi_field_is_map(f))
		return check_map(c, f, kind, messages_of(m, f), n);
	if (kind == KIND_FLAGS)
		return check_flags(
			c, *(char *const *const *)member(m, f->offset), n);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = f->type == PROTOBUF_C_TYPE_MESSAGE
			    ? check_message(c, messages_of(m, f)[i])
			    : check_string(c, kind,
					   (*(char *const *const *)member(
						   m, f->offset))[i]);
	return r;
}

static int check_number(struct check *c, enum kind kind, int64_t number)
{
	if (kind == KIND_NOT_NEGATIVE && number < 0)
		return refuse(c, "is %" PRId64 "; it cannot be negative",
			      number);
	return 0;
}

static int check_enum(struct check *c, const ProtobufCFieldDescriptor *f,
		      int value)
{
	if (!protobuf_c_enum_descriptor_get_value(f->descriptor, value))
		return refuse(c, "is %d, which is not known", value);
	return 0;
}

static int check_singular(struct check *c, const ProtobufCMessage *m,
			  const ProtobufCFieldDescriptor *f, enum kind kind)
{
	const void *at = member(m, f->offset);
	const ProtobufCMessage *sub;

	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
		return check_string(c, kind, string_of(m, f));
	case PROTOBUF_C_TYPE_INT64:
		return check_number(c, kind, *(const int64_t *)at);
	case PROTOBUF_C_TYPE_INT32:
		return check_number(c, kind, *(const int32_t *)at);
	case PROTOBUF_C_TYPE_ENUM: return check_enum(c, f, *(const int *)at);
	case PROTOBUF_C_TYPE_MESSAGE:
		sub = *(ProtobufCMessage *const *)at;
		return sub ? check_message(c, sub) : 0;
	default: return 0;
	}
}

/* Of a oneof only the member that is set is there. */
static bool is_other_of_oneof(const ProtobufCMessage *m,
			      const ProtobufCFieldDescriptor *f)
{
	return f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
	       *(const uint32_t *)member(m, f->quantifier_offset) != f->id;
}

static int check_field(struct check *c, const ProtobufCMessage *m,
		       const ProtobufCFieldDescriptor *f)
{
	const struct rule *rule = rule_find(m->descriptor, f->name);
	enum kind kind = rule ? rule->kind : KIND_PLAIN;

	c->message = m->descriptor->short_name;
	c->field = f->name;
	c->code = rule ? rule->code : 0;
	if (is_other_of_oneof(m, f))
		return 0;
	return f->label == PROTOBUF_C_LABEL_REPEATED
		       ? check_repeated(c, m, f, kind)
		       : check_singular(c, m, f, kind);
}

/* In the order of the table. */
static int check_required(struct check *c, const ProtobufCMessage *m)
{
	for (size_t i = 0; i < array_size(rules); i++) {
		const struct rule *rule = &rules[i];
		const ProtobufCFieldDescriptor *f;

		if (rule->message != m->descriptor || !rule->required)
			continue;
		f = protobuf_c_message_descriptor_get_field_by_name(
			m->descriptor, rule->field);
		c->message = m->descriptor->short_name;
		c->field = rule->field;
		c->code = rule->code;
		if (!is_set(m, f))
			return refuse(c, "%s",
				      f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF
					      ? "or its alternative is missing"
					      : "is missing");
	}
	return 0;
}

/* Rules over two fields. */
static int check_pairs(struct check *c, const ProtobufCMessage *m)
{
	c->message = m->descriptor->short_name;
	c->code = 0;
	if (m->descriptor == &csi__v1__capacity_range__descriptor) {
		const Csi__V1__CapacityRange *range = (const void *)m;

		c->field = "required_bytes";
		if (!range->required_bytes && !range->limit_bytes)
			return refuse(c, "and limit_bytes are both missing");
	}
	if (m->descriptor == &csi__v1__topology_requirement__descriptor) {
		const Csi__V1__TopologyRequirement *t = (const void *)m;

		c->field = "requisite";
		if (!t->n_requisite && !t->n_preferred)
			return refuse(c, "and preferred are both missing");
	}
	return 0;
}

static int check_message(struct check *c, const ProtobufCMessage *m)
{
	int r = 0;

	/* The form of what is there first, then what is not there. */
	for (unsigned i = 0; r == 0 && i < m->descriptor->n_fields; i++)
		r = check_field(c, m, &m->descriptor->fields[i]);
	if (r == 0)
		r = check_pairs(c, m);
	if (r == 0)
		r = check_required(c, m);
	return r;
}

int csi_check(const ProtobufCMessage *in, enum rpc_code *ret_code,
	      struct error *err)
{
	struct check c = {.err = err};
	int r = check_message(&c, in);

	if (r < 0)
		*ret_code = c.found;
	return r;
}
