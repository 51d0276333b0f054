/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/csi_check.h"
#include "csi/call/csi_text.h"
#include "proto/csi.pb-c.h"

static char long_text[8192];

/* @n bytes of 'x'; valid until the next call. */
static char *text_of(size_t n)
{
	memset(long_text, 'x', n);
	long_text[n] = '\0';
	return long_text;
}

static void good(const void *in)
{
	enum rpc_code code;
	struct error err = {0};

	if (csi_check(in, &code, &err) != 0)
		fail_msg("%s", err.msg);
}

static void bad_code(const void *in, enum rpc_code want, const char *text)
{
	enum rpc_code code = RPC_OK;
	struct error err = {0};

	assert_int_equal(csi_check(in, &code, &err), -EINVAL);
	assert_int_equal(code, want);
	if (!strstr(err.msg, text))
		fail_msg("does not say '%s': %s", text, err.msg);
}

static void bad(const void *in, const char *text)
{
	bad_code(in, RPC_INVALID_ARGUMENT, text);
}

/* A request that is right; tests break one thing in it. */
struct create {
	Csi__V1__CreateVolumeRequest in;
	Csi__V1__VolumeCapability cap, *caps[1];
	Csi__V1__VolumeCapability__AccessMode mode;
	Csi__V1__VolumeCapability__MountVolume mount;
	Csi__V1__CapacityRange range;
	Csi__V1__TopologyRequirement topology;
	Csi__V1__Topology place, *places[1];
};

static struct create *create_new(void)
{
	static struct create c;

	csi__v1__create_volume_request__init(&c.in);
	csi__v1__volume_capability__init(&c.cap);
	csi__v1__volume_capability__access_mode__init(&c.mode);
	csi__v1__volume_capability__mount_volume__init(&c.mount);
	csi__v1__capacity_range__init(&c.range);
	csi__v1__topology_requirement__init(&c.topology);
	csi__v1__topology__init(&c.place);
	c.in.name = "a name";
	c.in.n_volume_capabilities = 1;
	c.in.volume_capabilities = c.caps;
	c.caps[0] = &c.cap;
	c.cap.access_mode = &c.mode;
	c.cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	c.cap.mount = &c.mount;
	c.mode.mode =
		CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
	c.in.capacity_range = &c.range;
	c.range.required_bytes = 1;
	c.in.accessibility_requirements = &c.topology;
	c.topology.n_requisite = 1;
	c.topology.requisite = c.places;
	c.places[0] = &c.place;
	return &c;
}

typedef Csi__V1__CreateVolumeRequest__ParametersEntry pair;

/* A map of @n pairs, "key", "value", ...; owned by the test. */
static void map_set(void *ret_n, void *ret_entries, size_t n,
		    const char *const *words)
{
	static pair pairs[64];
	static pair *pointers[64];

	for (size_t i = 0; i < n; i++) {
		csi__v1__create_volume_request__parameters_entry__init(
			&pairs[i]);
		pairs[i].key = (char *)words[2 * i];
		pairs[i].value = (char *)words[2 * i + 1];
		pointers[i] = &pairs[i];
	}
	*(size_t *)ret_n = n;
	*(pair ***)ret_entries = pointers;
}

#define MAP(m, field, ...)                                                    \
	do {                                                                  \
		static const char *words_[64];                                \
		const char *const given_[] = {__VA_ARGS__};                   \
		memcpy(words_, given_, sizeof(given_));                       \
		map_set(&(m)->n_##field, &(m)->field, array_size(given_) / 2, \
			words_);                                              \
	} while (0)

static void takes_what_is_right(void **state)
{
	static Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	struct create *c = create_new();

	(void)state;
	good(&c->in);
	c->cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	c->cap.block = &block;
	good(&c->in);
}

static void wants_every_required_field(void **state)
{
	struct create *c = create_new();

	(void)state;
	c->in.name = "";
	bad(&c->in, "CreateVolumeRequest.name is missing");
	c = create_new();
	c->in.n_volume_capabilities = 0;
	bad(&c->in, "volume_capabilities is missing");
	c = create_new();
	c->cap.access_mode = NULL;
	bad(&c->in, "VolumeCapability.access_mode is missing");
	c = create_new();
	c->cap.access_type_case = 0;
	bad(&c->in, "VolumeCapability.block or its alternative is missing");
	c = create_new();
	c->mode.mode = 0;
	bad(&c->in, "AccessMode.mode is missing");
	c = create_new();
	c->range.required_bytes = 0;
	bad(&c->in, "required_bytes and limit_bytes are both missing");
	c = create_new();
	c->topology.n_requisite = 0;
	bad(&c->in, "requisite and preferred are both missing");
}

/* Of each request: empty but for what is numbered, in the order checked. */
static void wants_the_ids_and_paths_of_every_method(void **state)
{
	static const struct {
		const ProtobufCMessageDescriptor *type;
		const char *fields[4]; /* each set after its complaint */
	} rows[] = {
		{&csi__v1__delete_volume_request__descriptor, {"volume_id"}},
		{&csi__v1__controller_publish_volume_request__descriptor,
		 {"volume_id", "node_id", "volume_capability"}},
		{&csi__v1__controller_unpublish_volume_request__descriptor,
		 {"volume_id"}},
		{&csi__v1__validate_volume_capabilities_request__descriptor,
		 {"volume_id", "volume_capabilities"}},
		{&csi__v1__controller_get_volume_request__descriptor,
		 {"volume_id"}},
		{&csi__v1__node_stage_volume_request__descriptor,
		 {"volume_id", "staging_target_path", "volume_capability"}},
		{&csi__v1__node_unstage_volume_request__descriptor,
		 {"volume_id", "staging_target_path"}},
		{&csi__v1__node_publish_volume_request__descriptor,
		 {"volume_id", "target_path", "volume_capability"}},
		{&csi__v1__node_unpublish_volume_request__descriptor,
		 {"volume_id", "target_path"}},
		{&csi__v1__node_get_volume_stats_request__descriptor,
		 {"volume_id", "volume_path"}},
	};

	(void)state;
	for (size_t i = 0; i < array_size(rows); i++) {
		ProtobufCMessage *m = calloc(1, rows[i].type->sizeof_message);

		protobuf_c_message_init(rows[i].type, m);
		for (size_t k = 0; k < 4 && rows[i].fields[k]; k++) {
			const ProtobufCFieldDescriptor *f =
				protobuf_c_message_descriptor_get_field_by_name(
					rows[i].type, rows[i].fields[k]);
			char text[64];

			(void)snprintf(text, sizeof(text), ".%s is missing",
				       f->name);
			bad(m, text);
			if (f->type != PROTOBUF_C_TYPE_STRING)
				break;
			*(char **)((char *)m + f->offset) = "/x";
		}
		free(m);
	}
}

static void a_staging_path_may_be_missing_when_publishing(void **state)
{
	struct create *c = create_new();
	Csi__V1__NodePublishVolumeRequest in =
		CSI__V1__NODE_PUBLISH_VOLUME_REQUEST__INIT;

	(void)state;
	in.volume_id = "x";
	in.target_path = "/t";
	in.volume_capability = &c->cap;
	good(&in); /* of an inline volume */
	in.staging_target_path = "relative";
	bad(&in, "absolute");
	in.staging_target_path = "/s";
	good(&in);
	in.target_path = "";
	in.staging_target_path = "";
	bad(&in, "target_path is missing");
}

/* Where nothing is, there is no volume: that is for who looks to say. */
static void a_path_that_is_only_looked_up_has_any_form(void **state)
{
	static char *const paths[] = {"some/path", "..", "/", "/a/../b", "x"};
	Csi__V1__NodeGetVolumeStatsRequest stats =
		CSI__V1__NODE_GET_VOLUME_STATS_REQUEST__INIT;
	Csi__V1__NodeExpandVolumeRequest expand =
		CSI__V1__NODE_EXPAND_VOLUME_REQUEST__INIT;

	(void)state;
	stats.volume_id = expand.volume_id = "x";
	for (size_t i = 0; i < array_size(paths); i++) {
		stats.volume_path = expand.volume_path = paths[i];
		stats.staging_target_path = paths[i];
		expand.staging_target_path = paths[i];
		good(&stats);
		good(&expand);
	}
	stats.volume_path = text_of(4097);
	bad(&stats, "longer");
}

static void bounds_every_string(void **state)
{
	struct create *c = create_new();
	Csi__V1__DeleteVolumeRequest del = CSI__V1__DELETE_VOLUME_REQUEST__INIT;
	Csi__V1__ControllerUnpublishVolumeRequest un =
		CSI__V1__CONTROLLER_UNPUBLISH_VOLUME_REQUEST__INIT;

	(void)state;
	c->in.name = text_of(128);
	good(&c->in);
	c->in.name = text_of(129);
	bad(&c->in, "longer than 128 bytes");
	del.volume_id = text_of(128);
	good(&del);
	del.volume_id = text_of(129);
	bad(&del, "longer than 128 bytes");
	un.volume_id = "x";
	un.node_id = text_of(256);
	good(&un);
	un.node_id = text_of(257);
	bad(&un, "longer than 256 bytes");
	c = create_new();
	c->mount.fs_type = text_of(129);
	bad(&c->in, "MountVolume.fs_type is longer");
}

static void bounds_paths_by_what_the_system_takes(void **state)
{
	static const char *const wrong[] = {"x",    "./x",  "/a/../b", "/..",
					    "/a/.", "/a\n", "/",       "//"};
	static const char *const right[] = {"/x", "/a/b/", "/a..b/...",
					    "/Grüße an", "/.a"};
	Csi__V1__NodeUnpublishVolumeRequest in =
		CSI__V1__NODE_UNPUBLISH_VOLUME_REQUEST__INIT;

	(void)state;
	in.volume_id = "x";
	in.target_path = text_of(4095);
	in.target_path[0] = '/';
	good(&in);
	in.target_path = text_of(4096);
	in.target_path[0] = '/';
	bad(&in, "longer than 4095 bytes");
	for (size_t i = 0; i < array_size(wrong); i++) {
		in.target_path = (char *)wrong[i];
		bad(&in, "target_path");
	}
	for (size_t i = 0; i < array_size(right); i++) {
		in.target_path = (char *)right[i];
		good(&in);
	}
}

static void takes_any_name_but_control_characters(void **state)
{
	static const char *const right[] = {"日本語", "a/b c", "\t\n\r",
					    "\xc2\xa0", "\xf0\x9f\x98\x80"};
	static const char *const wrong[] = {"a\x01", "a\x08",    "\x0b",
					    "\x0c",  "\x0e",     "\x1f",
					    "\x7f",  "\xc2\x80", "\xc2\x9f"};
	static const char *const no_utf8[] = {
		"\xff",         "\xc0\x80",         "\xed\xa0\x80",
		"\xe0\x80\x80", "\xf4\x90\x80\x80", "\xc3",
		"a\x80",        "\xf0\x80\x80\x80", "\xf5\x80\x80\x80"};
	struct create *c = create_new();

	(void)state;
	for (size_t i = 0; i < array_size(right); i++) {
		c->in.name = (char *)right[i];
		good(&c->in);
	}
	for (size_t i = 0; i < array_size(wrong); i++) {
		c->in.name = (char *)wrong[i];
		bad(&c->in, "control character");
	}
	for (size_t i = 0; i < array_size(no_utf8); i++) {
		c->in.name = (char *)no_utf8[i];
		bad(&c->in, "no UTF-8");
	}
}

static void bounds_maps(void **state)
{
	struct create *c = create_new();
	char *value = strdup(text_of(4095));

	(void)state;
	MAP(&c->in, parameters, "k", value);
	good(&c->in);
	MAP(&c->in, parameters, "kk", value);
	bad(&c->in, "parameters are longer than 4096 bytes together");
	MAP(&c->in, parameters, "a", "1", "b", "2", "a", "1");
	bad(&c->in, "parameters have a key twice");
	MAP(&c->in, parameters, "", "1");
	bad(&c->in, "parameters have an empty key");
	MAP(&c->in, parameters, "a", "\xff");
	bad(&c->in, "parameters are no UTF-8");
	free(value);
}

static void checks_the_keys_of_secrets_without_showing_them(void **state)
{
	struct create *c = create_new();
	char text[CSI_TEXT_MAX];
	enum rpc_code code;
	struct error err = {0};

	(void)state;
	MAP(&c->in, secrets, "user.name-1_A", "hunter2");
	good(&c->in);
	csi_text(text, sizeof(text), &c->in.base);
	assert_null(strstr(text, "hunter2"));
	assert_null(strstr(text, "user.name"));
	assert_non_null(strstr(text, "secrets=(1)"));
	MAP(&c->in, secrets, "hunter2 word", "hunter3");
	assert_int_equal(csi_check(&c->in.base, &code, &err), -EINVAL);
	assert_null(strstr(err.msg, "hunter"));
}

/* The compiler for C drops what marks them: the name is the rule. */
static void knows_every_map_of_secrets(void **state)
{
	static const ProtobufCServiceDescriptor *const services[] = {
		&csi__v1__controller__descriptor,
		&csi__v1__group_controller__descriptor,
		&csi__v1__snapshot_metadata__descriptor,
		&csi__v1__node__descriptor,
	};
	unsigned secrets = 0;

	(void)state;
	for (size_t i = 0; i < array_size(services); i++) {
		for (unsigned k = 0; k < services[i]->n_methods; k++) {
			const ProtobufCMessageDescriptor *m =
				services[i]->methods[k].input;

			for (unsigned f = 0; f < m->n_fields; f++) {
				if (!csi_field_is_secret(&m->fields[f]))
					continue;
				assert_true(csi_field_is_map(&m->fields[f]));
				secrets++;
			}
		}
	}
	/* As many as csi_wire.txt has. */
	assert_int_equal(secrets, 19);
}

static void never_shows_mount_flags(void **state)
{
	struct create *c = create_new();
	static char *flags[] = {"password=hunter2"};
	char text[CSI_TEXT_MAX];

	(void)state;
	c->mount.mount_flags = flags;
	c->mount.n_mount_flags = 1;
	csi_text(text, sizeof(text), &c->in.base);
	assert_null(strstr(text, "hunter2"));
	assert_non_null(strstr(text, "mount_flags=(1)"));
	assert_non_null(strstr(text, "name=\"a name\""));
	assert_non_null(strstr(text, "required_bytes=1"));
}

static void cuts_what_it_shows(void **state)
{
	struct create *c = create_new();
	char text[64];

	(void)state;
	c->in.name = "a\nb\"c";
	memset(text, 'z', sizeof(text));
	csi_text(text, 48, &c->in.base);
	assert_true(strlen(text) < 48);
	assert_null(strchr(text, '\n'));
	assert_int_equal(text[48], 'z');
}

static void bounds_mount_flags_together(void **state)
{
	struct create *c = create_new();
	char *half = strdup(text_of(2048));
	static char *flags[3];

	(void)state;
	flags[0] = flags[1] = half;
	flags[2] = "x";
	c->mount.mount_flags = flags;
	c->mount.n_mount_flags = 2;
	good(&c->in);
	c->mount.n_mount_flags = 3;
	bad(&c->in, "mount_flags are longer than 4096 bytes together");
	free(half);
}

static void checks_topology_keys_and_values(void **state)
{
	struct create *c = create_new();

	(void)state;
	MAP(&c->place, segments, "a.b-c/zone", "Z1", "a.b-c/rack_1", "R-1.x_y");
	good(&c->in);
	MAP(&c->place, segments, "zone", "");
	good(&c->in);
	MAP(&c->place, segments, "a/zone", "z", "b/rack", "r");
	bad(&c->in, "keys of two prefixes");
	MAP(&c->place, segments, "a/zone", "z", "a/ZONE", "r");
	bad(&c->in, "key twice");
	MAP(&c->place, segments, "a/-zone", "z");
	bad(&c->in, "PREFIX/NAME");
	MAP(&c->place, segments, "a/b/c", "z");
	bad(&c->in, "PREFIX/NAME");
	MAP(&c->place, segments, "/c", "z");
	bad(&c->in, "PREFIX/NAME");
	MAP(&c->place, segments, text_of(64), "z");
	bad(&c->in, "PREFIX/NAME");
	MAP(&c->place, segments, text_of(63), "z");
	good(&c->in);
	MAP(&c->place, segments, "a/zone", "-z");
	bad(&c->in, "a value");
	MAP(&c->place, segments, "a/zone", text_of(64));
	bad(&c->in, "a value");
}

static void refuses_negative_sizes_and_unknown_modes(void **state)
{
	struct create *c = create_new();
	Csi__V1__ListVolumesRequest list = CSI__V1__LIST_VOLUMES_REQUEST__INIT;

	(void)state;
	c->range.required_bytes = -1;
	bad(&c->in, "required_bytes is -1");
	c = create_new();
	c->range.limit_bytes = INT64_MIN;
	bad(&c->in, "limit_bytes is -9223372036854775808");
	c->range.limit_bytes = INT64_MAX;
	good(&c->in);
	c->mode.mode = 8;
	bad(&c->in, "AccessMode.mode is 8, which is not known");
	list.max_entries = -1;
	bad(&list, "max_entries");
	list.max_entries = INT32_MAX;
	good(&list);
	list.starting_token = text_of(129);
	bad_code(&list, RPC_ABORTED, "starting_token is longer");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_what_is_right),
		cmocka_unit_test(wants_every_required_field),
		cmocka_unit_test(wants_the_ids_and_paths_of_every_method),
		cmocka_unit_test(a_staging_path_may_be_missing_when_publishing),
		cmocka_unit_test(a_path_that_is_only_looked_up_has_any_form),
		cmocka_unit_test(bounds_every_string),
		cmocka_unit_test(bounds_paths_by_what_the_system_takes),
		cmocka_unit_test(takes_any_name_but_control_characters),
		cmocka_unit_test(bounds_maps),
		cmocka_unit_test(
			checks_the_keys_of_secrets_without_showing_them),
		cmocka_unit_test(knows_every_map_of_secrets),
		cmocka_unit_test(never_shows_mount_flags),
		cmocka_unit_test(cuts_what_it_shows),
		cmocka_unit_test(bounds_mount_flags_together),
		cmocka_unit_test(checks_topology_keys_and_values),
		cmocka_unit_test(refuses_negative_sizes_and_unknown_modes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
