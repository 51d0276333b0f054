/* SPDX-License-Identifier: Apache-2.0 */
/* ValidateVolumeCapabilities, what no orchestrator sends, and what the service
 * says it can. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/testkit/controller_test_kit.h"

/* ---- ValidateVolumeCapabilities ---- */

/* NULL: confirmed; else the message that has to have the text. */
static void validated(struct test *t, const struct validate *v,
		      const char *text)
{
	Csi__V1__ValidateVolumeCapabilitiesResponse *reply;

	assert_int_equal(kit_call(&t->kit, VALIDATE, &v->in, &reply), RPC_OK);
	if (text) {
		assert_null(reply->confirmed);
		assert_non_null(strstr(reply->message, text));
	} else {
		assert_non_null(reply->confirmed);
		assert_int_equal(reply->confirmed->n_volume_capabilities,
				 v->in.n_volume_capabilities);
		assert_int_equal(reply->confirmed->n_parameters,
				 v->in.n_parameters);
		assert_int_equal(reply->confirmed->volume_capabilities[0]
					 ->access_mode->mode,
				 v->c.mode.mode);
	}
	kit_free(reply);
}

static void confirms_what_can_be_done(void **state)
{
	static const int modes[] = {
		MODE(SINGLE_NODE_WRITER), MODE(SINGLE_NODE_READER_ONLY),
		MODE(SINGLE_NODE_SINGLE_WRITER), MODE(SINGLE_NODE_MULTI_WRITER),
		MODE(MULTI_NODE_READER_ONLY)};
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct validate v = {0};
	Csi__V1__ValidateVolumeCapabilitiesRequest__ParametersEntry p, *ps[1];

	for (size_t i = 0; i < array_size(modes); i++) {
		validate_init(&v, id);
		v.c.mode.mode =
			(Csi__V1__VolumeCapability__AccessMode__Mode)modes[i];
		validated(t, &v, NULL);
	}
	csi__v1__validate_volume_capabilities_request__parameters_entry__init(
		&p);
	p.key = "createPolicy";
	p.value = "pfrd";
	ps[0] = &p;
	v.in.parameters = ps;
	v.in.n_parameters = 1;
	validated(t, &v, NULL);
	p.value = "ff";
	validated(t, &v, "other parameters");
	p.key = "unknown";
	validated(t, &v, "not known");
}

static void says_no_without_an_error(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct validate v = {0};
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	Csi__V1__ValidateVolumeCapabilitiesRequest__VolumeContextEntry e,
		*es[1];

	validate_init(&v, id);
	v.c.mode.mode = MODE(MULTI_NODE_MULTI_WRITER);
	validated(t, &v, "one node");
	validate_init(&v, id);
	v.c.cap.access_type_case =
		CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	v.c.cap.block = &block;
	validated(t, &v, "not a block device");
	validate_init(&v, id);
	v.c.mount.fs_type = "xfs";
	validated(t, &v, "ext4");
	validate_init(&v, id);
	csi__v1__validate_volume_capabilities_request__volume_context_entry__init(
		&e);
	e.key = "k";
	es[0] = &e;
	v.in.volume_context = es;
	v.in.n_volume_context = 1;
	validated(t, &v, "context");
	validate_init(&v, FAKE_ID);
	kit_refused(&t->kit, VALIDATE, &v.in, RPC_NOT_FOUND, "gone");
	validate_init(&v, "what is that");
	kit_refused(&t->kit, VALIDATE, &v.in, RPC_NOT_FOUND, "NAME@UID");
	validate_init(&v, "");
	kit_refused(&t->kit, VALIDATE, &v.in, RPC_INVALID_ARGUMENT,
		    "volume_id");
	validate_init(&v, id);
	v.in.n_volume_capabilities = 0;
	kit_refused(&t->kit, VALIDATE, &v.in, RPC_INVALID_ARGUMENT,
		    "volume_capabilities");
}

/* ---- what no container orchestrator sends ---- */

static void does_not_send_back_what_it_does_not_know(void **state)
{
	/* Field 99, a string. */
	static const char bytes[] = "hello";
	ProtobufCMessageUnknownField unknown = {
		.tag = 99,
		.wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
		.len = 6,
		.data = (uint8_t[]){5, 'h', 'e', 'l', 'l', 'o'},
	};
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct validate v = {0};
	Csi__V1__ValidateVolumeCapabilitiesResponse *reply;
	uint8_t packed[512];
	size_t n;

	validate_init(&v, id);
	v.in.base.unknown_fields = &unknown;
	v.in.base.n_unknown_fields = 1;
	v.c.cap.base.unknown_fields = &unknown;
	v.c.cap.base.n_unknown_fields = 1;
	v.c.mount.base.unknown_fields = &unknown;
	v.c.mount.base.n_unknown_fields = 1;
	assert_int_equal(kit_call(&t->kit, VALIDATE, &v.in, &reply), RPC_OK);
	assert_non_null(reply->confirmed);
	n = protobuf_c_message_pack(&reply->base, packed);
	assert_null(memmem(packed, n, bytes, 5));
	kit_free(reply);
}

static void a_flood_of_map_entries_is_refused(void **state)
{
	enum { MANY = 200000 };
	struct test *t = *state;
	struct create c = {0};
	pair **many = calloc(MANY, sizeof(*many));

	create_init(&c, "flood", GIB);
	create_parameter(&c, "", "");
	for (size_t i = 0; i < MANY; i++)
		many[i] = c.pair_list[0];
	c.in.parameters = many;
	c.in.n_parameters = MANY;
	/* More than a call may use, before it is looked at. */
	assert_int_equal(kit_call(&t->kit, CREATE, &c.in, NULL), RPC_INTERNAL);
	assert_int_equal(t->kit.err.code, EMSGSIZE);
	c.in.n_parameters = MANY / 10;
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "key");
	free(many);
	assert_int_equal(extents(t), 0);
}

static void a_message_that_is_too_large_is_refused(void **state)
{
	struct test *t = *state;
	struct create c = {0};
	char *large = malloc(2 << 20);

	memset(large, 'x', 2 << 20);
	large[(2 << 20) - 1] = '\0';
	create_init(&c, large, GIB);
	assert_int_equal(kit_call(&t->kit, CREATE, &c.in, NULL), RPC_INTERNAL);
	assert_int_equal(t->kit.err.code, EMSGSIZE);
	large[1 << 19] = '\0';
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT,
		    "longer than 128 bytes");
	free(large);
	free(make_volume(t, "pvc-1", GIB));
}

/* ---- what it says it can, it can ---- */

static void says_what_it_can(void **state)
{
	static const int types[] = {1, 2,  3,  4,  5,  6,  7, 8,
				    9, 10, 11, 12, 13, 14, 15};
	Csi__V1__ControllerGetCapabilitiesRequest in =
		CSI__V1__CONTROLLER_GET_CAPABILITIES_REQUEST__INIT;
	Csi__V1__ControllerGetCapabilitiesResponse *reply;
	struct test *t = *state;

	assert_int_equal(kit_call(&t->kit,
				  "Controller/ControllerGetCapabilities", &in,
				  &reply),
			 RPC_OK);
	assert_int_equal(reply->n_capabilities, array_size(types));
	for (size_t i = 0; i < array_size(types); i++)
		assert_int_equal(reply->capabilities[i]->rpc->type, types[i]);
	kit_free(reply);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(confirms_what_can_be_done),
		TEST(says_no_without_an_error),
		TEST(does_not_send_back_what_it_does_not_know),
		TEST(a_flood_of_map_entries_is_refused),
		TEST(a_message_that_is_too_large_is_refused),
		TEST(says_what_it_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
