/* SPDX-License-Identifier: Apache-2.0 */
/* A node that is given up as lost, and what becomes of its splits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "tests/snapshot_kit.h"
#include "volume/cluster/node_remove.h"
#include "volume/extent/extents.h"
#include "volume/flow/forget_lost.h"
#include "volume/op/context.h"
#include "volume/scrub/orphan_match.h"
#include "volume/scrub/scrub.h"

/* The store of the test, as no program of ours would change it. */
static void sql(struct kit *t, const char *statement)
{
	char path[sizeof(t->dir) + 8];
	sqlite3 *db = NULL;

	(void)snprintf(path, sizeof(path), "%s/db", t->dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	(void)sqlite3_busy_timeout(db, 60000);
	assert_int_equal(sqlite3_exec(db, statement, NULL, NULL, NULL),
			 SQLITE_OK);
	(void)sqlite3_close(db);
}

/* The last heartbeat of h1 was @age_s ago, by the store. */
static void heartbeat(struct kit *t, int age_s)
{
	char statement[96];

	assert_int_equal(
		t->volumes->store->ops->beat(t->volumes->store, "h1", NULL), 0);
	(void)snprintf(
		statement, sizeof(statement),
		"UPDATE beats SET boot_s = boot_s - %d WHERE name = 'h1'",
		age_s);
	sql(t, statement);
}

/* The keeper of h1 says, by a clock that is an hour slow, that it stops. */
static void keeper_stops(struct kit *t)
{
	const struct store_ops *ops = t->volumes->store->ops;
	struct node_report report = {
		.ready = NODE_READY_FALSE,
		.reason = NODE_REASON_STOPPED,
		.message = "it stops",
		.since_s = clock_wall_s() - 3700,
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

/* Of a split on each node: nodes that are slow to answer are asked again. */
static void make_named(struct kit *t, const char *name)
{
	int r = -ENOSPC;

	for (int i = 0; i < 30 && r == -ENOSPC; i++)
		r = kit_make(t, name, 256 * MIB, NULL);
	assert_int_equal(r, 0);
}

static void make(struct kit *t)
{
	make_named(t, "v");
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

static size_t snapshot_lost(struct kit *t, const char *name)
{
	struct snapshot_record *record = kit_load(t, name);
	size_t n = snapshot_record_lost(record);

	snapshot_record_free(record);
	return n;
}

static void come_back(struct kit *t)
{
	struct node_record node = {.name = "h1", .data_address = "h1:1"};

	(void)snprintf(node.control_address, sizeof(node.control_address), "%s",
		       t->nodes[1].address);
	assert_int_equal(volume_node_add(t->volumes, &node, NULL, NULL), 0);
}

/* Count the lost splits of a volume. */
static size_t lost_of(struct kit *t, const char *name)
{
	struct volume_record *record = NULL;
	size_t n;

	assert_int_equal(volume_get(t->volumes, name, &record, NULL), 0);
	n = volume_record_lost(record);
	volume_record_free(record);
	return n;
}

static size_t lost(struct kit *t)
{
	return lost_of(t, "v");
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
	/* The node's own clock is no reason. */
	keeper_stops(t);
	assert_int_equal(give_up(ctx, 3600, "it has no heartbeat"), -EBUSY);
	heartbeat(t, 600);
	assert_int_equal(give_up(ctx, 3600, "was heard of 6"), -EBUSY);
	assert_int_equal(volume_node_remove(t->volumes, "h1", NULL), -EBUSY);
	assert_int_equal(lost(t), 0);
	heartbeat(t, 3700);
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

/* Check that the split of h1 is shown as lost. */
static void is_shown_lost(struct kit *t)
{
	struct volume_status *status = NULL;
	size_t n;

	assert_int_equal(volume_status_get(t->volumes, "v", &status, NULL), 0);
	n = strcmp(status->splits[1].split.node, "h1") == 0;
	assert_string_equal(status->splits[n].state, "lost");
	volume_status_free(status);
}

static void what_a_lost_node_had_is_nobodys_when_it_is_back(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);

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
	is_shown_lost(t);
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

static void a_record_that_cannot_be_read_keeps_its_node(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);

	make(t);
	make_named(t, "w");
	assert_int_equal(kit_snapshot(t, "s", "w"), 0);
	fake_node_down(&t->nodes[1]);
	sql(t, "UPDATE objects SET json = '{' || json WHERE name = 'w'");
	assert_int_equal(give_up(ctx, 0, "'w' cannot be read"), -EUCLEAN);
	assert_int_equal(lost(t), 0);
	sql(t, "UPDATE objects SET json = substr(json, 2) WHERE name = 'w';"
	       "UPDATE objects SET json = '{' || json WHERE name = 's'");
	assert_int_equal(give_up(ctx, 0, "'s' cannot be read"), -EUCLEAN);
	assert_int_equal(lost(t), 0);
	sql(t, "UPDATE objects SET json = substr(json, 2) WHERE name = 's'");
	assert_int_equal(give_up(ctx, 0, ""), 0);
	assert_int_equal(lost(t), 1);
	assert_int_equal(lost_of(t, "w"), 1);
	volume_context_close(ctx);
}

static int says(int r, const struct error *err, const char *text)
{
	if (!strstr(error_text(err), text))
		fail_msg("'%s' is not in '%s'", text, error_text(err));
	return r;
}

static void is_not_restored(struct volume_context *ctx)
{
	const struct volume_spec spec = {
		.source = {.kind = VOLUME_SOURCE_SNAPSHOT, .name = "s"}};
	const struct volume_create_request request = {.name = "c",
						      .spec = &spec};
	struct error err = {0};

	assert_int_equal(says(volume_create(ctx, &request, NULL, &err), &err,
			      "snapshot 's' has lost 1 of 2 extents"),
			 -EBUSY);
}

static void snapshot_is_shown_lost(struct volume_context *ctx)
{
	struct snapshot_status *status = NULL;
	size_t n;

	assert_int_equal(volume_snapshot_status_get(ctx, "s", &status, NULL),
			 0);
	n = strcmp(status->record->splits[1].node, "h1") == 0;
	assert_string_equal(status->splits[n].state, "lost");
	volume_snapshot_status_free(status);
}

static void a_snapshot_that_lost_an_extent_can_only_be_deleted(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	struct volume_node_lost sum = {0};

	make(t);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(volume_node_give_up(ctx, "h1", 0, &sum, NULL), 0);
	assert_int_equal(sum.splits, 0);
	assert_int_equal(sum.snapshots, 1);
	is_not_restored(ctx);
	snapshot_is_shown_lost(ctx);
	/* The node comes back, and is silent again: nobody asks it. */
	fake_node_up(&t->nodes[1]);
	come_back(t);
	assert_int_equal(volume_node_remove(t->volumes, "h1", NULL), 0);
	come_back(t);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(volume_snapshot_delete(ctx, "s", NULL), 0);
	assert_int_equal(fake_node_extents(&t->nodes[0]), 0);
	assert_int_equal(fake_node_extents(&t->nodes[1]), 1);
	volume_context_close(ctx);
}

/* All findings, once every node answers; owned. */
static struct orphan *orphans_of(struct kit *t, size_t n)
{
	struct orphan *orphans = NULL;
	size_t found = 0, silent = 1;

	for (int i = 0; i < 30 && silent > 0; i++) {
		free(orphans);
		assert_int_equal(volume_orphans(t->volumes, &orphans, &found,
						&silent, NULL),
				 0);
	}
	assert_int_equal(silent, 0);
	assert_int_equal(found, n);
	return orphans;
}

/* Delete the extents of h1, which is back, as orphans tells to. */
static void drop_orphans(struct kit *t, size_t n)
{
	struct orphan *orphans = orphans_of(t, n);

	for (size_t i = 0; i < n; i++) {
		assert_string_equal(orphans[i].node, "h1");
		assert_int_equal(volume_extent_delete(t->volumes, "h1",
						      orphans[i].name, true,
						      NULL),
				 0);
	}
	free(orphans);
}

/* Count what is given up of all. */
static size_t given_up(struct kit *t)
{
	return lost(t) + lost_of(t, "w") + snapshot_lost(t, "s");
}

static void make_all(struct kit *t)
{
	make_named(t, "v");
	make_named(t, "w");
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
}

/* Node h1 comes back, where @n extents are given up by now. All can go. */
static void delete_all(struct kit *t, bool node_is_known, size_t n)
{
	assert_int_equal(given_up(t), n);
	fake_node_up(&t->nodes[1]);
	if (!node_is_known)
		come_back(t);
	drop_orphans(t, n);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL), 0);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	assert_int_equal(volume_delete(t->volumes, "w", NULL), 0);
	assert_int_equal(kit_extents(t), 0);
}

static void a_give_up_killed_at_every_step_is_finished_or_ended(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	unsigned n;

	(void)setenv("TRIB_TEST_CALL_TIMEOUT_MS", "300", 1);
	for (n = 1;; n++) {
		make_all(t);
		fake_node_down(&t->nodes[1]);
		if (!kit_killed(t, n, "node-give-up", "name=h1", NULL, NULL))
			break;
		/* The node is there until all else is done. */
		assert_int_equal(volume_node_known(ctx, "h1", NULL), 1);
		if (n % 2)
			assert_int_equal(give_up(ctx, 0, ""), 0);
		delete_all(t, n % 2 == 0, n % 2 ? 3 : n - 1);
	}
	assert_int_equal(n, 4);
	assert_int_equal(given_up(t), 3);
	(void)unsetenv("TRIB_TEST_CALL_TIMEOUT_MS");
	volume_context_close(ctx);
}

/* "v" has lost its split of h1, which is back, and has that extent still. */
static void make_lost(struct kit *t, struct volume_context *ctx)
{
	make(t);
	kit_write_split(t, "v", 0, 7);
	kit_write_split(t, "v", 1, 8);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(give_up(ctx, 0, ""), 0);
	fake_node_up(&t->nodes[1]);
	come_back(t);
}

/* A node that was down for a moment is waited for. */
static int forget(struct kit *t, struct volume_forgotten *ret,
		  struct error *err)
{
	int r = -EHOSTUNREACH;

	for (int i = 0; i < 30 && (r == -EHOSTUNREACH || r == -ENOSPC); i++)
		r = volume_forget_lost(t->volumes, "v", ret, err);
	return r;
}

/* Check that "v" is whole, with an empty split in place of the lost one. */
static void is_repaired(struct kit *t)
{
	struct volume_status *status = NULL;

	assert_int_equal(lost(t), 0);
	assert_int_equal(volume_status_get(t->volumes, "v", &status, NULL), 0);
	assert_int_equal(status->n_conditions, 0);
	for (size_t i = 0; i < 2; i++) {
		const struct volume_split *split = &status->splits[i].split;
		const bool new = strcmp(split->node, "h1") == 0;

		assert_string_equal(status->splits[i].state, "ok");
		assert_int_equal(kit_content(t, "v", (unsigned)i),
				 new ? 0 : i + 7);
		assert_int_equal(split->size, 128 * MIB);
		assert_false(split->move.node[0]);
	}
	volume_status_free(status);
}

static void lost_splits_are_forgotten_and_new_ones_are_in_their_place(
	void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	struct volume_forgotten sum = {0};
	struct error err = {0};

	make_lost(t, ctx);
	assert_int_equal(forget(t, &sum, &err), 0);
	assert_int_equal(sum.splits, 1);
	assert_int_equal(sum.size, 128 * MIB);
	is_repaired(t);
	/* The old extent beside it is nobody's, as before. */
	is_orphaned(t->volumes);
	assert_int_equal(forget(t, &sum, &err), 0);
	assert_int_equal(sum.splits, 0);
	assert_int_equal(kit_extents(t), 3);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL), 0);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	drop_orphans(t, 1);
	assert_int_equal(kit_extents(t), 0);
	volume_context_close(ctx);
}

static int mount_at(struct volume_context *ctx, const char *options,
		    const char *path, const char *text)
{
	const struct volume_attach_request request = {
		.name = "v", .mount_point = path, .mount_options = options};
	struct error err = {0};

	return says(volume_attach(ctx, &request, &err), &err, text);
}

static void what_lost_splits_is_mounted_only_if_it_can_and_on_request(
	void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	struct volume_spec spec = {.capacity = GIB + 256 * MIB,
				   .layout = "linear",
				   .fs_type = "ext4"};
	const struct volume_create_request linear = {.name = "v",
						     .spec = &spec};
	struct error err = {0};

	make_lost(t, ctx);
	assert_int_equal(mount_at(t->volumes, NULL, t->dir,
				  "`trib mount -o degraded v DIRECTORY`"),
			 -EBUSY);
	/* With the option only the directory is in the way. */
	assert_int_equal(
		mount_at(t->volumes, "degraded", t->dir, "is not empty"),
		-EBUSY);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	drop_orphans(t, 1);
	assert_int_equal(volume_create(t->volumes, &linear, NULL, NULL), 0);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(give_up(ctx, 0, ""), 0);
	assert_int_equal(lost(t), 1);
	assert_int_equal(mount_at(t->volumes, "degraded", t->dir,
				  "nothing without them"),
			 -EBUSY);
	assert_int_equal(says(volume_forget_lost(ctx, "v", NULL, &err), &err,
			      "nothing without them"),
			 -EBUSY);
	assert_int_equal(volume_delete(ctx, "v", NULL), 0);
	volume_context_close(ctx);
}

static void lost_splits_stay_lost_without_room_for_new_ones(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	struct error err = {0};

	make(t);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(give_up(ctx, 0, ""), 0);
	/* The only pool there is has the other split. */
	assert_int_equal(volume_forget_lost(ctx, "v", NULL, &err), -ENOSPC);
	assert_int_equal(lost(t), 1);
	/* A pool had room when it was asked, and has none any more. */
	fake_node_up(&t->nodes[1]);
	come_back(t);
	t->nodes[1].fails = ENOSPC;
	for (int i = 0; i < 30 && t->nodes[1].fails; i++)
		assert_int_not_equal(
			volume_forget_lost(t->volumes, "v", NULL, &err), 0);
	assert_int_equal(t->nodes[1].fails, 0);
	assert_int_equal(lost(t), 1);
	is_orphaned(t->volumes);
	assert_int_equal(kit_extents(t), 2);
	volume_context_close(ctx);
}

static void a_repair_killed_at_every_step_is_finished_or_ended(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	struct error err = {0};
	unsigned n;

	for (n = 1;; n++) {
		make_lost(t, ctx);
		if (!kit_killed(t, n, "forget-lost", "name=v", NULL, NULL))
			break;
		/* The last step tells that it is done. */
		assert_int_equal(lost(t), n < 4);
		is_orphaned(t->volumes);
		if (n % 2) {
			assert_int_equal(forget(t, NULL, &err), 0);
			is_repaired(t);
			is_orphaned(t->volumes);
		}
		assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
		drop_orphans(t, 1);
		assert_int_equal(kit_extents(t), 0);
	}
	assert_int_equal(n, 5);
	is_repaired(t);
	volume_context_close(ctx);
}

/* ---- scrub and reclaim ---- */

/* Run a scrub that every node answers. */
static struct volume_scrubbed scrub(struct kit *t)
{
	struct volume_scrubbed got = {.silent = 1};

	for (int i = 0; i < 30 && got.silent > 0; i++)
		assert_int_equal(volume_scrub(t->volumes, 0, &got, NULL), 0);
	assert_int_equal(got.silent, 0);
	return got;
}

static struct orphan only_orphan(struct kit *t)
{
	struct orphan *orphans = orphans_of(t, 1), one = orphans[0];

	free(orphans);
	return one;
}

/* All that is known of h1's orphans is @days older. */
static void age(struct kit *t, int days)
{
	const struct store_ops *ops = t->volumes->store->ops;
	struct node_record node = {0};
	auto_free char *json = NULL;

	assert_int_equal(context_node_load(t->volumes, "h1", &node, NULL), 0);
	assert_non_null(node.scrub);
	node.scrub->at_s -= days * 86400;
	for (size_t i = 0; i < node.scrub->n_ages; i++)
		node.scrub->ages[i].since_s -= days * 86400;
	assert_int_equal(node_record_encode(&node, &json, NULL), 0);
	assert_int_equal(
		ops->compare_and_swap(t->volumes->store, RECORD_KIND_NODE, "h1",
				      node.resource_version, json, NULL, NULL),
		0);
	node_record_done(&node);
}

static int reclaim(struct kit *t, const struct orphan *o, const char *text)
{
	struct error err = {0};
	int r = volume_orphan_reclaim(t->volumes, o, VOLUME_RECLAIM_GRACE_S,
				      &err);

	return r < 0 ? says(r, &err, text) : r;
}

static void a_given_up_extent_is_reclaimed_once_its_grace_is_over(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	struct volume_scrubbed got;
	struct orphan o;

	make_lost(t, ctx);
	o = only_orphan(t);
	assert_true(o.given_up);
	assert_int_equal(o.since_s, 0);
	assert_int_equal(reclaim(t, &o, "no scrub has seen it"), -EAGAIN);
	got = scrub(t);
	assert_int_equal(got.orphans, 1);
	assert_int_equal(got.orphan_bytes, 128 * MIB);
	assert_int_equal(got.missing, 0);
	o = only_orphan(t);
	assert_in_range(o.since_s, 1, got.at_s);
	assert_int_equal(reclaim(t, &o, "it is known for"), -EAGAIN);
	/* Its age goes on through scrubs, a new registration and a repair. */
	age(t, 6);
	come_back(t);
	(void)scrub(t);
	o = only_orphan(t);
	assert_int_equal(reclaim(t, &o, "it is known for"), -EAGAIN);
	assert_int_equal(forget(t, NULL, NULL), 0);
	age(t, 1);
	o = only_orphan(t);
	assert_int_equal(reclaim(t, &o, ""), 0);
	assert_int_equal(reclaim(t, &o, ""), 0);
	got = scrub(t);
	assert_int_equal(got.orphans, 0);
	is_repaired(t);
	assert_int_equal(kit_extents(t), 2);
	volume_context_close(ctx);
}

static void what_a_snapshot_gave_up_is_reclaimed_too(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	struct orphan o;

	make(t);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(give_up(ctx, 0, ""), 0);
	fake_node_up(&t->nodes[1]);
	come_back(t);
	assert_int_equal(scrub(t).orphans, 1);
	age(t, 8);
	o = only_orphan(t);
	assert_string_equal(o.snapshot, "s");
	assert_int_equal(reclaim(t, &o, ""), 0);
	assert_int_equal(kit_extents(t), 1);
	assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL), 0);
	assert_int_equal(kit_extents(t), 0);
	volume_context_close(ctx);
}

/* The document of "v", as a backup of the store has it. Owned. */
static char *backup(struct kit *t)
{
	struct store_object object = {.json = NULL};

	assert_int_equal(t->volumes->store->ops->get(t->volumes->store,
						     RECORD_KIND_VOLUME, "v",
						     &object, NULL),
			 0);
	return object.json;
}

static void restore(struct kit *t, const char *json)
{
	assert_int_equal(t->volumes->store->ops->remove(t->volumes->store,
							RECORD_KIND_VOLUME, "v",
							NULL, NULL),
			 0);
	assert_int_equal(t->volumes->store->ops->create(t->volumes->store,
							RECORD_KIND_VOLUME, "v",
							json, NULL, NULL),
			 0);
}

/* Check that no finding can be reclaimed, however old it is. */
static void nothing_is_due(struct kit *t, size_t n)
{
	struct orphan *orphans;

	assert_int_equal(scrub(t).orphans, n);
	age(t, 1000);
	orphans = orphans_of(t, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(reclaim(t, &orphans[i], "no record says"),
				 -EPERM);
	free(orphans);
}

static void what_old_records_do_not_know_is_never_reclaimed(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	auto_free char *lost_one = NULL;
	struct orphan o;

	/* A backup from when the split was lost, and was not replaced yet. */
	make_lost(t, ctx);
	lost_one = backup(t);
	assert_int_equal(scrub(t).orphans, 1);
	age(t, 8);
	o = only_orphan(t);
	assert_int_equal(reclaim(t, &o, ""), 0);
	assert_int_equal(forget(t, NULL, NULL), 0);
	kit_write_split(t, "v", 1, 9);
	restore(t, lost_one);
	nothing_is_due(t, 1);
	assert_int_equal(kit_extents(t), 2);
	/* One from before the volume was made, beside another volume's. */
	make_named(t, "w");
	assert_int_equal(t->volumes->store->ops->remove(t->volumes->store,
							RECORD_KIND_VOLUME, "v",
							NULL, NULL),
			 0);
	nothing_is_due(t, 2);
	assert_int_equal(kit_extents(t), 4);
	volume_context_close(ctx);
}

/* A finding is not believed, and neither is what it says of its record. */
static void what_a_record_has_by_now_is_neither_found_nor_reclaimed(
	void **state)
{
	struct kit *t = *state;
	struct volume_record *record = NULL;
	struct orphan o = {.kind = ORPHAN_EXTENT,
			   .volume = "v",
			   .given_up = true,
			   .since_s = 1};

	make(t);
	assert_int_equal(volume_get(t->volumes, "v", &record, NULL), 0);
	memcpy(o.uid, record->uid, sizeof(o.uid));
	memcpy(o.node, record->splits[0].node, sizeof(o.node));
	memcpy(o.name, record->splits[0].extent, sizeof(o.name));
	memcpy(o.extent_id, record->splits[0].extent_id, sizeof(o.extent_id));
	assert_false(orphan_is_confirmed(t->volumes, &o));
	assert_int_equal(reclaim(t, &o, "does not give it up"), -ESTALE);
	assert_int_equal(kit_extents(t), 2);
	/* The other way round. */
	o.kind = ORPHAN_SPLIT;
	assert_true(orphan_is_confirmed(t->volumes, &o));
	assert_int_equal(volume_delete(t->volumes, "v", NULL), 0);
	assert_false(orphan_is_confirmed(t->volumes, &o));
	o.kind = ORPHAN_EXTENT;
	assert_true(orphan_is_confirmed(t->volumes, &o));
	volume_record_free(record);
}

static void a_record_without_its_extent_is_counted(void **state)
{
	struct kit *t = *state;
	struct volume_context *ctx = hasty(t);
	struct volume_scrubbed got;
	struct node_client *client;
	struct volume_record *record = NULL;
	struct fake_node *node;
	struct orphan o;

	make(t);
	assert_int_equal(scrub(t).missing, 0);
	assert_int_equal(volume_get(t->volumes, "v", &record, NULL), 0);
	assert_int_equal(context_client(t->volumes, record->splits[1].node,
					&client, NULL),
			 0);
	assert_int_equal(node_client_delete_extent(
				 client, record->splits[1].extent, "", NULL),
			 0);
	volume_record_free(record);
	/* A result that is new enough is told again. */
	assert_int_equal(volume_scrub(t->volumes, 3600, &got, NULL), 0);
	assert_false(got.ran);
	assert_int_equal(got.missing, 0);
	got = scrub(t);
	assert_true(got.ran);
	assert_int_equal(got.missing, 1);
	assert_int_equal(got.orphans, 0);
	assert_int_equal(volume_scrub(t->volumes, 3600, &got, NULL), 0);
	assert_int_equal(got.missing, 1);
	o = only_orphan(t);
	assert_int_equal(reclaim(t, &o, "no record says"), -EPERM);
	/* A node that is silent keeps what was found on it. */
	node = kit_node_of(t, o.node);
	fake_node_down(node);
	assert_int_equal(volume_scrub(ctx, 0, &got, NULL), 0);
	assert_in_range(got.silent, 1, 2);
	assert_int_equal(volume_scrub(ctx, 3600, &got, NULL), 0);
	assert_false(got.ran);
	assert_int_equal(got.missing, 1);
	fake_node_up(node);
	volume_context_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(a_node_is_given_up_once_it_is_silent_for_long),
		KIT_TEST(what_a_lost_node_had_is_nobodys_when_it_is_back),
		KIT_TEST(a_record_that_cannot_be_read_keeps_its_node),
		KIT_TEST(a_snapshot_that_lost_an_extent_can_only_be_deleted),
		KIT_TEST(a_give_up_killed_at_every_step_is_finished_or_ended),
		KIT_TEST(
			lost_splits_are_forgotten_and_new_ones_are_in_their_place),
		KIT_TEST(
			what_lost_splits_is_mounted_only_if_it_can_and_on_request),
		KIT_TEST(lost_splits_stay_lost_without_room_for_new_ones),
		KIT_TEST(a_repair_killed_at_every_step_is_finished_or_ended),
		KIT_TEST(a_given_up_extent_is_reclaimed_once_its_grace_is_over),
		KIT_TEST(what_a_snapshot_gave_up_is_reclaimed_too),
		KIT_TEST(what_old_records_do_not_know_is_never_reclaimed),
		KIT_TEST(
			what_a_record_has_by_now_is_neither_found_nor_reclaimed),
		KIT_TEST(a_record_without_its_extent_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
