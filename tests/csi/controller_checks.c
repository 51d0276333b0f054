/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/csi/checks.h"

#define BAD       RPC_INVALID_ARGUMENT
#define EXISTS    RPC_ALREADY_EXISTS
#define CREATE    "Controller/CreateVolume"
#define PUBLISH   "Controller/ControllerPublishVolume"
#define UNPUBLISH "Controller/ControllerUnpublishVolume"
#define VALIDATE  "Controller/ValidateVolumeCapabilities"
#define LIST      "Controller/ListVolumes"
#define GET       "Controller/ControllerGetVolume"
#define CAPACITY  "Controller/GetCapacity"
#define EXPAND    "Controller/ControllerExpandVolume"
#define PLACE(n)                                  \
	"accessibility_requirements.requisite." n \
	".segments.topology.union.csi.union.io/node="
#define WISH(n)                                   \
	"accessibility_requirements.preferred." n \
	".segments.topology.union.csi.union.io/node="
#define HUGE_BYTES "4611686018427387904" /* 4 EiB */
#define MORE_BYTES "201326592"           /* 192 MiB: more than $size */

#define SIZE_0 "capacity_range.required_bytes=335544320" /* 320 MiB */
#define SIZE_1 "capacity_range.required_bytes=402653184" /* 384 MiB */

static void let_number(const char *name, int64_t n)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%lld", (long long)n);
	kit_let(name, text);
}

/* ---- CreateVolume ---- */

static void creates_it_once(void)
{
	for (int host = 1; host <= KIT_HOSTS; host++) {
		ok(host, CREATE);
		same(answer("volume.volume_id"), value_of("id"));
		same(answer("volume.capacity_bytes"), value_of("size"));
	}
	ok(1, LIST);
	same(answer("entries.#"), "1");
}

static void creates_it_with_wider_limits(void)
{
	ok(1, CREATE, "capacity_range.required_bytes=1048576");
	same(answer("volume.volume_id"), value_of("id"));
	ok(1, CREATE, "capacity_range.limit_bytes=" HUGE_BYTES);
	same(answer("volume.volume_id"), value_of("id"));
}

static void has_one_file_system(void)
{
#define LARGE                                                 \
	"name=fs", "capacity_range.required_bytes=335544320", \
		"parameters.minExtents=1"
	ok(1, CREATE, LARGE, "volume_capabilities.mount.fs_type=ext4");
	refused(1, EXISTS, CREATE, LARGE,
		"volume_capabilities.mount.fs_type=xfs");
}

static void keeps_the_range(void)
{
	ok(1, CREATE, "name=range", "capacity_range.required_bytes=100000001",
	   "capacity_range.limit_bytes=110000000", "parameters.minExtents=1");
	holds(answer_number("volume.capacity_bytes") >= 100000001);
	holds(answer_number("volume.capacity_bytes") <= 110000000);
}

static void chooses_without_a_range(void)
{
	ok(1, CREATE, "name=free", "!capacity_range",
	   "parameters.minExtents=1");
	holds(answer_number("volume.capacity_bytes") > 0);
	kit_let("made", answer("volume.volume_id"));
	ok(1, CREATE, "name=free", "!capacity_range",
	   "parameters.minExtents=1");
	same(answer("volume.volume_id"), value_of("made"));
}

static void takes_a_limit_alone(void)
{
	ok(1, CREATE, "name=limit", "capacity_range.required_bytes=0",
	   "capacity_range.limit_bytes=167772160");
	holds(answer_number("volume.capacity_bytes") <= 167772160);
}

/* Ask for two capabilities, one not supported: no volume is made. */
static void makes_all_capabilities_or_nothing(void)
{
	refused(1, BAD, CREATE, "name=all", "volume_capabilities.1.$access",
		"volume_capabilities.1.access_mode.mode=5");
	ok(1, LIST);
	same(answer("entries.#"), "0");
	ok(1, CREATE, "name=all", "volume_capabilities.1.$access",
	   "volume_capabilities.1.access_mode.mode=2");
}

static void takes_the_modes_it_can(void)
{
	static const char *const modes[] = {"1", "2", "3", "6", "7"};

	for (size_t i = 0; i < array_size(modes); i++) {
		kit_let("mode", modes[i]);
		ok(1, CREATE, "name=mode");
		kit_let("made", answer("volume.volume_id"));
		ok(1, "Controller/DeleteVolume", "volume_id=$made");
	}
	kit_let("mode", "1");
}

static void leaves_nothing_after_a_failure(void)
{
	char before[64];

	ok(1, CAPACITY);
	(void)snprintf(before, sizeof(before), "%s",
		       answer("available_capacity"));
	refused(1, RPC_RESOURCE_EXHAUSTED, CREATE, "name=much",
		"capacity_range.required_bytes=1099511627776");
	ok(1, LIST);
	same(answer("entries.#"), "0");
	ok(1, CAPACITY);
	same(answer("available_capacity"), before);
}

static void takes_a_place_of_several(void)
{
	ok(1, CREATE, "name=place", PLACE("0") "nowhere", PLACE("1") "host2");
	kit_let("made", answer("volume.volume_id"));
	ok(2, PUBLISH, "volume_id=$made");
}

static void takes_all_places(void)
{
	ok(1, CREATE, "name=place", PLACE("0") "host1", PLACE("1") "host2",
	   PLACE("2") "host3", WISH("0") "host3", WISH("1") "host1");
	kit_let("made", answer("volume.volume_id"));
	ok(3, PUBLISH, "volume_id=$made");
}

static void answers_where_it_can_be_reached(void)
{
	ok(1, CREATE, "name=place", PLACE("0") "host2");
	/* Without one it is everywhere. */
	for (int i = 0; i < 3 && answer("volume.accessible_topology.0")[0];
	     i++) {
		char path[128];

		(void)snprintf(path, sizeof(path),
			       "volume.accessible_topology.%d.segments."
			       "topology.union.csi.union.io/node",
			       i);
		if (strcmp(answer(path), "host2") == 0)
			return;
	}
	same(answer("volume.accessible_topology.#"), "0");
}

/* ---- DeleteVolume ---- */

static void deletes_it_again(void)
{
	for (int host = 1; host <= KIT_HOSTS; host++)
		ok(host, "Controller/DeleteVolume");
	level_is(NONE);
	ok(1, LIST);
	same(answer("entries.#"), "0");
	level_set(CREATED);
}

static void leaves_what_is_in_use(void)
{
	holds(content_write(target_of(1), "precious") == 0);
	refused(1, RPC_FAILED_PRECONDITION, "Controller/DeleteVolume");
	refused(3, RPC_FAILED_PRECONDITION, "Controller/DeleteVolume");
	holds(content_is(target_of(1), "precious"));
	holds(content_write(target_of(1), "and going on") == 0);
	ok(1, GET);
}

/* ---- ControllerPublishVolume ---- */

static void controller_publishes_once(void)
{
	for (int i = 0; i < 3; i++)
		ok(1, PUBLISH);
	ok(2, PUBLISH, "node_id=host1");
}

static void names_who_has_it(void)
{
	refused(2, RPC_FAILED_PRECONDITION, PUBLISH);
	holds(has_text(answer_text(), "host1"));
	/* Nor did that change anything. */
	ok(1, GET);
	same(answer("status.published_node_ids.#"), "1");
	same(answer("status.published_node_ids.0"), "host1");
}

static void reads_only_when_published_so(void)
{
	ok(1, PUBLISH, "readonly=1");
	ok(1, "Node/NodeStageVolume");
	ok(1, "Node/NodePublishVolume");
	holds(content_write(target_of(1), "no") < 0);
	ok(1, "Node/NodeUnpublishVolume");
	ok(1, "Node/NodeUnstageVolume");
	ok(1, UNPUBLISH);
}

/* Written on one, then read on two at the same time. */
static void many_nodes_read(void)
{
	kit_let("name", "readers");
	ok(1, CREATE, "volume_capabilities.1.$access",
	   "volume_capabilities.1.access_mode.mode=3");
	kit_let("made", value_of("id"));
	kit_let("id", answer("volume.volume_id"));
	for (int host = 1; host <= 2; host++)
		kit_make_folder(staging_of(host));
	ok(1, PUBLISH);
	ok(1, "Node/NodeStageVolume");
	ok(1, "Node/NodePublishVolume");
	holds(content_write(target_of(1), "for all") == 0);
	ok(1, "Node/NodeUnpublishVolume");
	ok(1, "Node/NodeUnstageVolume");
	ok(1, UNPUBLISH);
	kit_let("mode", "3");
	for (int host = 1; host <= 2; host++) {
		ok(host, PUBLISH, "readonly=1");
		ok(host, "Node/NodeStageVolume");
		ok(host, "Node/NodePublishVolume", "readonly=1");
	}
	for (int host = 1; host <= 2; host++) {
		holds(content_is(target_of(host), "for all"));
		holds(content_write(target_of(host), "no") < 0);
	}
	ok(1, GET);
	same(answer("status.published_node_ids.#"), "2");
	for (int host = 1; host <= 2; host++) {
		ok(host, "Node/NodeUnpublishVolume");
		ok(host, "Node/NodeUnstageVolume");
		ok(host, UNPUBLISH);
	}
	kit_let("mode", "1");
	ok(1, "Controller/DeleteVolume");
	kit_let("id", value_of("made"));
	kit_let("name", value_of("first"));
}

static void many_nodes_read_and_all_is_reset(void)
{
	kit_let("first", value_of("name"));
	many_nodes_read();
}

static void no_node_is_all_nodes(void)
{
	ok(2, UNPUBLISH, "!node_id");
	ok(1, GET);
	same(answer("status.published_node_ids.#"), "0");
	ok(2, PUBLISH);
	ok(2, UNPUBLISH, "!node_id");
	ok(2, UNPUBLISH, "!node_id");
	ok(1, PUBLISH);
}

static void moves_with_its_data(void)
{
	holds(content_write(target_of(1), "moved") == 0);
	level_set(CREATED);
	kit_make_folder(staging_of(2));
	ok(3, PUBLISH, "node_id=host2");
	ok(2, "Node/NodeStageVolume");
	ok(2, "Node/NodePublishVolume");
	holds(content_is(target_of(2), "moved"));
	ok(2, "Node/NodeUnpublishVolume");
	ok(2, "Node/NodeUnstageVolume");
	ok(3, UNPUBLISH, "node_id=host2");
	level_set(PUBLISHED);
	holds(content_is(target_of(1), "moved"));
}

static void any_controller_does(void)
{
	ok(3, PUBLISH, "node_id=host1");
	ok(2, GET);
	same(answer("status.published_node_ids.0"), "host1");
	ok(1, UNPUBLISH);
	ok(3, GET);
	same(answer("status.published_node_ids.#"), "0");
}

/* ---- ValidateVolumeCapabilities ---- */

static void confirms_what_was_asked(void)
{
	ok(1, VALIDATE, "parameters.minExtents=$extents");
	same(answer("confirmed"), "{}");
	same(answer("confirmed.volume_capabilities.#"), "1");
	same(answer("confirmed.volume_capabilities.0.access_mode.mode"), "1");
	same(answer("confirmed.parameters.minExtents"), value_of("extents"));
}

static void says_why_it_does_not_confirm(void)
{
	ok(1, VALIDATE, "volume_capabilities.access_mode.mode=5");
	same(answer("confirmed"), "");
	holds(answer("message")[0]);
	ok(1, VALIDATE, "volume_capabilities.$other");
	same(answer("confirmed"), "");
	holds(answer("message")[0]);
	ok(1, VALIDATE, "parameters.minExtents=7");
	same(answer("confirmed"), "");
}

static void confirms_all_or_none(void)
{
	ok(1, VALIDATE, "volume_capabilities.1.$access",
	   "volume_capabilities.1.access_mode.mode=2");
	same(answer("confirmed.volume_capabilities.#"), "2");
	ok(1, VALIDATE, "volume_capabilities.1.$access",
	   "volume_capabilities.1.access_mode.mode=5");
	same(answer("confirmed"), "");
}

/* ---- ListVolumes, ControllerGetVolume ---- */

static void lists_in_pages(void)
{
	static const char *const names[] = {"name=a1", "name=b2", "name=c3",
					    "name=d4", "name=e5"};
	int64_t found = 0;
	int pages = 0;

	for (size_t i = 0; i < array_size(names); i++)
		ok(1, CREATE, names[i],
		   "capacity_range.required_bytes=33554432",
		   "parameters.minExtents=1");
	kit_let("token", "");
	do {
		ok(1 + pages % KIT_HOSTS, LIST, "max_entries=2",
		   "starting_token=$token");
		holds(answer_number("entries.#") <= 2);
		found += answer_number("entries.#");
		kit_let("token", answer("next_token"));
	} while (value_of("token")[0] && ++pages < 10);
	holds(found == 5);
	holds(pages == 2);
	ok(1, LIST, "max_entries=5");
	same(answer("entries.#"), "5");
	same(answer("next_token"), "");
	ok(1, LIST, "max_entries=0");
	same(answer("entries.#"), "5");
}

/* Volumes that come or go between two pages cost no other its place. */
static void lists_while_things_change(void)
{
	ok(1, CREATE, "name=a1", "parameters.minExtents=1");
	kit_let("made", answer("volume.volume_id"));
	ok(1, CREATE, "name=b2", "parameters.minExtents=1");
	ok(1, CREATE, "name=c3", "parameters.minExtents=1");
	ok(1, LIST, "max_entries=1");
	kit_let("token", answer("next_token"));
	ok(1, "Controller/DeleteVolume", "volume_id=$made");
	ok(1, LIST, "starting_token=$token");
	same(answer("entries.#"), "2");
}

static void lists_where_it_is(void)
{
	ok(2, LIST);
	same(answer("entries.0.volume.volume_id"), value_of("id"));
	same(answer("entries.0.status.published_node_ids.#"), "1");
	same(answer("entries.0.status.published_node_ids.0"), "host1");
}

static void lists_how_it_is(void)
{
	ok(2, LIST);
	same(answer("entries.0.status.volume_condition.abnormal"), "0");
	holds(answer("entries.0.status.volume_condition.message")[0]);
}

static void gets_it_with_its_nodes(void)
{
	ok(2, GET);
	same(answer("volume.volume_id"), value_of("id"));
	same(answer("volume.capacity_bytes"), value_of("size"));
	same(answer("status.published_node_ids.#"), "1");
	same(answer("status.published_node_ids.0"), "host1");
}

static void gets_its_condition(void)
{
	ok(2, GET);
	same(answer("status.volume_condition.abnormal"), "0");
	holds(answer("status.volume_condition.message")[0]);
}

/* ---- GetCapacity ---- */

#define CAPABLE                        \
	"volume_capabilities.$access", \
		"volume_capabilities.access_mode.mode=$mode"

static void capacity_is_less_on_fewer_nodes(void)
{
	int64_t all, one;

	ok(1, CAPACITY);
	all = answer_number("available_capacity");
	ok(1, CAPACITY, "parameters.nodes=host1");
	one = answer_number("available_capacity");
	holds(one > 0);
	holds(one < all);
	refused(1, BAD, CAPACITY, "parameters.unknown=x");
}

static void capacity_is_of_the_capability(void)
{
	ok(1, CAPACITY, CAPABLE);
	holds(answer_number("available_capacity") > 0);
	kit_let("mode", "5");
	if (call(1, CAPACITY, CAPABLE) == RPC_OK)
		same(answer("available_capacity"), "0");
	else
		kit_expect(BAD, call(1, CAPACITY, CAPABLE), CAPACITY);
	kit_let("mode", "1");
}

static void capacity_is_of_the_place(void)
{
	ok(1, CAPACITY,
	   "accessible_topology.segments.topology.union.csi.union.io/node=host1");
	holds(answer_number("available_capacity") > 0);
	ok(1, CAPACITY,
	   "accessible_topology.segments.topology.union.csi.union.io/node=nowhere");
	same(answer("available_capacity"), "0");
}

static void the_largest_volume_can_be_made(void)
{
	int64_t max;

	ok(1, CAPACITY, CAPABLE, "parameters.minExtents=1");
	max = answer_number("maximum_volume_size.value");
	holds(max > 0);
	let_number("max", max + 4096);
	refused(1, RPC_RESOURCE_EXHAUSTED, CREATE, "name=largest",
		"capacity_range.required_bytes=$max",
		"parameters.minExtents=1");
	let_number("max", max);
	ok(1, CREATE, "name=largest", "capacity_range.required_bytes=$max",
	   "parameters.minExtents=1");
	holds(answer_number("volume.capacity_bytes") == max);
}

static void the_smallest_volume_can_be_made(void)
{
	ok(1, CAPACITY, CAPABLE, "parameters.minExtents=1");
	let_number("min", answer_number("minimum_volume_size.value"));
	holds(answer_number("minimum_volume_size.value") > 0);
	ok(1, CREATE, "name=smallest", "capacity_range.required_bytes=$min",
	   "capacity_range.limit_bytes=$min", "parameters.minExtents=1");
	same(answer("volume.capacity_bytes"), value_of("min"));
	let_number("min", answer_number("volume.capacity_bytes") - 4096);
	refused(1, RPC_OUT_OF_RANGE, CREATE, "name=smaller",
		"capacity_range.required_bytes=$min",
		"capacity_range.limit_bytes=$min", "parameters.minExtents=1");
}

static void capacity_is_never_negative(void)
{
	ok(1, CREATE, "name=fills", "capacity_range.required_bytes=600000000",
	   "parameters.minExtents=1");
	ok(1, CAPACITY);
	holds(answer_number("available_capacity") >= 0);
}

/* ---- ControllerExpandVolume ---- */

/*
 * Of XFS: ext4 grows in use only where a process may have CAP_SYS_RESOURCE,
 * which not every machine grants. A volume of its own, as it can not become
 * smaller again.
 */
static void grow_begin(void)
{
	kit_let("first", value_of("name"));
	kit_let("made", value_of("id"));
	kit_let("name", "grows");
	if (strcmp(value_of("access"), "block=") != 0)
		kit_let("access", "mount.fs_type=xfs");
	kit_let("extents", "1");
	ok(1, CREATE, SIZE_0);
	kit_let("id", answer("volume.volume_id"));
	kit_make_folder(staging_of(1));
	ok(1, PUBLISH);
	ok(1, "Node/NodeStageVolume");
	ok(1, "Node/NodePublishVolume");
}

static void grow_end(void)
{
	ok(1, "Node/NodeUnpublishVolume");
	ok(1, "Node/NodeUnstageVolume");
	ok(1, UNPUBLISH);
	ok(1, "Controller/DeleteVolume");
	kit_let("id", value_of("made"));
	kit_let("name", value_of("first"));
	if (strcmp(value_of("access"), "block=") != 0) {
		kit_let("access", "mount.fs_type=");
		kit_let("extents", "2");
	}
}

static void expand_in_use(void)
{
	uint64_t before;

	grow_begin();
	holds(content_write(target_of(1), "kept") == 0);
	before = content_size(target_of(1));
	ok(1, EXPAND, SIZE_1);
	holds(answer_number("capacity_bytes") >= 402653184);
	if (answer_number("node_expansion_required"))
		ok(1, "Node/NodeExpandVolume", SIZE_1);
	holds(content_size(target_of(1)) >= before + 50000000);
	holds(content_is(target_of(1), "kept"));
	holds(content_write(target_of(1), "and on") == 0);
	/* Again, and to less than it has. */
	ok(2, EXPAND, SIZE_1);
	holds(answer_number("capacity_bytes") >= 402653184);
	ok(1, EXPAND, SIZE_0);
	holds(answer_number("capacity_bytes") >= 402653184);
	ok(1, GET);
	holds(answer_number("volume.capacity_bytes") >= 402653184);
	grow_end();
}

static void expand_unused(void)
{
	kit_let("first", value_of("name"));
	kit_let("made", value_of("id"));
	kit_let("name", "grown");
	ok(1, CREATE);
	kit_let("id", answer("volume.volume_id"));
	ok(1, EXPAND, "capacity_range.required_bytes=" MORE_BYTES);
	holds(answer_number("capacity_bytes") >= 201326592);
	kit_make_folder(staging_of(1));
	ok(1, PUBLISH);
	ok(1, "Node/NodeStageVolume");
	ok(1, "Node/NodePublishVolume");
	ok(1, "Node/NodeExpandVolume");
	holds(content_size(target_of(1)) > 150000000);
	ok(1, "Node/NodeUnpublishVolume");
	ok(1, "Node/NodeUnstageVolume");
	ok(1, UNPUBLISH);
	ok(1, "Controller/DeleteVolume");
	kit_let("id", value_of("made"));
	kit_let("name", value_of("first"));
}

static void cannot_expand_past_the_cluster(void)
{
	enum rpc_code code = call(
		1, EXPAND, "capacity_range.required_bytes=1099511627776");

	holds(code == RPC_RESOURCE_EXHAUSTED || code == RPC_OUT_OF_RANGE);
	ok(1, GET);
	same(answer("volume.capacity_bytes"), value_of("size"));
}

/* ---- the table ---- */

const struct check controller_checks[] = {
	CHECK("create-idempotent",
	      "creating it again, anywhere, is the same volume", CREATED, BOTH,
	      creates_it_once),
	CHECK("create-idempotent",
	      "creating it again with another range that fits", CREATED, BOTH,
	      creates_it_with_wider_limits),
	ASK("create-exists-size", "the name, with a larger size", CREATED, BOTH,
	    EXISTS, CREATE, "capacity_range.required_bytes=268435456"),
	ASK("create-exists-size", "the name, with a smaller limit", CREATED,
	    BOTH, EXISTS, CREATE, "capacity_range.required_bytes=67108864",
	    "capacity_range.limit_bytes=100663296"),
	ASK("create-exists-capability", "the name, with the other access type",
	    CREATED, BOTH, EXISTS, CREATE, "volume_capabilities.$other",
	    "parameters.minExtents=1"),
	CHECK("create-exists-capability", "the name, with another file system",
	      NONE, MOUNT, has_one_file_system),
	ASK("create-exists-parameters", "the name, with another parameter",
	    CREATED, BOTH, EXISTS, CREATE, "parameters.nodes=host2"),
	ASK("create-source-type", "a source without a type", NONE, BOTH, BAD,
	    CREATE, "volume_content_source="),
	ASK("create-topology-full", "a topology where no node is", NONE, BOTH,
	    RPC_RESOURCE_EXHAUSTED, CREATE, PLACE("0") "nowhere"),
	ASK("create-range", "a limit below what is required", NONE, BOTH,
	    RPC_OUT_OF_RANGE, CREATE, "capacity_range.limit_bytes=1048576"),
	ASK("create-range", "a limit below the smallest volume", NONE, BOTH,
	    RPC_OUT_OF_RANGE, CREATE, "capacity_range.required_bytes=0",
	    "capacity_range.limit_bytes=4096"),
	ASK("create-range", "more than any volume can have", NONE, BOTH,
	    RPC_OUT_OF_RANGE, CREATE,
	    "capacity_range.required_bytes=" HUGE_BYTES),
	CHECK("create-range-kept", "the size is within the range", NONE, BOTH,
	      keeps_the_range),
	CHECK("create-range-default", "without a range there is a size", NONE,
	      MOUNT, chooses_without_a_range),
	CHECK("create-range-default", "a limit alone is kept", NONE, BOTH,
	      takes_a_limit_alone),
	CHECK("create-all-capabilities", "all capabilities, or none", NONE,
	      BOTH, makes_all_capabilities_or_nothing),
	CHECK("create-modes", "the modes that are supported", NONE, BOTH,
	      takes_the_modes_it_can),
	ASK("create-modes", "MULTI_NODE_SINGLE_WRITER", NONE, BOTH, BAD, CREATE,
	    "volume_capabilities.access_mode.mode=4"),
	ASK("create-modes", "MULTI_NODE_MULTI_WRITER", NONE, BOTH, BAD, CREATE,
	    "volume_capabilities.access_mode.mode=5"),
	ASK("create-parameters", "a parameter that is not known", NONE, BOTH,
	    BAD, CREATE, "parameters.speed=9"),
	ASK("create-parameters", "a parameter's value that cannot be", NONE,
	    BOTH, BAD, CREATE, "parameters.minExtents=0"),
	ASK("create-parameters", "a file system that is not there", NONE, MOUNT,
	    BAD, CREATE, "volume_capabilities.mount.fs_type=ntfs"),
	ASK("create-parameters", "mutable parameters that cannot be changed",
	    NONE, BOTH, BAD, CREATE, "mutable_parameters.a=b"),
	CHECK("create-topology-any", "one place of several", NONE, BOTH,
	      takes_a_place_of_several),
	CHECK("create-topology-preferred", "all places, some preferred", NONE,
	      BOTH, takes_all_places),
	CHECK("create-topology-answer", "the answer has the place in it", NONE,
	      BOTH, answers_where_it_can_be_reached),
	CHECK("create-undone", "no space leaves nothing", NONE, BOTH,
	      leaves_nothing_after_a_failure),

	CHECK("delete-idempotent", "deleting it again", CREATED, BOTH,
	      deletes_it_again),
	ASK("delete-idempotent", "deleting what never was", NONE, ONCE, RPC_OK,
	    "Controller/DeleteVolume", "volume_id=" GONE_ID),
	ASK("delete-idempotent", "deleting what can be no volume", NONE, ONCE,
	    RPC_OK, "Controller/DeleteVolume", "volume_id=of another driver"),
	ASK("delete-in-use", "deleting what a node has", ATTACHED, BOTH,
	    RPC_FAILED_PRECONDITION, "Controller/DeleteVolume"),
	ASK("delete-in-use", "deleting what is staged", STAGED, BOTH,
	    RPC_FAILED_PRECONDITION, "Controller/DeleteVolume"),
	CHECK("delete-untouched", "a refused deletion changes nothing",
	      PUBLISHED, BOTH, leaves_what_is_in_use),

	CHECK("publish-idempotent", "publishing it again", ATTACHED, BOTH,
	      controller_publishes_once),
	ASK("publish-no-volume", "publishing an absent volume", NONE, BOTH,
	    RPC_NOT_FOUND, PUBLISH, "volume_id=" GONE_ID),
	ASK("publish-no-node", "publishing to an absent node", CREATED, BOTH,
	    RPC_NOT_FOUND, PUBLISH, "node_id=nobody"),
	ASK("publish-incompatible", "publishing it for reading too", ATTACHED,
	    BOTH, EXISTS, PUBLISH, "readonly=1"),
	ASK("publish-incompatible", "publishing it in another mode", ATTACHED,
	    BOTH, EXISTS, PUBLISH, "volume_capability.access_mode.mode=7"),
	CHECK("publish-elsewhere", "publishing it to another node", ATTACHED,
	      BOTH, names_who_has_it),
	CHECK("publish-names-node", "who has it is named", ATTACHED, BOTH,
	      names_who_has_it),
	CHECK("publish-readonly", "published for reading only", CREATED, BOTH,
	      reads_only_when_published_so),
	CHECK("publish-multi-reader", "read by several nodes at once", NONE,
	      BOTH, many_nodes_read_and_all_is_reset),
	ASK("unpublish-idempotent", "unpublishing what is not published",
	    CREATED, BOTH, RPC_OK, UNPUBLISH),
	ASK("unpublish-idempotent", "unpublishing from a node that has it not",
	    ATTACHED, BOTH, RPC_OK, UNPUBLISH, "node_id=host2"),
	ASK("unpublish-unknown", "unpublishing an absent volume", NONE, ONCE,
	    RPC_OK, UNPUBLISH, "volume_id=" GONE_ID),
	ASK("unpublish-unknown", "unpublishing from an absent node", CREATED,
	    ONCE, RPC_OK, UNPUBLISH, "node_id=nobody"),
	CHECK("unpublish-all", "unpublishing from all nodes", ATTACHED, BOTH,
	      no_node_is_all_nodes),
	CHECK("order-any-node", "any controller does", CREATED, BOTH,
	      any_controller_does),
	CHECK("order-moves", "a volume moves with its data", PUBLISHED, BOTH,
	      moves_with_its_data),

	ASK("validate-no-volume", "validating an absent volume", NONE, ONCE,
	    RPC_NOT_FOUND, VALIDATE, "volume_id=" GONE_ID),
	CHECK("validate-unsupported", "what is unsupported is not confirmed",
	      CREATED, BOTH, says_why_it_does_not_confirm),
	CHECK("validate-all", "confirmed when all are", CREATED, BOTH,
	      confirms_all_or_none),
	CHECK("validate-echo", "confirmed says what", CREATED, BOTH,
	      confirms_what_was_asked),

	ASK("list-token", "a token that is none", CREATED, ONCE, RPC_ABORTED,
	    LIST, "starting_token=nonsense"),
	ASK("list-token", "a token that is too long", NONE, ONCE, RPC_ABORTED,
	    LIST,
	    "starting_token=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
	CHECK("list-max", "pages are not longer than asked", NONE, ONCE,
	      lists_in_pages),
	CHECK("list-next", "nothing is missed while things change", NONE, ONCE,
	      lists_while_things_change),
	ASK("list-negative", "a negative number of entries", NONE, ONCE, BAD,
	    LIST, "max_entries=-1"),
	CHECK("list-published", "the list has the nodes", ATTACHED, BOTH,
	      lists_where_it_is),
	CHECK("list-condition", "the list has the condition", PUBLISHED, BOTH,
	      lists_how_it_is),
	ASK("get-no-volume", "getting an absent volume", NONE, ONCE,
	    RPC_NOT_FOUND, GET, "volume_id=" GONE_ID),
	ASK("get-no-volume", "getting what can be no volume", NONE, ONCE,
	    RPC_NOT_FOUND, GET, "volume_id=of another driver"),
	CHECK("get-status", "the volume, with its nodes", ATTACHED, BOTH,
	      gets_it_with_its_nodes),
	CHECK("get-condition", "the volume's condition", PUBLISHED, BOTH,
	      gets_its_condition),

	CHECK("capacity-parameters", "of fewer nodes it is less", NONE, ONCE,
	      capacity_is_less_on_fewer_nodes),
	CHECK("capacity-capabilities",
	      "of a mode that is not supported it is none", NONE, BOTH,
	      capacity_is_of_the_capability),
	CHECK("capacity-topology", "of a place where no node is it is none",
	      NONE, ONCE, capacity_is_of_the_place),
	CHECK("capacity-positive", "it is never negative", NONE, BOTH,
	      capacity_is_never_negative),
	CHECK("capacity-maximum", "the largest can be made, one unit more not",
	      NONE, BOTH, the_largest_volume_can_be_made),
	CHECK("capacity-minimum", "the smallest can be made, one unit less not",
	      NONE, BOTH, the_smallest_volume_can_be_made),

	CHECK("expand-published", "growing in use, with what is in it", NONE,
	      BOTH, expand_in_use),
	CHECK("expand-answer", "growing unused; the file system follows", NONE,
	      BOTH, expand_unused),
	ASK("expand-idempotent", "growing to what it is", CREATED, BOTH, RPC_OK,
	    EXPAND),
	ASK("expand-capability", "growing, in a mode that is not supported",
	    CREATED, BOTH, BAD, EXPAND, "volume_capability.access_mode.mode=5"),
	ASK("expand-no-volume", "growing an absent volume", NONE, ONCE,
	    RPC_NOT_FOUND, EXPAND, "volume_id=" GONE_ID),
	ASK("expand-range", "growing to more than any can have", CREATED, BOTH,
	    RPC_OUT_OF_RANGE, EXPAND,
	    "capacity_range.required_bytes=" HUGE_BYTES),
	ASK("expand-range", "growing with a limit below what is required",
	    CREATED, BOTH, RPC_OUT_OF_RANGE, EXPAND,
	    "capacity_range.limit_bytes=1048576"),
	CHECK("expand-range", "growing past the cluster changes nothing",
	      CREATED, BOTH, cannot_expand_past_the_cluster),
};
const size_t n_controller_checks = array_size(controller_checks);
