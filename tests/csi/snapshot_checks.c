/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, volumes made of them, groups, changed blocks, limits. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/csi/checks.h"

#define BAD       RPC_INVALID_ARGUMENT
#define EXISTS    RPC_ALREADY_EXISTS
#define CREATE    "Controller/CreateVolume"
#define SNAPSHOT  "Controller/CreateSnapshot"
#define DELETE    "Controller/DeleteSnapshot"
#define LIST      "Controller/ListSnapshots"
#define GET       "Controller/GetSnapshot"
#define MODIFY    "Controller/ControllerModifyVolume"
#define VALIDATE  "Controller/ValidateVolumeCapabilities"
#define GROUP     "GroupController/CreateVolumeGroupSnapshot"
#define UNGROUP   "GroupController/DeleteVolumeGroupSnapshot"
#define GETGROUP  "GroupController/GetVolumeGroupSnapshot"
#define ALLOCATED "SnapshotMetadata/GetMetadataAllocated"
#define DELTA     "SnapshotMetadata/GetMetadataDelta"
#define OF_SOURCE "volume_content_source.snapshot.snapshot_id=$snapshot"
#define OF_VOLUME "volume_content_source.volume.volume_id=$id"
#define POOL      "parameters.poolSelector=raw"
#define READY_MS  20000

/* ---- parts of the checks ---- */

static void wait_ready(void)
{
	for (int ms = 0; ms < READY_MS; ms += 50) {
		ok(1, GET);
		if (answer_number("snapshot.ready_to_use") == 1)
			return;
		kit_sleep_ms(50);
	}
	kit_fail("the snapshot does not become ready");
}

/* Of the volume: $snapshot, ready. */
static void take_snapshot(const char *name)
{
	char field[64];

	(void)snprintf(field, sizeof(field), "name=%s", name);
	ok(1, SNAPSHOT, field);
	kit_let("snapshot", answer("snapshot.snapshot_id"));
	wait_ready();
}

/* Another volume: $second. */
static void make_second(void)
{
	ok(1, CREATE, "name=second");
	kit_let("second", answer("volume.volume_id"));
}

/* Of both: $group, $member, $omember. */
static void cut_group(void)
{
	make_second();
	ok(1, GROUP);
	kit_let("group", answer("group_snapshot.group_snapshot_id"));
	kit_let("member", answer("group_snapshot.snapshots.0.snapshot_id"));
	kit_let("omember", answer("group_snapshot.snapshots.1.snapshot_id"));
}

static size_t listed(const char *field)
{
	ok(1, LIST, field);
	return (size_t)answer_number("entries.#");
}

/*
 * Publish the volume $id as $name's, on host 1, and run @look on its target
 * path. Then take all down but the volume.
 */
static void looking_at(const char *id, const char *name,
		       void (*look)(const char *path))
{
	char first[KIT_TEXT_MAX], made[KIT_TEXT_MAX];

	(void)snprintf(first, sizeof(first), "%s", value_of("name"));
	(void)snprintf(made, sizeof(made), "%s", value_of("id"));
	kit_let("id", id);
	kit_let("name", name);
	kit_make_folder(staging_of(1));
	ok(1, "Controller/ControllerPublishVolume");
	ok(1, "Node/NodeStageVolume");
	ok(1, "Node/NodePublishVolume");
	look(target_of(1));
	ok(1, "Node/NodeUnpublishVolume");
	ok(1, "Node/NodeUnstageVolume");
	ok(1, "Controller/ControllerUnpublishVolume");
	kit_let("name", first);
	kit_let("id", made);
}

static void is_before(const char *path)
{
	holds(content_is(path, "before"));
}

static void is_after(const char *path)
{
	holds(content_is(path, "after"));
}

/* ---- snapshots ---- */

static void cuts_it_once(void)
{
	char id[KIT_TEXT_MAX];

	ok(1, SNAPSHOT);
	(void)snprintf(id, sizeof(id), "%s", answer("snapshot.snapshot_id"));
	same(answer("snapshot.source_volume_id"), value_of("id"));
	same(answer("snapshot.size_bytes"), value_of("size"));
	holds(answer_number("snapshot.creation_time.seconds") > 1700000000);
	ok(2, SNAPSHOT);
	same(answer("snapshot.snapshot_id"), id);
	ok(3, SNAPSHOT, "secrets.a=b");
	same(answer("snapshot.snapshot_id"), id);
	holds(listed("max_entries=0") == 1);
}

static void the_name_is_of_one_volume(void)
{
	make_second();
	ok(1, SNAPSHOT, "name=mine");
	refused(1, EXISTS, SNAPSHOT, "name=mine", "source_volume_id=$second");
	holds(listed("source_volume_id=$second") == 0);
}

static void two_cuts_are_one(void)
{
	const char *words[] = {SNAPSHOT, NULL};
	struct kit_request a = kit_request_make(1, words);
	struct kit_request b = kit_request_make(2, words);
	struct kit_answer got[2];
	size_t done = 0;

	kit_send_both(&a, &b, got);
	for (size_t i = 0; i < 2; i++) {
		holds(got[i].code == RPC_OK || got[i].code == RPC_ABORTED);
		done += got[i].code == RPC_OK;
		kit_answer_done(&got[i]);
	}
	protobuf_c_message_free_unpacked(a.in, NULL);
	protobuf_c_message_free_unpacked(b.in, NULL);
	holds(done > 0);
	holds(listed("max_entries=0") == 1);
}

/* All room there is goes to volumes; the volume has data to be kept. */
static void fill_pools(void)
{
	/* What another check left may have been unpublished here. */
	ok(1, "Node/NodePublishVolume");
	holds(content_fill(target_of(1), 24) == 0);
	for (int i = 0; i < 8; i++) {
		char name[32], size[64];

		ok(1, "Controller/GetCapacity", POOL);
		if (answer_number("maximum_volume_size.value") < KIT_MIB)
			return;
		(void)snprintf(name, sizeof(name), "name=filler-%d", i);
		(void)snprintf(size, sizeof(size),
			       "capacity_range.required_bytes=%s",
			       answer("maximum_volume_size.value"));
		ok(1, CREATE, name, size, "!volume_capabilities", "!parameters",
		   POOL, "volume_capabilities.mount.fs_type=",
		   "volume_capabilities.access_mode.mode=1");
	}
}

static void no_room_leaves_nothing(void)
{
	fill_pools();
	refused(1, RPC_RESOURCE_EXHAUSTED, SNAPSHOT);
	holds(listed("max_entries=0") == 0);
}

static void pages_and_filters(void)
{
	char token[KIT_TEXT_MAX];

	make_second();
	take_snapshot("a");
	take_snapshot("b");
	ok(1, SNAPSHOT, "name=c", "source_volume_id=$second");
	holds(listed("max_entries=2") == 2);
	(void)snprintf(token, sizeof(token), "starting_token=%s",
		       answer("next_token"));
	holds(strlen(token) > strlen("starting_token="));
	holds(listed(token) == 1);
	same(answer("next_token"), "");
	holds(listed("source_volume_id=$id") == 2);
	holds(listed("source_volume_id=$second") == 1);
	holds(listed("snapshot_id=$snapshot") == 1);
	holds(listed("snapshot_id=" GONE_ID) == 0);
	holds(listed("source_volume_id=" GONE_ID) == 0);
	holds(listed("snapshot_id=of another driver") == 0);
}

/* Written, cut, written over: both are there, in any order of deletion. */
static void they_are_independent(void)
{
	holds(content_write(target_of(1), "before") == 0);
	take_snapshot("kept");
	holds(content_write(target_of(1), "after") == 0);
	holds(content_is(target_of(1), "after"));
	level_set(CREATED);
	ok(1, CREATE, "name=restored", OF_SOURCE);
	same(answer("volume.content_source.snapshot.snapshot_id"),
	     value_of("snapshot"));
	kit_let("second", answer("volume.volume_id"));
	looking_at(value_of("second"), "restored", is_before);
	ok(1, DELETE);
	looking_at(value_of("second"), "restored", is_before);
	looking_at(value_of("id"), value_of("name"), is_after);
}

static void it_outlives_its_volume(void)
{
	holds(content_write(target_of(1), "before") == 0);
	take_snapshot("kept");
	level_set(NONE);
	holds(listed("snapshot_id=$snapshot") == 1);
	ok(1, CREATE, "name=restored", OF_SOURCE);
	kit_let("second", answer("volume.volume_id"));
	looking_at(value_of("second"), "restored", is_before);
}

static void deletes_it_twice(void)
{
	take_snapshot("kept");
	ok(1, DELETE);
	ok(2, DELETE);
	ok(1, DELETE, "snapshot_id=" GONE_ID);
	ok(1, DELETE, "snapshot_id=of another driver");
	refused(1, RPC_NOT_FOUND, GET);
	holds(listed("max_entries=0") == 0);
}

/* ---- volumes made of others ---- */

static void the_source_has_to_be_there(void)
{
	refused(1, RPC_NOT_FOUND, CREATE, "name=copy",
		"volume_content_source.snapshot.snapshot_id=" GONE_ID);
	refused(1, RPC_NOT_FOUND, CREATE, "name=copy",
		"volume_content_source.volume.volume_id=" GONE_ID);
	refused(1, RPC_NOT_FOUND, CREATE, "name=copy",
		"volume_content_source.snapshot.snapshot_id=$id");
}

static void the_source_has_to_fit(void)
{
	take_snapshot("kept");
	refused(1, BAD, CREATE, "name=copy", OF_SOURCE,
		"volume_capabilities.$other", "parameters.minExtents=1");
	refused(1, BAD, CREATE, "name=copy", OF_VOLUME,
		"volume_capabilities.$other", "parameters.minExtents=1");
}

static void not_smaller_than_its_source(void)
{
	take_snapshot("kept");
	/* Less may be asked for where no volume is smaller than its source. */
	refused(1, RPC_OUT_OF_RANGE, CREATE, "name=copy", OF_SOURCE,
		"capacity_range.required_bytes=100663296",
		"capacity_range.limit_bytes=100663296");
	refused(1, RPC_OUT_OF_RANGE, CREATE, "name=copy", OF_VOLUME,
		"!capacity_range", "capacity_range.limit_bytes=100663296");
}

static void is_larger_and_before(const char *path)
{
	is_before(path);
	holds(content_size(path) > 150u * KIT_MIB);
}

static void a_clone_may_be_larger(void)
{
	holds(content_write(target_of(1), "before") == 0);
	level_set(CREATED);
	ok(1, CREATE, "name=larger", OF_VOLUME,
	   "capacity_range.required_bytes=201326592");
	same(answer("volume.capacity_bytes"), "201326592");
	same(answer("volume.content_source.volume.volume_id"), value_of("id"));
	kit_let("second", answer("volume.volume_id"));
	looking_at(value_of("second"), "larger", is_larger_and_before);
}

static void the_name_is_of_one_source(void)
{
	take_snapshot("kept");
	ok(1, CREATE, "name=copy", OF_SOURCE);
	ok(2, CREATE, "name=copy", OF_SOURCE);
	refused(1, EXISTS, CREATE, "name=copy", OF_VOLUME);
	refused(1, EXISTS, CREATE, "name=copy");
}

/* ---- groups ---- */

static void groups_it_once(void)
{
	cut_group();
	ok(2, GROUP);
	same(answer("group_snapshot.group_snapshot_id"), value_of("group"));
	same(answer("group_snapshot.snapshots.#"), "2");
	ok(3, GROUP, "!source_volume_ids", "source_volume_ids=$second",
	   "source_volume_ids=$id");
	same(answer("group_snapshot.group_snapshot_id"), value_of("group"));
	holds(listed("max_entries=0") == 2);
	same(answer("entries.0.snapshot.group_snapshot_id"), value_of("group"));
}

static void the_group_is_of_these_volumes(void)
{
	cut_group();
	refused(1, EXISTS, GROUP, "!source_volume_ids",
		"source_volume_ids=$id");
	refused(1, RPC_NOT_FOUND, GROUP, "name=other",
		"source_volume_ids=" GONE_ID);
}

static void members_go_together(void)
{
	cut_group();
	refused(1, BAD, DELETE, "snapshot_id=$member");
	holds(listed("max_entries=0") == 2);
	ok(1, UNGROUP);
	ok(2, UNGROUP);
	holds(listed("max_entries=0") == 0);
	refused(1, RPC_NOT_FOUND, GETGROUP);
	refused(1, RPC_NOT_FOUND, GETGROUP, "!snapshot_ids");
	ok(1, UNGROUP, "!snapshot_ids");
}

static void the_ids_are_the_groups(void)
{
	cut_group();
	refused(1, BAD, UNGROUP, "snapshot_ids=" GONE_ID);
	refused(1, BAD, UNGROUP, "!snapshot_ids", "snapshot_ids=$member");
	refused(1, BAD, UNGROUP, "!snapshot_ids");
	holds(listed("max_entries=0") == 2);
}

static void gets_the_group_by_its_ids(void)
{
	cut_group();
	ok(1, GETGROUP);
	same(answer("group_snapshot.snapshots.#"), "2");
	refused(1, BAD, GETGROUP, "snapshot_ids=" GONE_ID);
	refused(1, BAD, GETGROUP, "!snapshot_ids", "snapshot_ids=$omember");
	refused(1, RPC_NOT_FOUND, GETGROUP, "group_snapshot_id=" GONE_ID);
}

static void a_full_pool_fails_the_group(void)
{
	make_second();
	fill_pools();
	refused(1, RPC_RESOURCE_EXHAUSTED, GROUP);
	holds(listed("max_entries=0") == 0);
	refused(1, RPC_NOT_FOUND, GETGROUP, "group_snapshot_id=group");
}

/* Writes a number to the first volume, then to the second, then the next. */
static struct {
	char first[KIT_TEXT_MAX], second[KIT_TEXT_MAX];
	atomic_bool stop;
	atomic_int written, error;
} writer;

static void *write_both(void *unused)
{
	char text[32];

	for (int n = 1; !writer.stop; n++) {
		(void)snprintf(text, sizeof(text), "%d", n);
		int r = content_write(writer.first, text);

		if (r == 0)
			r = content_write(writer.second, text);
		if (r < 0) {
			writer.error = -r;
			break;
		}
		writer.written = n;
	}
	return unused;
}

static int number_at(const char *path)
{
	for (int n = 0; n < 100000; n++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "%d", n);
		if (content_is(path, text))
			return n;
	}
	kit_fail("'%s' has no number", path);
}

static int number_seen;

static void see_number(const char *path)
{
	number_seen = number_at(path);
}

/* The number in the snapshot, which is that of $snapshot by now. */
static int restored(const char *id, const char *name)
{
	char create[64];

	(void)snprintf(create, sizeof(create), "name=%s", name);
	kit_let("snapshot", id);
	wait_ready();
	ok(1, CREATE, create, OF_SOURCE);
	kit_let("made", answer("volume.volume_id"));
	looking_at(value_of("made"), name, see_number);
	return number_seen;
}

static void write_order_is_kept(void)
{
	char first[KIT_TEXT_MAX];
	pthread_t thread;
	int a, b, at;

	make_second();
	/* What another check left may have been unpublished here. */
	ok(1, "Node/NodePublishVolume");
	(void)snprintf(first, sizeof(first), "%s", value_of("id"));
	(void)snprintf(writer.first, sizeof(writer.first), "%s", target_of(1));
	kit_let("name", "second");
	kit_let("id", value_of("second"));
	kit_make_folder(staging_of(1));
	ok(1, "Controller/ControllerPublishVolume");
	ok(1, "Node/NodeStageVolume");
	ok(1, "Node/NodePublishVolume");
	(void)snprintf(writer.second, sizeof(writer.second), "%s",
		       target_of(1));
	kit_let("id", first);
	writer.stop = false;
	writer.written = 0;
	holds(pthread_create(&thread, NULL, write_both, NULL) == 0);
	for (int i = 0; i < 500 && writer.written < 5; i++)
		kit_sleep_ms(10);
	at = writer.written;
	(void)call(1, GROUP);
	for (int i = 0; i < 500 && writer.written <= at; i++)
		kit_sleep_ms(10);
	writer.stop = true;
	(void)pthread_join(thread, NULL);
	kit_let("name", "disk");
	if (at < 5 || writer.written <= at)
		kit_fail("%d written before, %d after: %s", at, writer.written,
			 strerror(writer.error));
	ok(1, GROUP);
	kit_let("group", answer("group_snapshot.group_snapshot_id"));
	/* By the names of the volumes: "disk", "second". */
	kit_let("member", answer("group_snapshot.snapshots.0.snapshot_id"));
	kit_let("omember", answer("group_snapshot.snapshots.1.snapshot_id"));
	a = restored(value_of("member"), "copy-a");
	b = restored(value_of("omember"), "copy-b");
	if (a < at || a < b || a > b + 1)
		kit_fail("%d in the first, %d in the second; %d before", a, b,
			 at);
}

/* ---- changed blocks ---- */

static void streams_what_is_used(void)
{
	const struct kit_stream *seen = kit_streamed();
	int64_t bytes;

	holds(content_fill(target_of(1), 8) == 0);
	take_snapshot("full");
	ok(1, ALLOCATED);
	holds(!seen->wrong && seen->ranges > 0);
	holds(seen->bytes >= 8 * KIT_MIB);
	holds(seen->end <= seen->capacity);
	bytes = seen->bytes;
	ok(1, ALLOCATED, "max_results=1");
	holds(!seen->wrong && seen->most == 1 && seen->bytes == bytes);
	ok(1, ALLOCATED, "starting_offset=4194304");
	holds(!seen->wrong && seen->first_end > 4194304);
}

/*
 * Go on after a stream that ended after any of its ranges. A stream from there
 * on is the rest, no more, and the same again.
 */
static void goes_on_with_what_has_changed(void)
{
	const struct kit_stream *seen = kit_streamed();
	const int64_t bytes = seen->bytes;
	struct kit_stream whole;
	char from[64];

	ok(1, DELTA, "max_results=1");
	holds(!seen->wrong && seen->most == 1 && seen->bytes == bytes);
	whole = *seen;
	(void)snprintf(from, sizeof(from), "starting_offset=%lld",
		       (long long)whole.first_end);
	ok(1, DELTA, from, "max_results=1");
	holds(!seen->wrong && seen->bytes < bytes);
	holds(seen->ranges + 1 == whole.ranges);
	if (whole.ranges > 1)
		holds(seen->end == whole.end &&
		      seen->first_end > whole.first_end);
	/* The last byte of what has changed, and nothing after it. */
	(void)snprintf(from, sizeof(from), "starting_offset=%lld",
		       (long long)whole.end - 1);
	ok(1, DELTA, from);
	holds(!seen->wrong && seen->ranges == 1 && seen->end == whole.end);
}

static void streams_what_has_changed(void)
{
	const struct kit_stream *seen = kit_streamed();
	int64_t bytes;

	holds(content_fill(target_of(1), 8) == 0);
	take_snapshot("older");
	kit_let("base", value_of("snapshot"));
	holds(content_write(target_of(1), "changed") == 0);
	take_snapshot("newer");
	ok(1, ALLOCATED);
	bytes = seen->bytes;
	ok(1, DELTA);
	holds(!seen->wrong && seen->ranges > 0 && seen->bytes < bytes);
	holds(seen->first_end <= 2 * KIT_MIB);
	goes_on_with_what_has_changed();
}

static void streams_refuse_what_cannot_be(void)
{
	take_snapshot("kept");
	refused(1, RPC_OUT_OF_RANGE, ALLOCATED, "starting_offset=-1");
	refused(1, RPC_OUT_OF_RANGE, ALLOCATED,
		"starting_offset=1099511627776");
	kit_let("base", value_of("snapshot"));
	refused(1, RPC_OUT_OF_RANGE, DELTA, "starting_offset=1099511627776");
	refused(1, BAD, ALLOCATED, "max_results=-1");
	refused(1, BAD, ALLOCATED, "!snapshot_id");
	refused(1, BAD, DELTA, "!base_snapshot_id");
	refused(1, BAD, DELTA, "!target_snapshot_id");
	refused(1, RPC_NOT_FOUND, ALLOCATED, "snapshot_id=" GONE_ID);
	refused(1, RPC_NOT_FOUND, DELTA, "base_snapshot_id=" GONE_ID);
	refused(1, RPC_NOT_FOUND, DELTA, "target_snapshot_id=" GONE_ID);
}

/* ---- limits ---- */

/* Tell whether the volume confirms these mutable parameters. */
static bool limits_are(const char *iops, const char *bytes)
{
	ok(1, VALIDATE, iops, bytes);
	return answer("confirmed")[0];
}

static void other_keys_stay(void)
{
	ok(1, MODIFY, "mutable_parameters.iops=700");
	ok(1, MODIFY, "mutable_parameters.bytesPerSecond=10MiB");
	holds(limits_are("mutable_parameters.iops=700",
			 "mutable_parameters.bytesPerSecond=10MiB"));
	holds(!limits_are("mutable_parameters.iops=701",
			  "mutable_parameters.bytesPerSecond=10MiB"));
}

static void a_bad_key_applies_nothing(void)
{
	ok(1, MODIFY, "mutable_parameters.iops=700");
	refused(1, BAD, MODIFY, "mutable_parameters.iops=5",
		"mutable_parameters.speed=9");
	refused(1, BAD, MODIFY, "mutable_parameters.iops=5",
		"mutable_parameters.bytesPerSecond=some");
	refused(1, BAD, MODIFY, "mutable_parameters.fsType=xfs");
	holds(limits_are("mutable_parameters.iops=700",
			 "mutable_parameters.bytesPerSecond=0"));
}

static void mutable_ones_come_first(void)
{
	ok(1, CREATE, "name=second", "parameters.iops=100",
	   "mutable_parameters.iops=200");
	kit_let("second", answer("volume.volume_id"));
	ok(1, VALIDATE, "volume_id=$second", "mutable_parameters.iops=200");
	holds(answer("confirmed")[0]);
}

/* ---- the table ---- */

const struct check snapshot_checks[] = {
	CHECK("snapshot-idempotent", "cutting it again, anywhere", CREATED,
	      BOTH, cuts_it_once),
	CHECK("snapshot-exists", "the name, for another volume", CREATED, ONCE,
	      the_name_is_of_one_volume),
	CHECK("snapshot-pending", "two at once cut one", CREATED, BOTH,
	      two_cuts_are_one),
	CHECK("snapshot-full", "no room for a snapshot", PUBLISHED, BLOCK,
	      no_room_leaves_nothing),
	CHECK("snapshot-delete", "deleting it twice", CREATED, BOTH,
	      deletes_it_twice),
	CHECK("snapshot-member", "a member of a group alone", CREATED, BOTH,
	      members_go_together),
	ASK("snapshot-token", "a token of nobody", NONE, ONCE, RPC_ABORTED,
	    LIST, "starting_token=nonsense"),
	CHECK("snapshot-filters", "pages and filters", CREATED, ONCE,
	      pages_and_filters),
	ASK("snapshot-get", "an absent snapshot", NONE, ONCE, RPC_NOT_FOUND,
	    GET, "snapshot_id=" GONE_ID),
	CHECK("snapshot-size", "a volume smaller than the snapshot", CREATED,
	      BOTH, not_smaller_than_its_source),
	CHECK("snapshot-independent", "what is written later is not in it",
	      PUBLISHED, BOTH, they_are_independent),
	CHECK("snapshot-outlives", "its volume is deleted", PUBLISHED, BOTH,
	      it_outlives_its_volume),

	CHECK("create-source-absent", "a source that is not there", CREATED,
	      BOTH, the_source_has_to_be_there),
	CHECK("create-source-parameters", "a source of the other access type",
	      CREATED, BOTH, the_source_has_to_fit),
	CHECK("create-source-size", "smaller than the source", CREATED, BOTH,
	      not_smaller_than_its_source),
	CHECK("create-source-larger", "a larger clone", PUBLISHED, BOTH,
	      a_clone_may_be_larger),
	CHECK("create-exists-source", "the name, with another source", CREATED,
	      BOTH, the_name_is_of_one_source),

	CHECK("group-idempotent", "the group again, anywhere", CREATED, BOTH,
	      groups_it_once),
	CHECK("group-exists", "the group, of other volumes", CREATED, ONCE,
	      the_group_is_of_these_volumes),
	CHECK("group-full", "no room for a group", PUBLISHED, BLOCK,
	      a_full_pool_fails_the_group),
	CHECK("group-order", "write order over both volumes", PUBLISHED, BLOCK,
	      write_order_is_kept),
	CHECK("group-undone", "nothing is left of it", PUBLISHED, BLOCK,
	      a_full_pool_fails_the_group),
	CHECK("group-delete", "the group is deleted twice", CREATED, BOTH,
	      members_go_together),
	CHECK("group-delete-ids", "ids of others", CREATED, ONCE,
	      the_ids_are_the_groups),
	CHECK("group-get", "an absent group", CREATED, ONCE,
	      gets_the_group_by_its_ids),
	CHECK("group-get-ids", "ids that are not the group's", CREATED, ONCE,
	      gets_the_group_by_its_ids),

	CHECK("metadata-argument", "arguments that are missing", CREATED, BLOCK,
	      streams_refuse_what_cannot_be),
	CHECK("metadata-absent", "snapshots that are not there", CREATED, BLOCK,
	      streams_refuse_what_cannot_be),
	CHECK("metadata-offset", "offsets past the end", CREATED, BLOCK,
	      streams_refuse_what_cannot_be),
	CHECK("metadata-ascending", "what is used, in order", PUBLISHED, BLOCK,
	      streams_what_is_used),
	CHECK("metadata-max", "one range in a message", PUBLISHED, BLOCK,
	      streams_what_is_used),
	CHECK("metadata-style", "what has changed, in one style", PUBLISHED,
	      BLOCK, streams_what_has_changed),
	CHECK("metadata-whole", "all of what is used", PUBLISHED, BLOCK,
	      streams_what_is_used),

	CHECK("modify-bad", "a key that is not known", CREATED, BOTH,
	      a_bad_key_applies_nothing),
	ASK("modify-no-volume", "an absent volume", NONE, ONCE, RPC_NOT_FOUND,
	    MODIFY, "volume_id=" GONE_ID, "mutable_parameters.iops=1"),
	CHECK("modify-others", "keys that are not sent", CREATED, BOTH,
	      other_keys_stay),
	CHECK("create-mutable", "mutable parameters over others", NONE, BOTH,
	      mutable_ones_come_first),
};
const size_t n_snapshot_checks = array_size(snapshot_checks);
