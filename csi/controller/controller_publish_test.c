/* SPDX-License-Identifier: Apache-2.0 */
/* ControllerPublishVolume and its opposite, on nodes that are not there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/testkit/controller_test_kit.h"

struct publish {
	Csi__V1__ControllerPublishVolumeRequest in;
	struct create c; /* for its capability */
};

static void publish_init(struct publish *p, const char *id, const char *node)
{
	csi__v1__controller_publish_volume_request__init(&p->in);
	create_init(&p->c, "unused", GIB);
	p->in.volume_id = (char *)id;
	p->in.node_id = (char *)node;
	p->in.volume_capability = &p->c.cap;
}

static void published(struct test *t, const struct publish *p)
{
	Csi__V1__ControllerPublishVolumeResponse *reply = NULL;

	if (kit_call(&t->kit, PUBLISH, &p->in, &reply) != RPC_OK)
		fail_msg("%s", t->kit.err.msg);
	/* The node finds all it needs by the volume's id. */
	assert_int_equal(reply->n_publish_context, 0);
	kit_free(reply);
}

static enum rpc_code unpublish(struct test *t, const char *id, const char *node)
{
	Csi__V1__ControllerUnpublishVolumeRequest in =
		CSI__V1__CONTROLLER_UNPUBLISH_VOLUME_REQUEST__INIT;

	in.volume_id = (char *)id;
	in.node_id = (char *)node;
	return kit_call(&t->kit, UNPUBLISH, &in, NULL);
}

/* The nodes of the volume, as both calls have them, "a b". */
static void is_published_to(struct test *t, char *id, const char *nodes)
{
	Csi__V1__ControllerGetVolumeRequest get =
		CSI__V1__CONTROLLER_GET_VOLUME_REQUEST__INIT;
	Csi__V1__ListVolumesRequest list = CSI__V1__LIST_VOLUMES_REQUEST__INIT;
	Csi__V1__ControllerGetVolumeResponse *got;
	Csi__V1__ListVolumesResponse *listed;
	char text[2][128] = {"", ""};

	get.volume_id = id;
	assert_int_equal(kit_call(&t->kit, GET, &get, &got), RPC_OK);
	for (size_t i = 0; i < got->status->n_published_node_ids; i++) {
		strcat(text[0], i ? " " : "");
		strcat(text[0], got->status->published_node_ids[i]);
	}
	kit_free(got);
	assert_int_equal(kit_call(&t->kit, LIST, &list, &listed), RPC_OK);
	assert_int_equal(listed->n_entries, 1);
	for (size_t i = 0; i < listed->entries[0]->status->n_published_node_ids;
	     i++) {
		strcat(text[1], i ? " " : "");
		strcat(text[1],
		       listed->entries[0]->status->published_node_ids[i]);
	}
	kit_free(listed);
	assert_string_equal(text[0], nodes);
	assert_string_equal(text[1], nodes);
}

static void publishes_to_one_node_however_often_it_is_asked(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct publish p = {0};

	is_published_to(t, id, "");
	publish_init(&p, id, "host2");
	published(t, &p);
	published(t, &p);
	is_published_to(t, id, "host2");
	assert_int_equal(delete_volume(t, id), RPC_FAILED_PRECONDITION);
	assert_non_null(strstr(t->kit.err.msg, "host2"));
	assert_int_equal(unpublish(t, id, "host1"), RPC_OK);
	is_published_to(t, id, "host2");
	assert_int_equal(unpublish(t, id, "host2"), RPC_OK);
	assert_int_equal(unpublish(t, id, "host2"), RPC_OK);
	is_published_to(t, id, "");
	assert_int_equal(delete_volume(t, id), RPC_OK);
}

static void a_node_takes_no_more_than_it_says(void **state)
{
	struct test *t = *state;
	auto_free char *one = make_volume(t, "pvc-1", GIB);
	auto_free char *two = make_volume(t, "pvc-2", GIB);
	auto_free char *three = make_volume(t, "pvc-3", GIB);
	struct publish p = {0};

	assert_int_equal(
		volume_node_limit(t->kit.csi.volumes, "host1", 2, &t->kit.err),
		0);
	publish_init(&p, one, "host1");
	published(t, &p);
	publish_init(&p, two, "host1");
	published(t, &p);
	published(t, &p);
	publish_init(&p, three, "host1");
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_RESOURCE_EXHAUSTED,
		    "at most 2");
	publish_init(&p, three, "host2");
	published(t, &p);
	assert_int_equal(unpublish(t, three, "host2"), RPC_OK);
	assert_int_equal(unpublish(t, one, "host1"), RPC_OK);
	publish_init(&p, three, "host1");
	published(t, &p);
	/* A published volume stays; no limit is none. */
	assert_int_equal(
		volume_node_limit(t->kit.csi.volumes, "host1", 1, &t->kit.err),
		0);
	published(t, &p);
	publish_init(&p, one, "host1");
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_RESOURCE_EXHAUSTED,
		    "at most 1");
	assert_int_equal(
		volume_node_limit(t->kit.csi.volumes, "host1", 0, &t->kit.err),
		0);
	published(t, &p);
}

static void a_second_writer_is_told_who_has_it(void **state)
{
	static const int modes[] = {
		MODE(SINGLE_NODE_WRITER), MODE(SINGLE_NODE_READER_ONLY),
		MODE(SINGLE_NODE_SINGLE_WRITER), MODE(SINGLE_NODE_MULTI_WRITER),
		MODE(MULTI_NODE_READER_ONLY)};
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct publish p = {0};

	publish_init(&p, id, "host1");
	published(t, &p);
	for (size_t i = 0; i < array_size(modes); i++) {
		publish_init(&p, id, "host2");
		p.c.mode.mode =
			(Csi__V1__VolumeCapability__AccessMode__Mode)modes[i];
		kit_refused(&t->kit, PUBLISH, &p.in, RPC_FAILED_PRECONDITION,
			    "host1");
	}
	is_published_to(t, id, "host1");
	/* The empty node is every node: then it can move. */
	assert_int_equal(unpublish(t, id, ""), RPC_OK);
	published(t, &p);
	is_published_to(t, id, "host2");
}

static void there_in_another_way_is_refused(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct publish p = {0};

	publish_init(&p, id, "host1");
	published(t, &p);
	p.in.readonly = true;
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_ALREADY_EXISTS, "host1");
	p.in.readonly = false;
	p.c.mode.mode = MODE(SINGLE_NODE_READER_ONLY);
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_ALREADY_EXISTS, "host1");
	p.c.mode.mode = MODE(SINGLE_NODE_MULTI_WRITER);
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_ALREADY_EXISTS,
		    "SINGLE_NODE_WRITER");
	p.c.mode.mode = MODE(SINGLE_NODE_WRITER);
	p.c.mount.fs_type = "ext4"; /* which it is */
	published(t, &p);
}

static void readers_share_it(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct publish p = {0};

	publish_init(&p, id, "host1");
	p.c.mode.mode = MODE(MULTI_NODE_READER_ONLY);
	published(t, &p);
	p.in.node_id = "host2";
	published(t, &p);
	/* That it is read only is what it says already. */
	p.in.readonly = true;
	published(t, &p);
	is_published_to(t, id, "host1 host2");
	p.c.mode.mode = MODE(SINGLE_NODE_WRITER);
	p.in.readonly = false;
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_ALREADY_EXISTS, "host2");
	assert_int_equal(unpublish(t, id, "host2"), RPC_OK);
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_FAILED_PRECONDITION, "host1");
	assert_int_equal(unpublish(t, id, ""), RPC_OK);
	is_published_to(t, id, "");
}

static void writers_on_several_nodes_are_refused(void **state)
{
	static const int modes[] = {MODE(MULTI_NODE_SINGLE_WRITER),
				    MODE(MULTI_NODE_MULTI_WRITER)};
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	struct publish p = {0};

	for (size_t i = 0; i < array_size(modes); i++) {
		publish_init(&p, id, "host1");
		p.c.mode.mode =
			(Csi__V1__VolumeCapability__AccessMode__Mode)modes[i];
		kit_refused(&t->kit, PUBLISH, &p.in, RPC_INVALID_ARGUMENT,
			    "one node at a time");
	}
	publish_init(&p, id, "host1");
	p.c.cap.access_type_case =
		CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	p.c.cap.block = &block;
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_INVALID_ARGUMENT,
		    "not a block device");
	is_published_to(t, id, "");
}

static void what_is_not_there_cannot_be_published(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	char longer[260];
	struct publish p = {0};

	publish_init(&p, FAKE_ID, "host1");
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_NOT_FOUND, "volume");
	publish_init(&p, id, "host9");
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_NOT_FOUND, "node 'host9'");
	publish_init(&p, id, "no/node at all");
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_NOT_FOUND, "node");
	publish_init(&p, id, "");
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_INVALID_ARGUMENT, "node_id");
	memset(longer, 'a', sizeof(longer));
	longer[256] = '\0';
	publish_init(&p, id, longer);
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_NOT_FOUND, "node");
	longer[256] = 'a';
	longer[257] = '\0';
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_INVALID_ARGUMENT, "256");
	publish_init(&p, id, "host1");
	p.in.volume_capability = NULL;
	kit_refused(&t->kit, PUBLISH, &p.in, RPC_INVALID_ARGUMENT,
		    "volume_capability");
	is_published_to(t, id, "");
}

static void what_is_not_there_is_not_published(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct publish p = {0};

	publish_init(&p, id, "host1");
	published(t, &p);
	assert_int_equal(unpublish(t, FAKE_ID, "host1"), RPC_OK);
	assert_int_equal(unpublish(t, "what is that", "host1"), RPC_OK);
	assert_int_equal(unpublish(t, id, "host9"), RPC_OK);
	assert_int_equal(unpublish(t, id, "no/node at all"), RPC_OK);
	assert_int_equal(unpublish(t, "", "host1"), RPC_INVALID_ARGUMENT);
	/* Of an earlier volume of that name. */
	assert_int_equal(unpublish(t,
				   "pvc-1@0c6f9d5e-1111-4222-8333-abcdefabcdef",
				   "host1"),
			 RPC_OK);
	is_published_to(t, id, "host1");
}

static void needs_no_node_to_answer(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", 4 * GIB);
	struct publish p = {0};

	fake_node_down(&t->nodes[0]);
	fake_node_down(&t->nodes[1]);
	publish_init(&p, id, "host1");
	published(t, &p);
	assert_int_equal(unpublish(t, id, "host1"), RPC_OK);
	fake_node_up(&t->nodes[0]);
	fake_node_up(&t->nodes[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(publishes_to_one_node_however_often_it_is_asked),
		TEST(a_node_takes_no_more_than_it_says),
		TEST(a_second_writer_is_told_who_has_it),
		TEST(there_in_another_way_is_refused),
		TEST(readers_share_it),
		TEST(writers_on_several_nodes_are_refused),
		TEST(what_is_not_there_cannot_be_published),
		TEST(what_is_not_there_is_not_published),
		TEST(needs_no_node_to_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
