/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each recorded request of a sidecar (recorded.h), once for each thing that can
 * be amiss: what it is answered, that the same request is answered OK once that
 * is over, and that nothing is left when all has been deleted. On nodes that
 * are not there. docs/sidecars.md has what a sidecar makes of the codes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/call/csi_name.h"
#include "csi/call/csi_text.h"
#include "csi/testkit/controller_test_kit.h"
#include "tests/csi/message.h"
#include "tests/csi/recorded.h"

enum cause {
	AGAIN,        /* the same answer */
	LATER_KEY,    /* of Kubernetes' own */
	UNKNOWN_KEY,  /* of a class */
	READ_BY_MANY, /* ReadWriteMany, which we do not have */
	ABSENT,       /* the object was deleted by somebody */
	BUSY,         /* another call works on the object */
	UNREACHABLE,  /* a node goes before it has done it */
	FULL,         /* no pool has room */
	CUT_SHORT,    /* the sidecar's time is over, or it is restarted */
	CAUSES,
};

/* The objects that a request needs. */
enum needs {
	HAS_NOTHING,
	HAS_VOLUME,
	HAS_TWO,
	HAS_ATTACHED,
	HAS_SNAPSHOT,
	HAS_GROUP
};

static const struct row {
	const char *request;
	enum needs needs;
	bool works; /* nodes do something, so it takes time */
	enum rpc_code codes[CAUSES];
} rows[] = {
#define CREATE_CODES                                            \
	{                                                       \
		[UNKNOWN_KEY] = RPC_INVALID_ARGUMENT,           \
		[READ_BY_MANY] = RPC_INVALID_ARGUMENT,          \
		[ABSENT] = RPC_NOT_FOUND, [BUSY] = RPC_ABORTED, \
		[UNREACHABLE] = RPC_UNAVAILABLE,                \
		[FULL] = RPC_RESOURCE_EXHAUSTED,                \
		[CUT_SHORT] = RPC_DEADLINE_EXCEEDED,            \
	}
	{"provisioner: create", HAS_NOTHING, true, CREATE_CODES},
	/* The same path as above. */
	{"provisioner: create, the class has a file system",
	 HAS_NOTHING,
	 false,
	 {0}},
	{"provisioner: create, written at one node and read at many",
	 HAS_NOTHING,
	 false,
	 {0}},
	{"provisioner: create, ReadWriteOncePod", HAS_NOTHING, false, {0}},
	{"provisioner: create, a device", HAS_NOTHING, false, {0}},
	{"provisioner: create, with a VolumeAttributesClass",
	 HAS_NOTHING,
	 false,
	 {0}},
	{"provisioner: create, of a VolumeSnapshot", HAS_SNAPSHOT, true,
	 CREATE_CODES},
	{"provisioner: create, of a claim", HAS_VOLUME, true, CREATE_CODES},
	{"provisioner: delete",
	 HAS_VOLUME,
	 true,
	 {[BUSY] = RPC_ABORTED,
	  [UNREACHABLE] = RPC_UNAVAILABLE,
	  [CUT_SHORT] = RPC_DEADLINE_EXCEEDED}},
	{"provisioner: capacity",
	 HAS_NOTHING,
	 false,
	 {[UNKNOWN_KEY] = RPC_INVALID_ARGUMENT}},
	{"attacher: attach",
	 HAS_VOLUME,
	 false,
	 {[READ_BY_MANY] = RPC_INVALID_ARGUMENT,
	  [ABSENT] = RPC_NOT_FOUND,
	  [BUSY] = RPC_ABORTED}},
	{"attacher: detach", HAS_ATTACHED, false, {[BUSY] = RPC_ABORTED}},
	{"attacher: list", HAS_VOLUME, false, {0}},
	{"resizer: grow",
	 HAS_VOLUME,
	 true,
	 {[READ_BY_MANY] = RPC_INVALID_ARGUMENT,
	  [ABSENT] = RPC_NOT_FOUND,
	  [BUSY] = RPC_ABORTED,
	  [UNREACHABLE] = RPC_UNAVAILABLE,
	  [FULL] = RPC_OUT_OF_RANGE,
	  [CUT_SHORT] = RPC_DEADLINE_EXCEEDED}},
	{"resizer: modify",
	 HAS_VOLUME,
	 true,
	 {[UNKNOWN_KEY] = RPC_INVALID_ARGUMENT,
	  [ABSENT] = RPC_NOT_FOUND,
	  [BUSY] = RPC_ABORTED,
	  [UNREACHABLE] = RPC_UNAVAILABLE,
	  [CUT_SHORT] = RPC_DEADLINE_EXCEEDED}},
	{"snapshotter: cut",
	 HAS_VOLUME,
	 true,
	 {[UNKNOWN_KEY] = RPC_INVALID_ARGUMENT,
	  [ABSENT] = RPC_NOT_FOUND,
	  [BUSY] = RPC_ABORTED,
	  [UNREACHABLE] = RPC_UNAVAILABLE,
	  [FULL] = RPC_RESOURCE_EXHAUSTED,
	  [CUT_SHORT] = RPC_DEADLINE_EXCEEDED}},
	{"snapshotter: delete",
	 HAS_SNAPSHOT,
	 true,
	 {[BUSY] = RPC_ABORTED,
	  [UNREACHABLE] = RPC_UNAVAILABLE,
	  [CUT_SHORT] = RPC_DEADLINE_EXCEEDED}},
	{"snapshotter: is it ready", HAS_SNAPSHOT, false, {0}},
	{"snapshotter: cut a group",
	 HAS_TWO,
	 true,
	 {[UNKNOWN_KEY] = RPC_INVALID_ARGUMENT,
	  [ABSENT] = RPC_NOT_FOUND,
	  [BUSY] = RPC_ABORTED,
	  [UNREACHABLE] = RPC_UNAVAILABLE,
	  [FULL] = RPC_RESOURCE_EXHAUSTED,
	  [CUT_SHORT] = RPC_DEADLINE_EXCEEDED}},
	{"snapshotter: delete a group",
	 HAS_GROUP,
	 true,
	 {[BUSY] = RPC_ABORTED,
	  [UNREACHABLE] = RPC_UNAVAILABLE,
	  [CUT_SHORT] = RPC_DEADLINE_EXCEEDED}},
	{"snapshotter: is a group ready",
	 HAS_GROUP,
	 false,
	 {[ABSENT] = RPC_NOT_FOUND}},
	{"health monitor: condition",
	 HAS_VOLUME,
	 false,
	 {[ABSENT] = RPC_NOT_FOUND}},
	{"all: who is it", HAS_NOTHING, false, {0}},
	{"all: what can it", HAS_NOTHING, false, {0}},
	{"all: is it ready", HAS_NOTHING, false, {0}},
	{"all: what can its controller", HAS_NOTHING, false, {0}},
	{"snapshotter: what can it do with groups", HAS_NOTHING, false, {0}},
};

/* ---- requests ---- */

/* The variables of recorded.h. */
static struct word {
	const char *name;
	char value[256];
} words[] = {
	{"size", "67108864"}, {"larger", "134217728"}, {"node", "host1"},
	{"id", ""},           {"second", ""},          {"snapshot", ""},
	{"group", ""},        {"member", ""},          {"omember", ""},
};

static char *value_at(const char *name)
{
	for (size_t i = 0; i < array_size(words); i++)
		if (strcmp(words[i].name, name) == 0)
			return words[i].value;
	fail_msg("no variable '%s'", name);
	return NULL;
}

static void let(const char *name, const char *value)
{
	(void)snprintf(value_at(name), sizeof(words[0].value), "%s", value);
}

struct request {
	const struct rpc_method *method;
	ProtobufCMessage *in; /* request_done() */
};

static bool has_field(const struct request *r, const char *name)
{
	return protobuf_c_message_descriptor_get_field_by_name(
		r->in->descriptor, name);
}

static void set(struct request *r, const char *field)
{
	const char *variable = strstr(field, "=$");
	char text[512];

	(void)snprintf(text, sizeof(text), "%s", field);
	if (variable)
		(void)snprintf(text, sizeof(text), "%.*s%s",
			       (int)(variable + 1 - field), field,
			       value_at(variable + 2));
	if (message_set(r->in, text) < 0)
		fail_msg("%s: no field '%s'", r->method->path, text);
}

static const char *field_of(const struct request *r, const char *path)
{
	static char text[256];

	return message_get(r->in, path, text, sizeof(text));
}

/* @name: of the new object; NULL: none, or as it was recorded. */
static void request_init(struct request *ret, const char *request,
			 const char *name)
{
	const struct recorded *from = recorded_find(request);
	size_t n;
	const struct rpc_method *methods = csi_methods(CSI_MODE_ALL, &n);

	*ret = (struct request){0};
	for (size_t i = 0; i < n; i++)
		if (strcmp(methods[i].path + strlen("/csi.v1."),
			   from->method) == 0)
			ret->method = &methods[i];
	assert_non_null(ret->method);
	ret->in = message_new(ret->method->in);
	for (size_t i = 0; from->fields[i]; i++)
		set(ret, from->fields[i]);
	if (name && has_field(ret, "name")) {
		char text[128];

		(void)snprintf(text, sizeof(text), "name=%s", name);
		set(ret, text);
	}
}

static void request_done(struct request *r)
{
	protobuf_c_message_free_unpacked(r->in, NULL);
}

#define SOON_MS 300
#define LONG_MS 60000

/* A node of the test had no processor for seconds: a sidecar asks again. */
static bool a_node_was_slow(const struct test *t)
{
	return strstr(t->kit.err.msg, "did not answer") ||
	       strstr(t->kit.err.msg, "no answer from") ||
	       strstr(t->kit.err.msg, "no connection to");
}

/* @ret: owned, of a success. */
static enum rpc_code ask_message(struct test *t, const struct request *r,
				 int timeout_ms, ProtobufCMessage **ret)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	int e;

	for (int tries = 0;; tries++) {
		t->kit.err = (struct error){0};
		e = rpc_client_call(t->kit.client, r->method->path, r->in,
				    r->method->out, timeout_ms, ret,
				    &t->kit.err);
		if (e == 0)
			return RPC_OK;
		if (timeout_ms == SOON_MS || tries == 600 ||
		    !a_node_was_slow(t))
			return rpc_code_from_errno(-e);
		(void)nanosleep(&pause, NULL);
	}
}

/* @answer: as text, CSI_TEXT_MAX; NULL: not wanted. */
static enum rpc_code ask(struct test *t, const struct request *r,
			 int timeout_ms, char *answer)
{
	ProtobufCMessage *reply = NULL;
	enum rpc_code code = ask_message(t, r, timeout_ms, &reply);

	if (code == RPC_OK && answer)
		(void)csi_text(answer, CSI_TEXT_MAX, reply);
	if (reply)
		protobuf_c_message_free_unpacked(reply, NULL);
	return code;
}

/* A request that has to succeed; @path: of its answer, to @variable. */
static void done(struct test *t, const char *request, const char *name,
		 const char *path, const char *variable)
{
	struct request r;
	ProtobufCMessage *reply = NULL;
	char text[256];

	request_init(&r, request, name);
	if (ask_message(t, &r, LONG_MS, &reply) != RPC_OK)
		fail_msg("%s: %s", request, error_text(&t->kit.err));
	if (variable)
		let(variable, message_get(reply, path, text, sizeof(text)));
	protobuf_c_message_free_unpacked(reply, NULL);
	request_done(&r);
}

/* ---- before and after a row ---- */

static void prepare_group(struct test *t)
{
	done(t, "snapshotter: cut a group", "groupsnapshot-1",
	     "group_snapshot.group_snapshot_id", "group");
	done(t, "snapshotter: cut a group", "groupsnapshot-1",
	     "group_snapshot.snapshots.0.snapshot_id", "member");
	done(t, "snapshotter: cut a group", "groupsnapshot-1",
	     "group_snapshot.snapshots.1.snapshot_id", "omember");
}

static void prepare(struct test *t, enum needs needs)
{
	if (needs == HAS_NOTHING)
		return;
	done(t, "provisioner: create", "pvc-1", "volume.volume_id", "id");
	if (needs == HAS_GROUP || needs == HAS_TWO)
		done(t, "provisioner: create", "pvc-2", "volume.volume_id",
		     "second");
	if (needs == HAS_ATTACHED)
		done(t, "attacher: attach", NULL, NULL, NULL);
	if (needs == HAS_SNAPSHOT)
		done(t, "snapshotter: cut", "snapshot-1",
		     "snapshot.snapshot_id", "snapshot");
	if (needs == HAS_GROUP)
		prepare_group(t);
}

/* Delete each snapshot; a member of a group goes with both of its members. */
static void delete_snapshots(struct test *t)
{
	Csi__V1__ListSnapshotsResponse *list = listed(t, "", "", 0, "");

	while (list->n_entries) {
		const Csi__V1__Snapshot *s = list->entries[0]->snapshot;

		let("snapshot", s->snapshot_id);
		let("member", s->snapshot_id);
		let("group", s->group_snapshot_id);
		for (size_t i = 1; i < list->n_entries; i++)
			if (strcmp(list->entries[i]
					   ->snapshot->group_snapshot_id,
				   s->group_snapshot_id) == 0)
				let("omember",
				    list->entries[i]->snapshot->snapshot_id);
		done(t,
		     s->group_snapshot_id[0] ? "snapshotter: delete a group"
					     : "snapshotter: delete",
		     NULL, NULL, NULL);
		kit_free(list);
		list = listed(t, "", "", 0, "");
	}
	kit_free(list);
}

static void delete_volumes(struct test *t)
{
	Csi__V1__ListVolumesRequest in = CSI__V1__LIST_VOLUMES_REQUEST__INIT;
	Csi__V1__ListVolumesResponse *list;

	assert_int_equal(kit_call(&t->kit, LIST, &in, &list), RPC_OK);
	for (size_t i = 0; i < list->n_entries; i++) {
		let("id", list->entries[i]->volume->volume_id);
		done(t, "attacher: detach", NULL, NULL, NULL);
		done(t, "provisioner: delete", NULL, NULL, NULL);
	}
	kit_free(list);
}

static void nothing_is_left(struct test *t, const char *request)
{
	delete_snapshots(t);
	delete_volumes(t);
	if (extents(t) != 0)
		fail_msg("%s: %zu extents are left", request, extents(t));
}

/* ---- what can be amiss ---- */

/* Return the field that names the object, NULL: none. */
static const char *object_field(const struct request *r)
{
	static const char *const fields[] = {
		"volume_content_source.snapshot.snapshot_id",
		"volume_content_source.volume.volume_id",
		"volume_id",
		"source_volume_id",
		"source_volume_ids",
		"snapshot_id",
		"group_snapshot_id",
	};

	for (size_t i = 0; i < array_size(fields); i++)
		if (field_of(r, fields[i])[0])
			return fields[i];
	return NULL;
}

/* Hold the lock of the object as another call would. */
static void hold(struct test *t, const struct request *r,
		 struct volume_lock *lock)
{
	const bool group = strstr(r->method->path, "VolumeGroupSnapshot");
	const bool snapshot = strstr(r->method->path, "Snapshot");
	char name[RECORD_NAME_SIZE], key[RECORD_NAME_SIZE + 2];
	const char *field = has_field(r, "name") ? NULL : object_field(r);

	if (!field && group)
		csi_group_name_map(field_of(r, "name"), name);
	else if (!field)
		csi_name_map(field_of(r, "name"), name);
	else
		(void)snprintf(name, sizeof(name), "%.*s",
			       (int)strcspn(field_of(r, field), "@"),
			       field_of(r, field));
	(void)snprintf(key, sizeof(key), "%s%s",
		       group      ? "g:"
		       : snapshot ? "s:"
				  : "",
		       name);
	assert_null(volume_lock_take(&t->kit.csi.locks, lock, key, "Other"));
}

static void nodes_pause(struct test *t, int ms)
{
	for (size_t i = 0; i < 2; i++)
		atomic_store(&t->nodes[i].pause_ms, ms);
}

/* Let the next change of each node fail; 0: none. */
static void nodes_fail(struct test *t, int error)
{
	for (size_t i = 0; i < 2; i++) {
		atomic_store(&t->nodes[i].fails, error);
		atomic_store(&t->nodes[i].cut_fails, error);
		atomic_store(&t->nodes[i].limit_fails, error);
	}
}

/* Until no call runs in the driver. */
static void wait_for_end(struct test *t)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	bool works = true;

	for (int i = 0; i < 12000 && works; i++) {
		(void)nanosleep(&pause, NULL);
		pthread_mutex_lock(&t->kit.csi.locks.lock);
		works = t->kit.csi.locks.first;
		pthread_mutex_unlock(&t->kit.csi.locks.lock);
	}
	assert_false(works);
}

static void nodes_fill(struct test *t)
{
	for (size_t i = 0; i < 2; i++)
		t->nodes[i].capacity -= fake_node_free(&t->nodes[i]);
}

/* To each map of parameters, and to the context of a volume if @context. */
static bool add_key(struct request *r, const char *prefix, bool context)
{
	static const char *const maps[] = {"parameters", "mutable_parameters",
					   "volume_context"};
	bool added = false;

	for (size_t i = 0; i < array_size(maps) - !context; i++) {
		char text[128];

		if (!has_field(r, maps[i]))
			continue;
		(void)snprintf(text, sizeof(text), "%s.%sbogus=1", maps[i],
			       prefix);
		set(r, text);
		added = true;
	}
	return added;
}

static bool ask_for_mode(struct request *r, int mode)
{
	static const char *const fields[] = {"volume_capability",
					     "volume_capabilities"};

	for (size_t i = 0; i < array_size(fields); i++) {
		char text[128];

		if (!field_of(r, fields[i])[0])
			continue;
		(void)snprintf(text, sizeof(text), "%s.access_mode.mode=%d",
			       fields[i], mode);
		set(r, text);
		return true;
	}
	return false;
}

static bool ask_for_absent(struct request *r)
{
	const char *field = object_field(r);
	char text[128];

	if (!field)
		return false;
	(void)snprintf(text, sizeof(text), "!%s", field);
	if (strcmp(field, "source_volume_ids") == 0)
		set(r, text); /* or the list would grow */
	(void)snprintf(text, sizeof(text), "%s=" FAKE_ID, field);
	set(r, text);
	return true;
}

/* Make the request one with that cause. False: it cannot have it. */
static bool change(struct request *r, const struct row *row, enum cause cause)
{
	switch (cause) {
	case LATER_KEY: return add_key(r, "csi.storage.k8s.io/", true);
	case UNKNOWN_KEY:
		return row->codes[UNKNOWN_KEY] && add_key(r, "", false);
	case READ_BY_MANY:
		return row->codes[READ_BY_MANY] && ask_for_mode(r, 5);
	case ABSENT: return ask_for_absent(r);
	case BUSY: return row->codes[BUSY];
	case FULL:
	case UNREACHABLE:
	case CUT_SHORT: return row->works;
	default: return true;
	}
}

static void begin(struct test *t, enum cause cause, const struct request *r,
		  struct volume_lock *lock)
{
	switch (cause) {
	case BUSY: hold(t, r, lock); break;
	case UNREACHABLE: nodes_fail(t, EHOSTUNREACH); break;
	case FULL: nodes_fill(t); break;
	case CUT_SHORT: nodes_pause(t, LONG_MS); break;
	default: break;
	}
}

static void end(struct test *t, enum cause cause, struct volume_lock *lock)
{
	switch (cause) {
	case BUSY: volume_lock_release(&t->kit.csi.locks, lock); break;
	case UNREACHABLE: nodes_fail(t, 0); break;
	case FULL:
		for (size_t i = 0; i < 2; i++)
			t->nodes[i].capacity += 4 * GIB;
		break;
	case CUT_SHORT:
		nodes_pause(t, 0);
		wait_for_end(t);
		break;
	default: break;
	}
}

/* What a person has to read in the text. */
static const char *const texts[CAUSES] = {
	[UNKNOWN_KEY] = "bogus",
	[READ_BY_MANY] = "mode",
	[ABSENT] = "there is no",
	[BUSY] = "repeat when it has ended",
};

/* Causes that are over after end(). */
static bool passes(enum cause cause)
{
	return cause != UNKNOWN_KEY && cause != READ_BY_MANY && cause != ABSENT;
}

static void answered(struct test *t, const struct row *row, enum cause cause,
		     enum rpc_code got)
{
	if (got != row->codes[cause])
		fail_msg("%s, cause %d: %s, not %s: %s", row->request,
			 (int)cause, rpc_code_name(got),
			 rpc_code_name(row->codes[cause]),
			 error_text(&t->kit.err));
	if (texts[cause] && got != RPC_OK &&
	    !strstr(t->kit.err.msg, texts[cause]))
		fail_msg("%s: does not say '%s': %s", row->request,
			 texts[cause], t->kit.err.msg);
}

static void ask_twice(struct test *t, const struct row *row, enum cause cause,
		      const struct request *r)
{
	char first[CSI_TEXT_MAX] = "", second[CSI_TEXT_MAX] = "";
	struct volume_lock lock = {0};

	begin(t, cause, r, &lock);
	answered(t, row, cause,
		 ask(t, r, cause == CUT_SHORT ? SOON_MS : LONG_MS, first));
	end(t, cause, &lock);
	if (passes(cause) && ask(t, r, LONG_MS, second) != RPC_OK)
		fail_msg("%s, cause %d, again: %s", row->request, (int)cause,
			 error_text(&t->kit.err));
	if (cause == AGAIN)
		assert_string_equal(first, second);
}

static void play(struct test *t, const struct row *row, enum cause cause)
{
	struct request r;
	bool can;

	request_init(&r, row->request, NULL);
	can = change(&r, row, cause);
	request_done(&r);
	if (!can)
		return;
	prepare(t, row->needs);
	request_init(&r, row->request, NULL); /* of what is there now */
	(void)change(&r, row, cause);         /* as before */
	ask_twice(t, row, cause, &r);
	request_done(&r);
	nothing_is_left(t, row->request);
}

static void play_all(struct test *t, enum cause cause)
{
	for (size_t i = 0; i < array_size(rows); i++)
		play(t, &rows[i], cause);
}

/* A request of the Node service is played by node_checks.c, on real hosts. */
static void each_request_is_played(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_recorded; i++) {
		bool played = strncmp(recorded[i].name, "kubelet: ", 9) == 0;

		for (size_t j = 0; j < array_size(rows); j++)
			played |= strcmp(rows[j].request, recorded[i].name) ==
				  0;
		if (!played)
			fail_msg("'%s' is in no row", recorded[i].name);
	}
}

#define PLAYS(name, cause)               \
	static void name(void **state)   \
	{                                \
		play_all(*state, cause); \
	}

PLAYS(is_answered_the_same_again, AGAIN)
PLAYS(takes_any_key_of_kubernetes, LATER_KEY)
PLAYS(refuses_a_key_that_nobody_knows, UNKNOWN_KEY)
PLAYS(refuses_a_mode_we_have_not, READ_BY_MANY)
PLAYS(tells_that_the_object_is_gone, ABSENT)
PLAYS(is_aborted_beside_another_call, BUSY)
PLAYS(is_not_final_while_a_node_is_away, UNREACHABLE)
PLAYS(tells_that_there_is_no_room, FULL)
PLAYS(goes_on_after_a_call_that_was_cut_short, CUT_SHORT)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_request_is_played),
		TEST(is_answered_the_same_again),
		TEST(takes_any_key_of_kubernetes),
		TEST(refuses_a_key_that_nobody_knows),
		TEST(refuses_a_mode_we_have_not),
		TEST(tells_that_the_object_is_gone),
		TEST(is_aborted_beside_another_call),
		TEST(is_not_final_while_a_node_is_away),
		TEST(tells_that_there_is_no_room),
		TEST(goes_on_after_a_call_that_was_cut_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
