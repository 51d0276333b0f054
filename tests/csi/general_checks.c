/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for every RPC, and the Identity service. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/csi/checks.h"

#define BAD RPC_INVALID_ARGUMENT

/* "FIELD=" and @n letters. */
static const char *long_field(const char *field, size_t n)
{
	static char text[KIT_TEXT_MAX];
	int used = snprintf(text, sizeof(text), "%s", field);

	memset(text + used, 'x', n);
	text[(size_t)used + n] = '\0';
	return text;
}

/* ---- codes, messages ---- */

static void says_what_is_wrong_in_words(void)
{
	refused(1, BAD, "Controller/CreateVolume", "!name");
	holds(has_text(answer_text(), "name"));
	refused(1, RPC_NOT_FOUND, "Controller/ControllerGetVolume",
		"volume_id=" GONE_ID);
	holds(has_text(answer_text(), "gone"));
}

static void hanging_up_cancels_nothing(void)
{
	const char *words[] = {"Node/NodeStageVolume", NULL};
	struct kit_request request = kit_request_make(1, words);
	struct kit_answer got;

	kit_send(&request, 1, &got);
	kit_answer_done(&got);
	protobuf_c_message_free_unpacked(request.in, NULL);
	/* The same call goes on where it is, at the latest when it ended. */
	for (int i = 0;
	     i < 600 && call(1, "Node/NodeStageVolume") == RPC_ABORTED; i++)
		kit_sleep_ms(50);
	ok(1, "Node/NodeStageVolume");
	level_is(STAGED);
	level_set(ATTACHED);
}

static void a_lost_create_is_replayed(void)
{
	const char *words[] = {"Controller/CreateVolume", "name=replay", NULL};
	struct kit_request request = kit_request_make(1, words);
	struct kit_answer got;
	int64_t n;

	kit_send(&request, 1, &got);
	kit_answer_done(&got);
	protobuf_c_message_free_unpacked(request.in, NULL);
	for (int i = 0; i < 600 && call(1, "Controller/CreateVolume",
					"name=replay") == RPC_ABORTED;
	     i++)
		kit_sleep_ms(50);
	ok(1, "Controller/CreateVolume", "name=replay");
	ok(1, "Controller/ListVolumes");
	n = answer_number("entries.#");
	ok(1, "Controller/CreateVolume", "name=replay");
	ok(1, "Controller/ListVolumes");
	holds(answer_number("entries.#") == n);
}

static void a_second_operation_is_aborted(void)
{
	const char *words[] = {"Node/NodeStageVolume", NULL};
	struct kit_request request = kit_request_make(1, words);
	struct kit_answer got[2];

	kit_send_both(&request, &request, got);
	for (int i = 0; i < 2; i++)
		if (got[i].code != RPC_OK && got[i].code != RPC_ABORTED)
			kit_fail("%s: %s", rpc_code_name(got[i].code),
				 got[i].text);
	holds(got[0].code == RPC_OK || got[1].code == RPC_OK);
	kit_answer_done(&got[0]);
	kit_answer_done(&got[1]);
	protobuf_c_message_free_unpacked(request.in, NULL);
	level_is(STAGED);
	level_set(ATTACHED);
}

/* ---- sizes ---- */

static void takes_a_name_of_128_bytes(void)
{
	char id[256];

	ok(1, "Controller/CreateVolume", long_field("name=", 128));
	(void)snprintf(id, sizeof(id), "%s", answer("volume.volume_id"));
	holds(strlen(id) <= 128);
	ok(2, "Controller/CreateVolume", long_field("name=", 128));
	same(answer("volume.volume_id"), id);
	refused(1, BAD, "Controller/CreateVolume", long_field("name=", 129));
}

static void refuses_long_strings(void)
{
	refused(1, BAD, "Controller/DeleteVolume",
		long_field("volume_id=", 129));
	refused(1, BAD, "Controller/ControllerGetVolume",
		long_field("volume_id=", 129));
	refused(1, BAD, "Node/NodeStageVolume", long_field("volume_id=", 129));
}

static void maps_have_4_kib(void)
{
	/* The field's size is right, so another thing is wrong with it. */
	refused(1, BAD, "Controller/CreateVolume", "!parameters",
		long_field("parameters.k=", 4095));
	holds(has_text(answer_text(), "not known"));
	refused(1, BAD, "Controller/CreateVolume", "!parameters",
		long_field("parameters.k=", 4096));
	holds(!has_text(answer_text(), "not known"));
	ok(1, "Controller/ValidateVolumeCapabilities",
	   long_field("secrets.k=", 4095));
	refused(1, BAD, "Controller/ValidateVolumeCapabilities",
		long_field("secrets.k=", 4096));
}

static void node_ids_have_256_bytes(void)
{
	refused(1, RPC_NOT_FOUND, "Controller/ControllerPublishVolume",
		long_field("node_id=", 256));
	refused(1, BAD, "Controller/ControllerPublishVolume",
		long_field("node_id=", 257));
	refused(1, BAD, "Controller/ControllerUnpublishVolume",
		long_field("node_id=", 257));
}

/* Publish at a path of @length bytes, all folders above it being there. */
static void publish_at_length(size_t length)
{
	char path[PATH_MAX + 1], field[KIT_TEXT_MAX];
	size_t used = (size_t)snprintf(path, sizeof(path), "%s",
				       kit_text("$dir/host$host/long"));
	size_t top = used;

	kit_make_folder(path);
	while (used < length) {
		size_t n = length - used > 200 ? 100 : length - used;

		path[used] = '/';
		memset(path + used + 1, 'p', n - 1);
		used += n;
		path[used] = '\0';
		if (used < length)
			kit_make_folder(path);
	}
	(void)snprintf(field, sizeof(field), "target_path=%s", path);
	ok(1, "Node/NodePublishVolume", field);
	holds(is_mounted(path));
	ok(1, "Node/NodeUnpublishVolume", field);
	holds(!kit_exists(path));
	path[top] = '\0';
	kit_remove_tree(path);
}

static void publishes_at_128_bytes(void)
{
	publish_at_length(200);
}

static void publishes_at_the_longest_path(void)
{
	publish_at_length(4095);
}

/* ---- names, secrets, topologies ---- */

static void names_are_any_unicode(void)
{
	static const char *const names[] = {
		"name=\xc3\xbc \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x92\xbe",
		"name=a\tb\nc\rd",
		"name=../..",
		"name=UPPER and lower",
		"name=\xc2\xa0",
	};

	for (size_t i = 0; i < array_size(names); i++) {
		char id[256];

		ok(1, "Controller/CreateVolume", names[i]);
		(void)snprintf(id, sizeof(id), "%s",
			       answer("volume.volume_id"));
		ok(1, "Controller/CreateVolume", names[i]);
		same(answer("volume.volume_id"), id);
		kit_let("made", id);
		ok(1, "Controller/DeleteVolume", "volume_id=$made");
	}
}

static void control_characters_are_refused(void)
{
	static const char *const names[] = {
		"name=a\x01", "name=a\x08",     "name=a\x0b",
		"name=a\x0c", "name=a\x0e",     "name=a\x1f",
		"name=a\x7f", "name=a\xc2\x80", "name=a\xc2\x9f",
	};

	for (size_t i = 0; i < array_size(names); i++)
		refused(1, BAD, "Controller/CreateVolume", names[i]);
}

static void every_rpc_takes_secrets(void)
{
#define SECRET "secrets.Key-1_a.b=distinctive"
	ok(1, "Controller/CreateVolume", SECRET);
	ok(1, "Controller/ControllerPublishVolume", SECRET);
	ok(1, "Controller/ValidateVolumeCapabilities", SECRET);
	ok(1, "Node/NodeStageVolume", SECRET);
	ok(1, "Node/NodePublishVolume", SECRET);
	ok(1, "Controller/ControllerExpandVolume", SECRET);
	ok(1, "Node/NodeExpandVolume", SECRET);
	ok(1, "Node/NodeUnpublishVolume");
	ok(1, "Node/NodeUnstageVolume");
	ok(1, "Controller/ControllerUnpublishVolume", SECRET);
	ok(1, "Controller/DeleteVolume", SECRET);
	level_is(NONE);
	level_set(CREATED);
}

static void a_refusal_hides_secrets(void)
{
	refused(1, BAD, "Controller/CreateVolume", "!name",
		"secrets.token=hunter-4711");
	holds(!has_text(answer_text(), "hunter"));
	refused(1, BAD, "Controller/CreateVolume",
		"secrets.hunter key=hunter-4711");
	holds(!has_text(answer_text(), "hunter"));
}

static void the_context_is_the_same_everywhere(void)
{
	ok(1, "Controller/CreateVolume");
	kit_let("contexts", answer("volume.volume_context.#"));
	ok(2, "Controller/CreateVolume");
	same(answer("volume.volume_context.#"), value_of("contexts"));
	ok(3, "Controller/ControllerGetVolume");
	same(answer("volume.volume_context.#"), value_of("contexts"));
}

/* Use a volume without any context, and on other hosts than its maker's. */
static void the_id_is_enough(void)
{
	ok(2, "Controller/ControllerGetVolume");
	same(answer("volume.volume_id"), value_of("id"));
	ok(1, "Node/NodeGetVolumeStats");
	ok(3, "Controller/ValidateVolumeCapabilities");
}

static void flags_have_4_kib(void)
{
	refused(1, RPC_INVALID_ARGUMENT, "Controller/CreateVolume",
		"name=flags",
		long_field("volume_capabilities.mount.mount_flags=", 4097));
	holds(!has_text(answer_text(), "xxxx"));
	refused(1, RPC_INVALID_ARGUMENT, "Node/NodeStageVolume",
		long_field("volume_capability.mount.mount_flags=", 4097));
}

static void topology_of(const char *first, const char *second,
			enum rpc_code code)
{
	kit_let("first", first);
	kit_let("second", second);
	refused(1, code, "Controller/CreateVolume", "name=places",
		"accessibility_requirements.requisite.0.segments.$first",
		"accessibility_requirements.requisite.0.segments.$second");
}

#define X63 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static void topology_keys_are_checked(void)
{
	/* Right, but of nowhere. */
	topology_of("a.b/c=d", "a.b/e=f", RPC_RESOURCE_EXHAUSTED);
	topology_of(X63 "/" X63 "=d", X63 "/c=f", RPC_RESOURCE_EXHAUSTED);
	topology_of("a.b/c=d", "b.b/e=f", BAD);
	topology_of("a.b/c=d", "A.B/C=f", BAD);
	topology_of(X63 "x/c=d", X63 "x/e=d", BAD);
	topology_of("a.b/" X63 "x=d", "a.b/e=d", BAD);
	topology_of("a.b/=d", "a.b/e=d", BAD);
	topology_of("a.b/-c=d", "a.b/e=d", BAD);
	topology_of("/c=d", "/e=d", BAD);
}

static void topology_values_are_checked(void)
{
	topology_of("a.b/c=" X63, "a.b/e=f", RPC_RESOURCE_EXHAUSTED);
	topology_of("a.b/c=" X63 "x", "a.b/e=f", BAD);
	topology_of("a.b/c=-x", "a.b/e=f", BAD);
	topology_of("a.b/c=x.", "a.b/e=f", BAD);
	topology_of("a.b/c=x y", "a.b/e=f", BAD);
}

/* ---- capabilities ---- */

static bool has_capability(const char *method, const char *field, int type)
{
	ok(1, method);
	for (int i = 0; i < answer_number("capabilities.#"); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "capabilities.%d.%s", i,
			       field);
		if (answer_number(path) == type)
			return true;
	}
	return false;
}
#define CONTROLLER_CAN(type) \
	has_capability("Controller/ControllerGetCapabilities", "rpc.type", type)
#define NODE_CAN(type) \
	has_capability("Node/NodeGetCapabilities", "rpc.type", type)
#define PLUGIN_HAS(field, type) \
	has_capability("Identity/GetPluginCapabilities", field, type)

/* Numbers of csi.proto. */
static void the_controller_says_what_it_can(void)
{
	static const int types[] = {1, 2,  3,  4,  5,  6,  7, 8,
				    9, 10, 11, 12, 13, 14, 15};

	for (size_t i = 0; i < array_size(types); i++)
		if (!CONTROLLER_CAN(types[i]))
			kit_fail("controller capability %d is not there",
				 types[i]);
	holds(PLUGIN_HAS("service.type", 1));
	holds(PLUGIN_HAS("service.type", 2));
	holds(PLUGIN_HAS("service.type", 3));
	holds(PLUGIN_HAS("service.type", 4));
	ok(1, "GroupController/GroupControllerGetCapabilities");
	same(answer("capabilities.0.rpc.type"), "1");
}

static void published_nodes_are_listed_by_who_publishes(void)
{
	holds(CONTROLLER_CAN(10));
	holds(CONTROLLER_CAN(2));
}

static void online_expansion_comes_with_its_rpc(void)
{
	holds(PLUGIN_HAS("volume_expansion.type", 1));
	holds(CONTROLLER_CAN(9) || NODE_CAN(3));
}

static void nothing_is_advertised_that_is_not_there(void)
{
	static const int absent[] = {16, 17, 18};

	for (size_t i = 0; i < array_size(absent); i++)
		if (CONTROLLER_CAN(absent[i]))
			kit_fail("controller capability %d", absent[i]);
	holds(!PLUGIN_HAS("service.type", 5));
}

static void mode_1_is_taken_beside_the_newer_ones(void)
{
	holds(CONTROLLER_CAN(13));
	holds(NODE_CAN(5));
	ok(1, "Controller/CreateVolume", "name=modes",
	   "volume_capabilities.access_mode.mode=1");
	ok(1, "Controller/CreateVolume", "name=modes",
	   "volume_capabilities.access_mode.mode=6");
	ok(1, "Controller/CreateVolume", "name=modes",
	   "volume_capabilities.access_mode.mode=7");
}

static void every_mode_has_the_same_capabilities(void)
{
	char first[KIT_TEXT_MAX] = "";

	for (int host = 1; host <= KIT_HOSTS; host++) {
		char text[KIT_TEXT_MAX] = "";

		ok(host, "Identity/GetPluginCapabilities");
		for (int i = 0; i < 8; i++) {
			char path[64];
			size_t used = strlen(text);

			(void)snprintf(path, sizeof(path),
				       "capabilities.%d.service.type", i);
			(void)snprintf(text + used, sizeof(text) - used, "%s,",
				       answer(path));
		}
		if (host == 1)
			(void)strcpy(first, text);
		same(text, first);
	}
}

static void a_mount_group_can_write(void)
{
	if (!NODE_CAN(6)) {
		refused(1, BAD, "Controller/CreateVolume", "name=group",
			"volume_capabilities.mount.volume_mount_group=2000");
		return;
	}
	kit_let("name", "group");
	ok(1, "Controller/CreateVolume",
	   "volume_capabilities.mount.volume_mount_group=2000");
	kit_let("made", answer("volume.volume_id"));
	kit_make_folder(kit_text("$staging"));
#define GROUP \
	"volume_id=$made", "volume_capability.mount.volume_mount_group=2000"
	ok(1, "Controller/ControllerPublishVolume", GROUP);
	ok(1, "Node/NodeStageVolume", GROUP);
	ok(1, "Node/NodePublishVolume", GROUP);
	holds(kit_group_of(target_of(1)) == 2000);
	kit_let("name", "files");
}

/* ---- Identity ---- */

static void the_name_is_a_domain(void)
{
	char name[KIT_TEXT_MAX];

	ok(1, "Identity/GetPluginInfo");
	(void)strcpy(name, answer("name"));
	holds(name[0] && strlen(name) <= 63);
	holds(isalnum((unsigned char)name[0]));
	holds(isalnum((unsigned char)name[strlen(name) - 1]));
	holds(strspn(name,
		     "abcdefghijklmnopqrstuvwxyz"
		     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") == strlen(name));
}

static void the_version_is_there(void)
{
	ok(1, "Identity/GetPluginInfo");
	holds(answer("vendor_version")[0]);
	holds(strlen(answer("vendor_version")) <= 128);
}

static void probe_is_ready(void)
{
	for (int i = 0; i < 20; i++) {
		ok(1 + i % KIT_HOSTS, "Identity/Probe");
		holds(!answer("ready")[0] || answer_number("ready.value") == 1);
	}
}

/* ---- the tables ---- */

#define MISSING(method, field)                                             \
	ASK("required", method " without " field, NONE, ONCE, BAD, method, \
	    "!" field)

const struct check general_checks[] = {
	MISSING("Controller/CreateVolume", "name"),
	MISSING("Controller/CreateVolume", "volume_capabilities"),
	MISSING("Controller/DeleteVolume", "volume_id"),
	MISSING("Controller/ControllerPublishVolume", "volume_id"),
	MISSING("Controller/ControllerPublishVolume", "node_id"),
	MISSING("Controller/ControllerPublishVolume", "volume_capability"),
	MISSING("Controller/ControllerUnpublishVolume", "volume_id"),
	MISSING("Controller/ValidateVolumeCapabilities", "volume_id"),
	MISSING("Controller/ValidateVolumeCapabilities", "volume_capabilities"),
	MISSING("Controller/ControllerGetVolume", "volume_id"),
	MISSING("Controller/ControllerExpandVolume", "volume_id"),
	MISSING("Controller/ControllerExpandVolume", "capacity_range"),
	MISSING("Controller/ControllerModifyVolume", "volume_id"),
	MISSING("Controller/ControllerModifyVolume", "mutable_parameters"),
	MISSING("Controller/CreateSnapshot", "source_volume_id"),
	MISSING("Controller/CreateSnapshot", "name"),
	MISSING("Controller/DeleteSnapshot", "snapshot_id"),
	MISSING("Controller/GetSnapshot", "snapshot_id"),
	MISSING("GroupController/CreateVolumeGroupSnapshot", "name"),
	MISSING("GroupController/CreateVolumeGroupSnapshot",
		"source_volume_ids"),
	MISSING("GroupController/DeleteVolumeGroupSnapshot",
		"group_snapshot_id"),
	MISSING("GroupController/GetVolumeGroupSnapshot", "group_snapshot_id"),
	MISSING("Node/NodeStageVolume", "volume_id"),
	MISSING("Node/NodeStageVolume", "staging_target_path"),
	MISSING("Node/NodeStageVolume", "volume_capability"),
	MISSING("Node/NodeUnstageVolume", "volume_id"),
	MISSING("Node/NodeUnstageVolume", "staging_target_path"),
	MISSING("Node/NodePublishVolume", "volume_id"),
	MISSING("Node/NodePublishVolume", "target_path"),
	MISSING("Node/NodePublishVolume", "volume_capability"),
	MISSING("Node/NodeUnpublishVolume", "volume_id"),
	MISSING("Node/NodeUnpublishVolume", "target_path"),
	MISSING("Node/NodeGetVolumeStats", "volume_id"),
	MISSING("Node/NodeGetVolumeStats", "volume_path"),
	MISSING("Node/NodeExpandVolume", "volume_id"),
	MISSING("Node/NodeExpandVolume", "volume_path"),

	ASK("invalid", "an access mode that is not known", NONE, ONCE, BAD,
	    "Controller/CreateVolume",
	    "volume_capabilities.access_mode.mode=99"),
	ASK("invalid", "an access mode of 0", NONE, ONCE, BAD,
	    "Controller/CreateVolume",
	    "volume_capabilities.access_mode.mode=0"),
	ASK("invalid", "a negative size", NONE, ONCE, BAD,
	    "Controller/CreateVolume", "capacity_range.required_bytes=-1"),
	ASK("invalid", "a path that is not absolute", NONE, ONCE, BAD,
	    "Node/NodeStageVolume", "staging_target_path=here"),
	ASK("invalid", "a path with '..' in it", NONE, ONCE, BAD,
	    "Node/NodePublishVolume", "target_path=/tmp/../x"),
	ASK("invalid", "a name that is no UTF-8", NONE, ONCE, BAD,
	    "Controller/CreateVolume", "name=\xff\xfe"),
	ASK("access-type", "a capability without an access type", NONE, ONCE,
	    BAD, "Controller/CreateVolume", "!volume_capabilities",
	    "volume_capabilities.access_mode.mode=1"),
	CHECK("message", "a failure says in words what is wrong", NONE, ONCE,
	      says_what_is_wrong_in_words),
	CHECK("hangup", "a client that hangs up cancels nothing", ATTACHED,
	      BOTH, hanging_up_cancels_nothing),
	CHECK("retry", "a lost CreateVolume is sent again", NONE, BOTH,
	      a_lost_create_is_replayed),
	CHECK("pending", "of two operations at once one is done", ATTACHED,
	      BOTH, a_second_operation_is_aborted),
	CHECK("string-size", "a name of 128 bytes is taken, of 129 refused",
	      NONE, BOTH, takes_a_name_of_128_bytes),
	CHECK("string-size", "an id of 129 bytes is refused", NONE, ONCE,
	      refuses_long_strings),
	CHECK("map-size", "a map of 4 KiB is taken, of one more refused",
	      CREATED, ONCE, maps_have_4_kib),
	CHECK("node-id-size", "a node id of 256 bytes is taken, of 257 refused",
	      CREATED, ONCE, node_ids_have_256_bytes),
	CHECK("path-128", "a path of 200 bytes is taken", STAGED, BOTH,
	      publishes_at_128_bytes),
	CHECK("path-max", "a path of 4,095 bytes is taken", STAGED, BOTH,
	      publishes_at_the_longest_path),
	CHECK("name-unicode", "names of any Unicode", NONE, ONCE,
	      names_are_any_unicode),
	CHECK("name-control", "names with control characters are refused", NONE,
	      ONCE, control_characters_are_refused),
	ASK("secrets-keys", "a secret's key with a space", CREATED, ONCE, BAD,
	    "Node/NodeStageVolume", "secrets.a b=c"),
	CHECK("secrets-everywhere", "the same secrets go to every RPC", CREATED,
	      BOTH, every_rpc_takes_secrets),
	CHECK("secrets-hidden", "a refusal does not show the secret", NONE,
	      ONCE, a_refusal_hides_secrets),
	CHECK("context-constant", "every answer has the same context", CREATED,
	      BOTH, the_context_is_the_same_everywhere),
	CHECK("id-alone", "the id is all that other calls need", PUBLISHED,
	      BOTH, the_id_is_enough),
	CHECK("topology-keys", "keys of topologies", NONE, ONCE,
	      topology_keys_are_checked),
	CHECK("topology-values", "values of topologies", NONE, ONCE,
	      topology_values_are_checked),
	CHECK("flags-size", "mount flags over 4 KiB are refused", CREATED,
	      MOUNT, flags_have_4_kib),
	CHECK("published-needs-publish",
	      "who lists published nodes can publish", NONE, ONCE,
	      published_nodes_are_listed_by_who_publishes),
	CHECK("online-needs-expand", "expansion is online, with its RPC", NONE,
	      ONCE, online_expansion_comes_with_its_rpc),
	CHECK("unimplemented", "what is there is advertised", NONE, ONCE,
	      the_controller_says_what_it_can),
	CHECK("unimplemented", "what is not there is not advertised", NONE,
	      ONCE, nothing_is_advertised_that_is_not_there),
	CHECK("mode-1-always", "SINGLE_NODE_WRITER is taken beside 6 and 7",
	      NONE, BOTH, mode_1_is_taken_beside_the_newer_ones),
	CHECK("same-plugin", "every instance has the same capabilities", NONE,
	      ONCE, every_mode_has_the_same_capabilities),
	CHECK("no-mount-group", "a mount group has the volume, or is refused",
	      NONE, MOUNT, a_mount_group_can_write),
	CHECK("plugin-name", "the name is a domain's", NONE, ONCE,
	      the_name_is_a_domain),
	CHECK("vendor-version", "the version is there", NONE, ONCE,
	      the_version_is_there),
	CHECK("probe-ready", "Probe is OK any number of times", NONE, ONCE,
	      probe_is_ready),
};
const size_t n_general_checks = array_size(general_checks);
