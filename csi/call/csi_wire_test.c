/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What proto/csi.proto became against csi_wire.txt: every method, message,
 * field and enum value, in both directions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/csi.pb-c.h"

#define WIRE_FILE "csi/csi_wire.txt"
#define PACKAGE   "csi.v1."
#define WORDS_MAX 7

static const ProtobufCServiceDescriptor *const services[] = {
	&csi__v1__identity__descriptor,
	&csi__v1__controller__descriptor,
	&csi__v1__group_controller__descriptor,
	&csi__v1__snapshot_metadata__descriptor,
	&csi__v1__node__descriptor,
};

/* Every type that a service reaches, and how much of it a line has named. */
struct type {
	const char *name; /* without the package */
	const ProtobufCMessageDescriptor *message;
	const ProtobufCEnumDescriptor *values;
	unsigned seen;
};

static struct type types[256];
static size_t n_types;

static const char *bare(const char *name)
{
	size_t length = strlen(PACKAGE);

	return strncmp(name, PACKAGE, length) == 0 ? name + length : name;
}

static struct type *type_find(const char *name)
{
	for (size_t i = 0; i < n_types; i++)
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	return NULL;
}

static struct type *type_add(const char *name)
{
	assert_true(n_types < array_size(types));
	types[n_types].name = bare(name);
	return &types[n_types++];
}

static bool is_map(const ProtobufCFieldDescriptor *f)
{
	const ProtobufCMessageDescriptor *m = f->descriptor;
	size_t length;

	if (f->type != PROTOBUF_C_TYPE_MESSAGE ||
	    f->label != PROTOBUF_C_LABEL_REPEATED)
		return false;
	length = strlen(m->short_name);
	return length > 5 && strcmp(m->short_name + length - 5, "Entry") == 0 &&
	       m->n_fields == 2 && strcmp(m->fields[0].name, "key") == 0;
}

static void types_add(const ProtobufCMessageDescriptor *m)
{
	if (type_find(bare(m->name)))
		return;
	type_add(m->name)->message = m;
	for (unsigned i = 0; i < m->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->fields[i];
		const ProtobufCEnumDescriptor *e = f->descriptor;

		if (f->type == PROTOBUF_C_TYPE_MESSAGE && !is_map(f))
			types_add(f->descriptor);
		else if (f->type == PROTOBUF_C_TYPE_ENUM &&
			 !type_find(bare(e->name)))
			type_add(e->name)->values = e;
	}
}

static int setup(void **state)
{
	(void)state;
	n_types = 0;
	memset(types, 0, sizeof(types));
	for (size_t i = 0; i < array_size(services); i++) {
		for (unsigned k = 0; k < services[i]->n_methods; k++) {
			types_add(services[i]->methods[k].input);
			types_add(services[i]->methods[k].output);
		}
	}
	return 0;
}

/* As csi_wire.txt names the type of a field. */
static const char *field_type(const ProtobufCFieldDescriptor *f)
{
	const ProtobufCMessageDescriptor *m = f->descriptor;
	const ProtobufCEnumDescriptor *e = f->descriptor;

	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING: return "string";
	case PROTOBUF_C_TYPE_BOOL: return "bool";
	case PROTOBUF_C_TYPE_INT64: return "int64";
	case PROTOBUF_C_TYPE_INT32: return "int32";
	case PROTOBUF_C_TYPE_ENUM: return bare(e->name);
	case PROTOBUF_C_TYPE_MESSAGE:
		if (!is_map(f))
			return bare(m->name);
		assert_int_equal(m->fields[0].type, PROTOBUF_C_TYPE_STRING);
		assert_int_equal(m->fields[0].id, 1);
		assert_int_equal(m->fields[1].type, PROTOBUF_C_TYPE_STRING);
		assert_int_equal(m->fields[1].id, 2);
		return "map<string,string>";
	default: return "?";
	}
}

/* Two members of one oneof share the place that says which it is. */
static void check_oneof(const ProtobufCMessageDescriptor *m,
			const ProtobufCFieldDescriptor *f, const char *oneof)
{
	bool wanted = strcmp(oneof, "-") != 0;
	unsigned others = 0;

	assert_int_equal(!!(f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF), wanted);
	for (unsigned i = 0; i < m->n_fields; i++)
		others += m->fields[i].flags & PROTOBUF_C_FIELD_FLAG_ONEOF &&
			  m->fields[i].quantifier_offset ==
				  f->quantifier_offset;
	if (wanted)
		assert_true(others >= 1);
}

static void check_field(char **word)
{
	struct type *type = type_find(word[1]);
	const ProtobufCFieldDescriptor *f;
	bool repeated = strcmp(word[5], "repeated") == 0 ||
			strncmp(word[4], "map<", 4) == 0;

	assert_non_null(type);
	assert_non_null(type->message);
	f = protobuf_c_message_descriptor_get_field_by_name(type->message,
							    word[2]);
	if (!f) {
		fail_msg("%s has no %s", word[1], word[2]);
		return;
	}
	assert_int_equal(f->id, strtoul(word[3], NULL, 10));
	assert_string_equal(field_type(f), word[4]);
	assert_int_equal(f->label == PROTOBUF_C_LABEL_REPEATED, repeated);
	check_oneof(type->message, f, word[6]);
	type->seen++;
}

static void check_enum(char **word)
{
	struct type *type = type_find(word[1]);
	const ProtobufCEnumValue *value;

	assert_non_null(type);
	assert_non_null(type->values);
	value = protobuf_c_enum_descriptor_get_value_by_name(type->values,
							     word[2]);
	assert_non_null(value);
	assert_int_equal(value->value, strtol(word[3], NULL, 10));
	type->seen++;
}

static unsigned check_method(char **word)
{
	char *method = strchr(word[0], '/');

	assert_non_null(method);
	*method++ = '\0';
	for (size_t i = 0; i < array_size(services); i++) {
		const ProtobufCMethodDescriptor *m;

		if (strcmp(bare(services[i]->name), word[0]) != 0)
			continue;
		m = protobuf_c_service_descriptor_get_method_by_name(
			services[i], method);
		assert_non_null(m);
		assert_string_equal(bare(m->input->name), word[1]);
		assert_string_equal(bare(m->output->name), word[2]);
		return 1;
	}
	fail_msg("no service %s", word[0]);
	return 0;
}

static int split_words(char *line, char **word)
{
	char *rest = NULL;
	int n = 0;

	for (char *w = strtok_r(line, " \n", &rest); w && n < WORDS_MAX;
	     w = strtok_r(NULL, " \n", &rest))
		word[n++] = w;
	return n;
}

static void is_what_the_specification_has_and_nothing_else(void **state)
{
	auto_fclose FILE *file = fopen(WIRE_FILE, "re");
	unsigned methods = 0, has_methods = 0;
	char line[256];

	(void)state;
	if (!file)
		fail_msg("run at the top of the tree: no " WIRE_FILE);
	while (fgets(line, sizeof(line), file)) {
		char *word[WORDS_MAX] = {NULL};
		int n = line[0] == '#' ? 0 : split_words(line, word);

		if (n == 0)
			continue;
		if (strcmp(word[0], "field") == 0 && n == 7)
			check_field(word);
		else if (strcmp(word[0], "enum") == 0 && n == 4)
			check_enum(word);
		else if (strcmp(word[0], "message") == 0 && n == 2)
			assert_int_equal(type_find(word[1])->message->n_fields,
					 0);
		else
			methods += check_method(word);
	}
	for (size_t i = 0; i < array_size(services); i++)
		has_methods += services[i]->n_methods;
	assert_int_equal(methods, 32);
	assert_int_equal(has_methods, 32);
	for (size_t i = 0; i < n_types; i++) {
		const struct type *t = &types[i];
		bool ours = strncmp(t->name, "google.", 7) != 0;

		if (ours && t->seen != (t->message ? t->message->n_fields
						   : t->values->n_values))
			fail_msg("%s has more than the specification", t->name);
	}
}

static void has_the_well_known_types_as_they_are_on_the_wire(void **state)
{
	/* Of protobuf's encoding: BoolValue false is there, and empty. */
	static const uint8_t probe[] = {0x0a, 0x00};
	/* Int64Value 300 in field 2. */
	static const uint8_t capacity[] = {0x12, 0x03, 0x08, 0xac, 0x02};
	Csi__V1__ProbeResponse *p = csi__v1__probe_response__unpack(
		NULL, sizeof(probe), probe);
	Csi__V1__GetCapacityResponse *c =
		csi__v1__get_capacity_response__unpack(NULL, sizeof(capacity),
						       capacity);

	(void)state;
	assert_non_null(p->ready);
	assert_false(p->ready->value);
	assert_int_equal(c->maximum_volume_size->value, 300);
	assert_null(c->minimum_volume_size);
	csi__v1__probe_response__free_unpacked(p, NULL);
	csi__v1__get_capacity_response__free_unpacked(c, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(
			is_what_the_specification_has_and_nothing_else, setup),
		cmocka_unit_test(
			has_the_well_known_types_as_they_are_on_the_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
