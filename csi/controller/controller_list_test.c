/* SPDX-License-Identifier: Apache-2.0 */
/* ListVolumes and ControllerGetVolume. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/testkit/controller_test_kit.h"
#include "volume/flow/health_check.h"
#include "volume/op/store_open.h"

/* ---- ListVolumes, ControllerGetVolume ---- */

/* One page; the token for the next is owned. */
static char *list_page(struct test *t, const char *token, int max,
		       size_t *ret_n, char seen[][CSI_ID_SIZE])
{
	Csi__V1__ListVolumesRequest in = CSI__V1__LIST_VOLUMES_REQUEST__INIT;
	Csi__V1__ListVolumesResponse *reply;
	char *next;

	in.max_entries = max;
	in.starting_token = (char *)token;
	if (kit_call(&t->kit, LIST, &in, &reply) != RPC_OK)
		fail_msg("%s", t->kit.err.msg);
	*ret_n = reply->n_entries;
	for (size_t i = 0; i < reply->n_entries; i++) {
		assert_non_null(reply->entries[i]->status->volume_condition);
		(void)snprintf(seen[i], CSI_ID_SIZE, "%s",
			       reply->entries[i]->volume->volume_id);
	}
	next = strdup(reply->next_token);
	kit_free(reply);
	return next;
}

static void lists_every_volume_once_page_by_page(void **state)
{
	struct test *t = *state;
	char seen[16][CSI_ID_SIZE], *token = strdup(""), *next;
	size_t n, all = 0;

	token[0] = '\0';
	next = list_page(t, "", 0, &n, seen);
	assert_int_equal(n, 0);
	assert_string_equal(next, "");
	free(next);
	for (int i = 0; i < 7; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "v-%d", i);
		free(make_volume(t, name, 64 * MIB));
	}
	do {
		next = list_page(t, token, 3, &n, seen + all);
		assert_true(n <= 3);
		all += n;
		free(token);
		token = next;
	} while (token[0]);
	free(token);
	assert_int_equal(all, 7);
	for (size_t i = 1; i < all; i++)
		assert_true(strcmp(seen[i - 1], seen[i]) < 0);
	free(list_page(t, "", 7, &n, seen));
	assert_int_equal(n, 7);
}

static void paging_holds_while_volumes_come_and_go(void **state)
{
	struct test *t = *state;
	char seen[16][CSI_ID_SIZE], *token;
	size_t n;

	for (int i = 1; i < 7; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "v-%d", i);
		free(make_volume(t, name, 64 * MIB));
	}
	token = list_page(t, "", 3, &n, seen);
	assert_int_equal(n, 3);
	/* The one the token stands for, one before it, one after. */
	assert_int_equal(delete_volume(t, "v-3"), RPC_OK);
	assert_int_equal(delete_volume(t, "v-1"), RPC_OK);
	assert_int_equal(delete_volume(t, "v-5"), RPC_OK);
	free(make_volume(t, "a-new", 64 * MIB));
	free(make_volume(t, "w-new", 64 * MIB));
	free(list_page(t, token, 0, &n, seen));
	assert_int_equal(n, 3);
	assert_int_equal(strncmp(seen[0], "v-4@", 4), 0);
	assert_int_equal(strncmp(seen[1], "v-6@", 4), 0);
	assert_int_equal(strncmp(seen[2], "w-new@", 6), 0);
	free(token);
}

static void refuses_tokens_that_are_not_its_own(void **state)
{
	static const char *const bad[] = {"x", "v-1", "after:../x", "\n"};
	struct test *t = *state;
	Csi__V1__ListVolumesRequest in = CSI__V1__LIST_VOLUMES_REQUEST__INIT;

	for (size_t i = 0; i < array_size(bad); i++) {
		in.starting_token = (char *)bad[i];
		kit_refused(&t->kit, LIST, &in, RPC_ABORTED, "starting_token");
	}
	in.starting_token = "";
	in.max_entries = -1;
	kit_refused(&t->kit, LIST, &in, RPC_INVALID_ARGUMENT, "max_entries");
}

static bool is_abnormal(struct test *t, char *id, const char *text)
{
	Csi__V1__ControllerGetVolumeRequest in =
		CSI__V1__CONTROLLER_GET_VOLUME_REQUEST__INIT;
	Csi__V1__ControllerGetVolumeResponse *reply;
	Csi__V1__ListVolumesRequest list = CSI__V1__LIST_VOLUMES_REQUEST__INIT;
	Csi__V1__ListVolumesResponse *listed;
	bool abnormal;

	in.volume_id = id;
	assert_int_equal(kit_call(&t->kit, GET, &in, &reply), RPC_OK);
	assert_string_equal(reply->volume->volume_id, id);
	abnormal = reply->status->volume_condition->abnormal;
	assert_non_null(strstr(reply->status->volume_condition->message, text));
	kit_free(reply);
	assert_int_equal(kit_call(&t->kit, LIST, &list, &listed), RPC_OK);
	assert_int_equal(listed->n_entries, 1);
	assert_int_equal(listed->entries[0]->status->volume_condition->abnormal,
			 abnormal);
	assert_true(listed->entries[0]->status->volume_condition->message[0]);
	kit_free(listed);
	return abnormal;
}

/* As the leading controller does. */
static struct volume_observation observed(struct test *t)
{
	struct volume_observation seen;
	struct error err = {0};

	if (volume_health_check(t->kit.csi.volumes, NULL, NULL, &seen, &err) <
	    0)
		fail_msg("%s", error_text(&err));
	return seen;
}

static void tells_the_condition_of_a_volume(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", 4 * GIB);
	Csi__V1__ControllerGetVolumeRequest in =
		CSI__V1__CONTROLLER_GET_VOLUME_REQUEST__INIT;
	struct volume_observation seen;

	assert_false(is_abnormal(t, id, "well"));
	seen = observed(t);
	assert_int_equal(seen.volumes, 1);
	assert_int_equal(seen.capacity, 4 * GIB);
	assert_int_equal(seen.abnormal, 0);
	assert_int_equal(seen.nodes, 2);
	assert_int_equal(seen.changed, 1);
	assert_int_equal(observed(t).changed, 0);
	assert_false(is_abnormal(t, id, "well"));

	fake_node_down(&t->nodes[1]);
	seen = observed(t);
	assert_int_equal(seen.abnormal, 1);
	assert_int_equal(seen.silent, 1);
	assert_true(is_abnormal(t, id, "host2 does not answer"));
	assert_int_equal(observed(t).changed, 0);
	fake_node_up(&t->nodes[1]);
	assert_int_equal(observed(t).changed, 1);
	assert_false(is_abnormal(t, id, "well"));

	assert_true(fake_node_lose(&t->nodes[0], "pvc-1-0") ||
		    fake_node_lose(&t->nodes[0], "pvc-1-1"));
	assert_int_equal(observed(t).abnormal, 1);
	assert_true(is_abnormal(t, id, "host1 does not have its extent"));
	in.volume_id = FAKE_ID;
	kit_refused(&t->kit, GET, &in, RPC_NOT_FOUND, "gone");
	in.volume_id = "";
	kit_refused(&t->kit, GET, &in, RPC_INVALID_ARGUMENT, "volume_id");
}

/* Records are read after the nodes' lists. */
static void a_volume_newer_than_a_list_is_well(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", 4 * GIB);

	t->nodes[0].lists_none = true;
	t->nodes[1].lists_none = true;
	assert_int_equal(observed(t).abnormal, 0);
	assert_false(is_abnormal(t, id, "well"));
	assert_true(fake_node_lose(&t->nodes[0], "pvc-1-0") ||
		    fake_node_lose(&t->nodes[0], "pvc-1-1"));
	assert_int_equal(observed(t).abnormal, 1);
	assert_true(is_abnormal(t, id, "host1 does not have its extent"));
}

static void tells_of_a_pool_that_is_not_well(void **state)
{
	static const char *const states[] = {"failing", "read-only", "missing"};
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", 4 * GIB);
	char text[128];

	for (size_t i = 0; i < array_size(states); i++) {
		t->nodes[1].pool_state = states[i];
		assert_int_equal(observed(t).abnormal, 1);
		(void)snprintf(text, sizeof(text),
			       "pool 'main' of node host2 is %s: it is ill",
			       states[i]);
		assert_true(is_abnormal(t, id, text));
		assert_int_equal(observed(t).changed, 0);
		t->nodes[1].pool_state = NULL;
		assert_int_equal(observed(t).changed, 1);
		assert_false(is_abnormal(t, id, "well"));
	}
}

/* What the record knows is enough: no call may take as long as a node's. */
static void answers_at_once_while_a_node_is_silent(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", 4 * GIB);
	size_t asked;

	(void)observed(t);
	asked = fake_node_asked(&t->nodes[0]) + fake_node_asked(&t->nodes[1]);
	assert_false(is_abnormal(t, id, "well"));
	assert_int_equal(fake_node_asked(&t->nodes[0]) +
				 fake_node_asked(&t->nodes[1]),
			 asked);
}

static bool never(void *context)
{
	(void)context;
	return false;
}

static void leaves_alone_what_somebody_works_on(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct volume_observation seen;
	struct store *store;

	assert_int_equal(volume_health_check(t->kit.csi.volumes, never, NULL,
					     &seen, NULL),
			 -ECANCELED);
	/* Another process has the lease, this one is told from it by that. */
	assert_int_equal(store_open(t->kit.store, &store, NULL), 0);
	assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME, "pvc-1",
					   "testing", NULL),
			 0);
	assert_int_equal(observed(t).changed, 0);
	store->ops->release(store, RECORD_KIND_VOLUME, "pvc-1");
	store_close(store);
	assert_int_equal(observed(t).changed, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists_every_volume_once_page_by_page),
		TEST(paging_holds_while_volumes_come_and_go),
		TEST(refuses_tokens_that_are_not_its_own),
		TEST(tells_the_condition_of_a_volume),
		TEST(a_volume_newer_than_a_list_is_well),
		TEST(tells_of_a_pool_that_is_not_well),
		TEST(answers_at_once_while_a_node_is_silent),
		TEST(leaves_alone_what_somebody_works_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
