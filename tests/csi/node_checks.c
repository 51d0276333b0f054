/* SPDX-License-Identifier: Apache-2.0 */
/* The Node service. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "tests/csi/checks.h"

#define BAD       RPC_INVALID_ARGUMENT
#define EXISTS    RPC_ALREADY_EXISTS
#define NOT_SO    RPC_FAILED_PRECONDITION
#define STAGE     "Node/NodeStageVolume"
#define UNSTAGE   "Node/NodeUnstageVolume"
#define PUBLISH   "Node/NodePublishVolume"
#define UNPUBLISH "Node/NodeUnpublishVolume"
#define STATS     "Node/NodeGetVolumeStats"
#define EXPAND    "Node/NodeExpandVolume"

static bool is_disk(void)
{
	return strcmp(value_of("access"), "block=") == 0;
}

/* ---- NodeStageVolume, NodeUnstageVolume ---- */

static void stages_it_once(void)
{
	for (int i = 0; i < 3; i++)
		ok(1, STAGE);
	ok(1, PUBLISH);
	holds(content_write(target_of(1), "here") == 0);
	ok(1, STAGE);
	holds(content_is(target_of(1), "here"));
	ok(1, UNPUBLISH);
}

static void unstaging_undoes_it(void)
{
	ok(1, UNSTAGE);
	level_is(ATTACHED);
	holds(!is_mounted(staging_of(1)));
	refused(1, RPC_NOT_FOUND, STATS, "volume_path=$staging");
	ok(1, UNSTAGE);
	ok(1, UNSTAGE);
	level_set(STAGED);
}

static void a_stage_is_undone_or_goes_on(void)
{
	for (int i = 0; i < 4; i++) {
		const char *words[] = {STAGE, NULL};
		struct kit_request request = kit_request_make(1, words);
		struct kit_answer got;

		kit_send(&request, 1 + 20 * i, &got);
		kit_answer_done(&got);
		protobuf_c_message_free_unpacked(request.in, NULL);
		while (call(1, i % 2 ? UNSTAGE : STAGE) == RPC_ABORTED)
			kit_sleep_ms(20);
		ok(1, i % 2 ? UNSTAGE : STAGE);
		ok(1, UNSTAGE);
		holds(!is_mounted(staging_of(1)));
	}
}

/*
 * Send a request that is given up after some milliseconds, then again as its
 * caller does, then once more.
 */
static void cut_short_and_again(const char *name)
{
	const char *words[] = {name, NULL};
	struct kit_request request = kit_request_make(1, words);
	struct kit_answer got;

	kit_send(&request, 20, &got);
	kit_answer_done(&got);
	protobuf_c_message_free_unpacked(request.in, NULL);
	while (call(1, name) == RPC_ABORTED)
		kit_sleep_ms(20);
	ok(1, name);
	ok(1, name);
}

/* In the order in which Kubernetes has them, for a pod with a claim. */
static const char *const up[] = {"attacher: attach",
				 "kubelet: which node",
				 "kubelet: what can the node",
				 "kubelet: stage",
				 "kubelet: grow what is staged",
				 "kubelet: publish",
				 "kubelet: stats",
				 "kubelet: grow what a pod has"};
static const char *const down[] = {"kubelet: unpublish", "kubelet: unstage",
				   "attacher: detach", "provisioner: delete"};

static void a_pod_has_a_claim(void)
{
	char other[256];

	(void)snprintf(other, sizeof(other), "%s", value_of("id"));
	cut_short_and_again("provisioner: create");
	kit_let("id", answer("volume.volume_id"));
	for (size_t i = 0; i < array_size(up); i++)
		cut_short_and_again(up[i]);
	holds(content_write(target_of(1), "of the pod") == 0);
	/* The kubelet was restarted, and asks again. */
	for (size_t i = 0; i < array_size(up); i++)
		ok(1, up[i]);
	holds(content_is(target_of(1), "of the pod"));
	for (size_t i = 0; i < array_size(down); i++)
		cut_short_and_again(down[i]);
	holds(!kit_exists(target_of(1)));
	kit_let("id", other);
}

/* ---- NodePublishVolume ---- */

static void node_publishes_once(void)
{
	holds(content_write(target_of(1), "once") == 0);
	for (int i = 0; i < 3; i++)
		ok(1, PUBLISH);
	holds(content_is(target_of(1), "once"));
}

static void makes_the_target(void)
{
	struct stat st;

	holds(!kit_exists(target_of(1)));
	ok(1, PUBLISH);
	holds(stat(target_of(1), &st) == 0);
	holds(is_disk() ? S_ISBLK(st.st_mode) : S_ISDIR(st.st_mode));
	holds(is_mounted(target_of(1)));
	ok(1, UNPUBLISH);
	holds(!kit_exists(target_of(1)));
	ok(1, UNPUBLISH);
}

static void reads_only_when_asked(void)
{
	ok(1, PUBLISH, "readonly=1");
	holds(content_write(target_of(1), "no") < 0);
	ok(1, UNPUBLISH);
	ok(1, PUBLISH);
	holds(content_write(target_of(1), "yes") == 0);
	ok(1, UNPUBLISH);
}

static void has_the_flags(void)
{
#define FLAG(name) "volume_capability.mount.mount_flags=" name
	static const struct {
		const char *name;
		unsigned long set;
	} flags[] = {{FLAG("noexec"), ST_NOEXEC},
		     {FLAG("nosuid"), ST_NOSUID},
		     {FLAG("nodev"), ST_NODEV},
		     {FLAG("noatime"), ST_NOATIME},
		     {FLAG("ro"), ST_RDONLY}};
	struct statvfs vfs;

	for (size_t i = 0; i < array_size(flags); i++) {
		ok(1, PUBLISH, flags[i].name);
		holds(statvfs(target_of(1), &vfs) == 0);
		holds(vfs.f_flag & flags[i].set);
		ok(1, UNPUBLISH);
	}
	refused(1, NOT_SO, PUBLISH, FLAG("no-such-flag"));
}

static void a_volume_moves_between_targets(void)
{
	ok(1, PUBLISH, "target_path=$target-one");
	ok(1, UNPUBLISH, "target_path=$target-one");
	ok(1, PUBLISH, "target_path=$target-two");
	ok(1, UNPUBLISH, "target_path=$target-two");
}

/* ---- the second publication ---- */

/* Staged and published in @mode, at $target. */
static void matrix_begin(const char *mode)
{
	kit_let("first", value_of("name"));
	kit_let("made", value_of("id"));
	kit_let("name", "matrix");
	kit_let("mode", mode);
	ok(1, "Controller/CreateVolume", "volume_capabilities.1.$access",
	   "volume_capabilities.1.access_mode.mode=1");
	kit_let("id", answer("volume.volume_id"));
	kit_make_folder(staging_of(1));
	ok(1, "Controller/ControllerPublishVolume");
	ok(1, STAGE);
	ok(1, PUBLISH);
}

static void matrix_end(void)
{
	(void)call(1, UNPUBLISH, "target_path=$target-b");
	ok(1, UNPUBLISH);
	ok(1, UNSTAGE);
	ok(1, "Controller/ControllerUnpublishVolume");
	ok(1, "Controller/DeleteVolume");
	kit_let("mode", "1");
	kit_let("name", value_of("first"));
	kit_let("id", value_of("made"));
}

static void matrix(const char *mode, enum rpc_code other_path)
{
	matrix_begin(mode);
	ok(1, PUBLISH);
	refused(1, EXISTS, PUBLISH, "readonly=1");
	refused(1, other_path, PUBLISH, "target_path=$target-b");
	if (other_path == RPC_OK)
		ok(1, UNPUBLISH, "target_path=$target-b");
	/*
	 * A device is read-only for all who have it, or for none: beside a
	 * writer nobody only reads, which a SHOULD leaves open.
	 */
	if (is_disk() && strcmp(mode, "7") == 0)
		other_path = NOT_SO;
	refused(1, other_path, PUBLISH, "target_path=$target-b", "readonly=1");
	matrix_end();
}

static void matrix_1(void)
{
	matrix("1", NOT_SO);
}
static void matrix_2(void)
{
	matrix("2", NOT_SO);
}
static void matrix_6(void)
{
	matrix("6", NOT_SO);
}
static void matrix_7(void)
{
	matrix("7", RPC_OK);
}
static void matrix_3(void)
{
	matrix("3", RPC_OK);
}

static void another_capability_there(void)
{
	refused(1, NOT_SO, PUBLISH, "volume_capability.access_mode.mode=7");
	refused(1, NOT_SO, PUBLISH, "volume_capability.$other");
}

/* Two publications are the same volume. */
static void two_writers_on_a_node(void)
{
	matrix_begin("7");
	ok(1, PUBLISH, "target_path=$target-b");
	holds(content_write(kit_text("$target-b"), "from b") == 0);
	holds(content_is(target_of(1), "from b"));
	ok(1, UNPUBLISH, "target_path=$target-b");
	holds(content_is(target_of(1), "from b"));
	matrix_end();
}

/* ---- NodeUnpublishVolume ---- */

static void unpublishing_leaves_others_alone(void)
{
	kit_make_folder(kit_text("$target-kept"));
	kit_make_folder(kit_text("$target-kept/inside"));
	holds(call(1, UNPUBLISH, "target_path=$target-kept") != RPC_OK);
	holds(kit_exists(kit_text("$target-kept/inside")));
	kit_remove_tree(kit_text("$target-kept"));
	holds(is_mounted(target_of(1)));
}

/* ---- NodeGetVolumeStats ---- */

static void stats_have_usage(void)
{
	ok(1, STATS);
	same(answer("usage.0.unit"), "1");
	holds(answer_number("usage.0.total") > 50000000);
	if (is_disk())
		same(answer("usage.0.total"), value_of("size"));
	else
		holds(answer_number("usage.0.available") > 0 &&
		      answer_number("usage.1.unit") == 2);
}

static void stats_have_the_condition(void)
{
	ok(1, STATS);
	same(answer("volume_condition.abnormal"), "0");
	holds(answer("volume_condition.message")[0]);
	ok(1, STATS, "volume_path=$staging");
	same(answer("volume_condition.abnormal"), "0");
}

/* ---- NodeExpandVolume, NodeGetInfo ---- */

static void node_expand_without_a_range(void)
{
	ok(1, EXPAND);
	ok(1, EXPAND, "!volume_capability");
	ok(1, EXPAND, "volume_path=$staging");
}

static void the_node_says_who_it_is(void)
{
	for (int host = 1; host <= KIT_HOSTS; host++) {
		ok(host, "Node/NodeGetInfo");
		same(answer("node_id"), value_of("node"));
		holds(strlen(answer("node_id")) <= 256);
	}
}

static void the_node_has_no_negative_limit(void)
{
	ok(1, "Node/NodeGetInfo");
	holds(answer_number("max_volumes_per_node") >= 0);
}

static void the_node_says_where_it_is(void)
{
	ok(2, "Node/NodeGetInfo");
	same(answer("accessible_topology.segments.topology.union.csi.union.io/node"),
	     "host2");
}

static void the_node_is_always_the_same(void)
{
	char id[300];

	ok(1, "Node/NodeGetInfo");
	(void)snprintf(id, sizeof(id), "%s", answer("node_id"));
	for (int i = 0; i < 5; i++) {
		ok(1, "Node/NodeGetInfo");
		same(answer("node_id"), id);
	}
}

static void the_node_says_what_it_can(void)
{
	static const char *const want[] = {"1", "2", "3", "4", "5"};

	ok(1, "Node/NodeGetCapabilities");
	for (size_t i = 0; i < array_size(want); i++) {
		bool found = false;

		for (int j = 0; j < 8; j++) {
			char path[64];

			(void)snprintf(path, sizeof(path),
				       "capabilities.%d.rpc.type", j);
			found = found || strcmp(answer(path), want[i]) == 0;
		}
		if (!found)
			kit_fail("node capability %s is not there", want[i]);
	}
}

/* ---- the table ---- */

const struct check node_checks[] = {
	CHECK("retry", "the life of a pod's claim, each call cut short",
	      CREATED, MOUNT, a_pod_has_a_claim),
	CHECK("stage-idempotent", "staging it again", STAGED, BOTH,
	      stages_it_once),
	ASK("stage-no-volume", "staging an absent volume", ATTACHED, BOTH,
	    RPC_NOT_FOUND, STAGE, "volume_id=" GONE_ID),
	ASK("stage-incompatible", "staging it in another mode", STAGED, BOTH,
	    EXISTS, STAGE, "volume_capability.access_mode.mode=7"),
	ASK("stage-incompatible", "staging it with another context", STAGED,
	    BOTH, EXISTS, STAGE, "volume_context.a=b"),
	ASK("stage-capability", "staging it with the other access type",
	    ATTACHED, BOTH, NOT_SO, STAGE, "volume_capability.$other"),
	ASK("stage-capability", "staging it for writers on many nodes",
	    ATTACHED, BOTH, NOT_SO, STAGE,
	    "volume_capability.access_mode.mode=5"),
	ASK("stage-capability", "staging it with another file system", ATTACHED,
	    MOUNT, NOT_SO, STAGE, "volume_capability.mount.fs_type=xfs"),
	ASK("unstage-idempotent", "unstaging what is not staged", ATTACHED,
	    BOTH, RPC_OK, UNSTAGE),
	ASK("unstage-idempotent", "unstaging what is not even published",
	    CREATED, BOTH, RPC_OK, UNSTAGE),
	CHECK("unstage-undoes", "unstaging undoes it all", STAGED, BOTH,
	      unstaging_undoes_it),
	ASK("unstage-unknown", "unstaging an absent volume", ATTACHED, BOTH,
	    RPC_OK, UNSTAGE, "volume_id=" GONE_ID),
	ASK("unstage-unknown", "unstaging what can be no volume", ATTACHED,
	    ONCE, RPC_OK, UNSTAGE, "volume_id=of another driver"),
	CHECK("order-opposite",
	      "a stage that ran out of time is undone, or goes on", ATTACHED,
	      BOTH, a_stage_is_undone_or_goes_on),

	CHECK("node-publish-idempotent", "publishing it again", PUBLISHED, BOTH,
	      node_publishes_once),
	ASK("node-publish-no-volume", "publishing an absent volume", STAGED,
	    BOTH, RPC_NOT_FOUND, PUBLISH, "volume_id=" GONE_ID),
	ASK("node-publish-incompatible", "publishing it there for reading too",
	    PUBLISHED, BOTH, EXISTS, PUBLISH, "readonly=1"),
	ASK("node-publish-capability",
	    "publishing it with the other access type", STAGED, BOTH, NOT_SO,
	    PUBLISH, "volume_capability.$other"),
	ASK("node-publish-capability",
	    "publishing it for writers on many nodes", STAGED, BOTH, NOT_SO,
	    PUBLISH, "volume_capability.access_mode.mode=5"),
	ASK("node-publish-unstaged", "publishing without a staging path",
	    STAGED, BOTH, NOT_SO, PUBLISH, "!staging_target_path"),
	ASK("node-publish-unstaged", "publishing what is not staged", ATTACHED,
	    BOTH, NOT_SO, PUBLISH),
	CHECK("node-publish-makes", "the target is made, and removed", STAGED,
	      BOTH, makes_the_target),
	CHECK("node-publish-makes", "one target after another", STAGED, BOTH,
	      a_volume_moves_between_targets),
	CHECK("node-publish-readonly", "readonly can not be written to", STAGED,
	      BOTH, reads_only_when_asked),
	CHECK("node-publish-flags", "mount flags are there", STAGED, MOUNT,
	      has_the_flags),

	CHECK("second-same", "SINGLE_NODE_WRITER: a second publication", NONE,
	      BOTH, matrix_1),
	CHECK("second-other", "SINGLE_NODE_READER_ONLY: a second publication",
	      NONE, BOTH, matrix_2),
	CHECK("second-path", "SINGLE_NODE_SINGLE_WRITER: a second publication",
	      NONE, BOTH, matrix_6),
	CHECK("second-path-other",
	      "SINGLE_NODE_MULTI_WRITER: a second publication", NONE, BOTH,
	      matrix_7),
	CHECK("second-path-other",
	      "MULTI_NODE_READER_ONLY: a second publication", NONE, BOTH,
	      matrix_3),
	CHECK("second-path", "SINGLE_NODE_MULTI_WRITER: both are one volume",
	      NONE, BOTH, two_writers_on_a_node),
	CHECK("second-capability", "another capability at the same path",
	      PUBLISHED, BOTH, another_capability_there),

	ASK("node-unpublish-repeat", "unpublishing what is not published",
	    STAGED, BOTH, RPC_OK, UNPUBLISH),
	CHECK("node-unpublish-removes",
	      "unpublishing leaves what is not its own", PUBLISHED, BOTH,
	      unpublishing_leaves_others_alone),
	ASK("node-unpublish-unknown", "unpublishing an absent volume", NONE,
	    BOTH, RPC_OK, UNPUBLISH, "volume_id=" GONE_ID),
	ASK("node-unpublish-unknown", "unpublishing what can be no volume",
	    NONE, ONCE, RPC_OK, UNPUBLISH, "volume_id=of another driver"),

	ASK("stats-no-volume", "stats of an absent volume", PUBLISHED, BOTH,
	    RPC_NOT_FOUND, STATS, "volume_id=" GONE_ID),
	ASK("stats-no-path", "stats where it is not", PUBLISHED, BOTH,
	    RPC_NOT_FOUND, STATS, "volume_path=$target-not"),
	ASK("stats-no-path", "stats where nothing can be", PUBLISHED, BOTH,
	    RPC_NOT_FOUND, STATS, "volume_path=some/path"),
	CHECK("stats-usage", "stats have the usage", PUBLISHED, BOTH,
	      stats_have_usage),
	CHECK("stats-condition", "stats have the condition", PUBLISHED, BOTH,
	      stats_have_the_condition),

	ASK("node-expand-idempotent", "growing to what it is", PUBLISHED, BOTH,
	    RPC_OK, EXPAND, "capacity_range.required_bytes=$size"),
	ASK("node-expand-capability",
	    "growing, in a mode that is not supported", PUBLISHED, BOTH, BAD,
	    EXPAND, "volume_capability.access_mode.mode=5"),
	ASK("node-expand-no-volume", "growing an absent volume", PUBLISHED,
	    BOTH, RPC_NOT_FOUND, EXPAND, "volume_id=" GONE_ID),
	ASK("node-expand-no-volume",
	    "growing where nothing can be, in a mode "
	    "that is not supported",
	    PUBLISHED, BOTH, RPC_NOT_FOUND, EXPAND, "volume_path=some/path",
	    "volume_capability.access_mode.mode=5"),
	ASK("node-expand-range", "growing to more than the volume has",
	    PUBLISHED, BOTH, RPC_OUT_OF_RANGE, EXPAND,
	    "capacity_range.required_bytes=1099511627776"),
	CHECK("node-expand-no-range", "growing without a range", PUBLISHED,
	      BOTH, node_expand_without_a_range),

	CHECK("info-node-id", "each node has its id", NONE, ONCE,
	      the_node_says_who_it_is),
	CHECK("info-max", "the limit is not negative", NONE, ONCE,
	      the_node_has_no_negative_limit),
	CHECK("info-topology", "the node's place is there", NONE, ONCE,
	      the_node_says_where_it_is),
	CHECK("info-once", "the node is always the same", NONE, ONCE,
	      the_node_is_always_the_same),
	CHECK("unimplemented", "the node says what it can", NONE, ONCE,
	      the_node_says_what_it_can),
};
const size_t n_node_checks = array_size(node_checks);
