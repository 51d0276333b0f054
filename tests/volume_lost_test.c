/* SPDX-License-Identifier: Apache-2.0 */
/* A node that is given up as lost, and what becomes of its splits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "tests/snapshot_kit.h"
#include "volume/cluster/node_remove.h"
#include "volume/op/context.h"

/* The keeper of h1 said @age_s ago that it stops. */
static void keeper_stopped(struct kit *t, int64_t age_s)
{
	const struct store_ops *ops = t->volumes->store->ops;
	struct node_report report = {
		.ready = NODE_READY_FALSE,
		.reason = NODE_REASON_STOPPED,
		.message = "it stops",
		.since_s = clock_wall_s() - age_s,
	};
	struct node_record node = {0};
	auto_free char *json = NULL;

	assert_int_equal(context_node_load(t->volumes, "h1", &node, NULL), 0);
	node_report_free(node.report);
	node.report = &report;
	assert_int_equal(node_record_encode(&node, &json, NULL), 0);
	node.report = NULL;
	assert_int_equal(
		ops->compare_and_swap(t->volumes->store, RECORD_KIND_NODE, "h1",
				      node.resource_version, json, NULL, NULL),
		0);
	node_record_done(&node);
}

/* A context for calls to a node that is down: it does not wait for long. */
static struct volume_context *hasty(struct kit *t)
{
	const struct volume_config config = {
		.store = t->store,
		.node = "here",
		.run_dir = t->dir,
		.call_timeout_ms = 300,
	};
	struct volume_context *ctx = NULL;

	assert_int_equal(volume_context_open(&config, &ctx, NULL), 0);
	return ctx;
}

/* "v", of a split on each node: nodes that are slow to answer are asked again.
 */
static void make(struct kit *t)
{
	int r = -ENOSPC;

	for (int i = 0; i < 30 && r == -ENOSPC; i++)
		r = kit_make(t, "v", 256 * MIB, NULL);
	assert_int_equal(r, 0);
}

static int give_up(struct volume_context *ctx, uint64_t grace_s,
		   const char *text)
{
	struct error err = {0};
	int r = volume_node_give_up(ctx, "h1", grace_s, NULL, &err);

	if (r < 0 && !strstr(error_text(&err), text))
		fail_msg("'%s' is not in '%s'", text, error_text(&err));
	return r;
}

static void come_back(struct kit *t)
{
	struct node_record node = {.name = "h1", .data_address = "h1:1"};

	(void)snprintf(node.control_address, sizeof(node.control_address), "%s",
		       t->nodes[1].address);
	assert_int_equal(volume_node_add(t->volumes, &node, NULL, NULL), 0);
}

/* Count the lost splits of "v". */
static size_t lost(struct kit *t)
{
	struct volume_record *record = NULL;
	size_t n;

	assert_int_equal(volume_get(t->volumes, "v", &record, NULL), 0);
	n = volume_record_lost(record);
	volume_record_free(record);
	return n;
}

static void a_node_is_given_up_once_it_is_silent_for_long(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);

	make(t);
	assert_int_equal(give_up(t->volumes, 0, "answers: it is not lost"),
			 -EBUSY);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(give_up(ctx, 3600, "nothing tells since when"),
			 -EBUSY);
	keeper_stopped(t, 600);
	assert_int_equal(give_up(ctx, 3600, "was heard of 6"), -EBUSY);
	assert_int_equal(volume_node_remove(t->volumes, "h1", NULL), -EBUSY);
	assert_int_equal(lost(t), 0);
	keeper_stopped(t, 3700);
	assert_int_equal(give_up(ctx, 3600, ""), 0);
	assert_int_equal(lost(t), 1);
	assert_int_equal(give_up(ctx, 3600, ""), -ENOENT);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	volume_context_close(ctx);
}

/* Check that the only orphan is the extent of h1, which is back. */
static void is_orphaned(struct volume_context *ctx)
{
	struct orphan *orphans = NULL;
	size_t n = 0, silent = 1;

	for (int i = 0; i < 30 && silent > 0; i++) {
		free(orphans);
		assert_int_equal(
			volume_orphans(ctx, &orphans, &n, &silent, NULL), 0);
	}
	assert_int_equal(silent, 0);
	assert_int_equal(n, 1);
	assert_string_equal(orphans[0].node, "h1");
	assert_non_null(strstr(orphans[0].message, "goes on without it"));
	free(orphans);
}

static void what_a_lost_node_had_is_nobodys_when_it_is_back(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	struct volume_status *status = NULL;
	size_t n;

	make(t);
	kit_write_split(t, "v", 0, 7);
	kit_write_split(t, "v", 1, 7);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(give_up(ctx, 0, ""), 0);
	assert_int_equal(kit_snapshot(t, "s", "v"), -EBUSY);
	assert_int_equal(volume_resize(t->volumes, "v", GIB, NULL, NULL),
			 -EBUSY);
	fake_node_up(&t->nodes[1]);
	come_back(t);
	assert_int_equal(lost(t), 1);
	assert_int_equal(volume_status_get(t->volumes, "v", &status, NULL), 0);
	n = strcmp(status->splits[1].split.node, "h1") == 0;
	assert_string_equal(status->splits[n].state, "lost");
	volume_status_free(status);
	is_orphaned(t->volumes);
	assert_int_equal(kit_extents(t), 2);
	/* The node may go again, though the extent is there. */
	assert_int_equal(volume_node_remove(t->volumes, "h1", NULL), 0);
	come_back(t);
	/* Nobody waits for the node again. */
	fake_node_down(&t->nodes[1]);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	fake_node_up(&t->nodes[1]);
	assert_int_equal(kit_extents(t), 1);
	volume_context_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(a_node_is_given_up_once_it_is_silent_for_long),
		KIT_TEST(what_a_lost_node_had_is_nobodys_when_it_is_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
