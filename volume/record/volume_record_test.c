/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "volume/record/node.h"
#include "volume/record/volume_record.h"

#define UUID_A "11111111-2222-4333-8444-555555555555"
#define UUID_C "cccccccc-bbbb-4ccc-8ddd-eeeeeeeeeeee"
#define UUID_B "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"

static struct volume_record *sample(void)
{
	struct volume_record *record = volume_record_new();
	struct volume_attachment *a;

	assert_non_null(record);
	strcpy(record->name, "data");
	strcpy(record->uid, UUID_A);
	strcpy(record->resource_version, "17");
	record->created_s = 1768000000;
	assert_int_equal(labels_set(&record->labels, "app", "d/b \"x\"", NULL),
			 0);
	record->spec.capacity = 192 * MIB;
	strcpy(record->spec.policy, "epmfs");
	record->spec.min_splits = 2;
	record->spec.max_splits = 9;
	record->spec.max_extent = GIB;
	record->spec.share_pools = true;
	strcpy(record->spec.placement, "local");
	strcpy(record->spec.local_node, "n1");
	assert_int_equal(name_list_add(&record->spec.nodes, "n1", NULL), 0);
	assert_int_equal(name_list_add(&record->spec.exclude, "n9", NULL), 0);
	assert_int_equal(name_list_add(&record->spec.pools, "fast", NULL), 0);
	assert_int_equal(
		labels_set(&record->spec.node_labels, "zone", "", NULL), 0);
	assert_int_equal(volume_spec_check(&record->spec, NULL), 0);
	record->phase = VOLUME_READY;
	record->epoch = 5;
	record->n_splits = 2;
	record->splits = calloc(2, sizeof(*record->splits));
	assert_non_null(record->splits);
	for (unsigned i = 0; i < 2; i++) {
		struct volume_split *s = &record->splits[i];

		s->index = i;
		snprintf(s->node, sizeof(s->node), "n%u", i);
		strcpy(s->pool, "p");
		snprintf(s->extent, sizeof(s->extent), "data-%u", i);
		s->size = (i + 1) * 64 * MIB;
		strcpy(s->fs_uuid, UUID_B);
	}
	record->splits[0].grow_to = 96 * MIB;
	record->splits[0].state = SPLIT_CREATED;
	strcpy(record->splits[0].extent_id, UUID_B);
	record->splits[1].state = SPLIT_READY;
	record->splits[1].fs_behind = true;
	record->splits[1].suspect = true;
	strcpy(record->splits[1].device, "TRIB-1");
	strcpy(record->splits[1].extent_id, UUID_A);
	record->splits[1].move = (struct split_move){
		.node = "n7",
		.pool = "old",
		.extent = "data-1",
		.extent_id = UUID_B,
		.copied = 4096,
		.left = true,
	};
	assert_int_equal(volume_record_attach(record, "n1", &a, NULL), 0);
	a->epoch = 5;
	a->state = ATTACHMENT_ATTACHED;
	strcpy(a->mount_point, "/mnt/my data");
	assert_int_equal(volume_record_attach(record, "n2", &a, NULL), 0);
	a->state = ATTACHMENT_PUBLISHED;
	a->published = true;
	a->read_only = true;
	a->shared = true;
	strcpy(a->note, "reader \"2\"");
	assert_int_equal(volume_record_condition(record, "Placed", true, "Done",
						 "all extents are there"),
			 0);
	return record;
}

static void a_record_survives_the_round_trip(void **state)
{
	struct volume_record *record = sample(), *copy;
	auto_free char *json = NULL;
	auto_free char *again = NULL;

	(void)state;
	record->splits[0].lost = true;
	volume_record_give_up(record, "n3", "data-0", UUID_C);
	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	assert_int_equal(volume_record_decode(json, strlen(json), &copy, NULL),
			 0);
	assert_int_equal(volume_record_encode(copy, &again, NULL), 0);
	assert_string_equal(json, again);
	assert_string_equal(copy->resource_version, "17");
	assert_true(volume_spec_equal(&copy->spec, &record->spec));
	assert_true(labels_equal(&copy->labels, &record->labels));
	assert_int_equal(copy->epoch, 5);
	assert_int_equal(copy->splits[1].state, SPLIT_READY);
	assert_int_equal(copy->splits[0].grow_to, 96 * MIB);
	assert_int_equal(copy->splits[1].grow_to, 0);
	assert_false(copy->splits[0].fs_behind);
	assert_true(copy->splits[1].fs_behind);
	assert_false(copy->splits[0].suspect);
	assert_true(copy->splits[1].suspect);
	assert_string_equal(copy->splits[0].device, "");
	assert_string_equal(copy->splits[1].device, "TRIB-1");
	assert_true(copy->splits[0].lost);
	assert_false(copy->splits[1].lost);
	assert_string_equal(copy->splits[0].move.node, "");
	assert_string_equal(copy->splits[1].move.extent, "data-1");
	assert_true(copy->splits[1].move.copied == 4096);
	assert_true(copy->splits[1].move.left);
	assert_int_equal(volume_record_target(copy), 224 * MIB);
	assert_true(volume_record_fs_behind(copy));
	assert_string_equal(copy->attachments[0].mount_point, "/mnt/my data");
	assert_false(copy->attachments[0].published);
	assert_false(copy->attachments[0].shared);
	assert_string_equal(copy->attachments[0].note, "");
	assert_int_equal(copy->attachments[1].state, ATTACHMENT_PUBLISHED);
	assert_true(copy->attachments[1].published);
	assert_true(copy->attachments[1].shared);
	assert_int_equal(copy->attachments[1].epoch, 0);
	assert_string_equal(copy->attachments[1].mount_point, "");
	assert_string_equal(copy->attachments[1].note, "reader \"2\"");
	assert_int_equal(copy->n_given_up, 1);
	assert_string_equal(copy->given_up[0].node, "n3");
	assert_string_equal(copy->given_up[0].extent, "data-0");
	assert_true(volume_record_gave_up(copy, UUID_C));
	assert_true(copy->conditions[0].status);
	assert_int_equal(copy->created_s, 1768000000);
	volume_record_free(record);
	volume_record_free(copy);
}

/* An epoch's number is not who has it: old records make the same again. */
static void an_epoch_is_granted_to_somebody_new(void **state)
{
	struct volume_record *record = sample(), *copy;
	char first[VOLUME_GRANT_SIZE];
	auto_free char *json = NULL;

	(void)state;
	assert_string_equal(volume_record_grant(record), "");
	assert_int_equal(volume_record_raise(record, 0, NULL), 0);
	assert_int_equal(record->epoch, 6);
	strcpy(first, volume_record_grant(record));
	record->epoch = 5;
	assert_int_equal(volume_record_raise(record, 0, NULL), 0);
	assert_int_equal(record->epoch, 6);
	assert_string_not_equal(volume_record_grant(record), first);
	assert_true(volume_record_knows(record, first));
	volume_record_learn(record, "strange");
	assert_int_equal(volume_record_raise(record, 40, NULL), 0);
	assert_int_equal(record->epoch, 41);

	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	assert_int_equal(volume_record_decode(json, strlen(json), &copy, NULL),
			 0);
	assert_int_equal(copy->n_grants, 4);
	for (size_t i = 0; i < copy->n_grants; i++)
		assert_string_equal(copy->grants[i], record->grants[i]);
	assert_true(volume_record_knows(copy, "strange"));
	/* The oldest make room, never the newest. */
	for (size_t i = 0; i < 2 * VOLUME_GRANTS_MAX; i++)
		assert_int_equal(volume_record_raise(copy, 0, NULL), 0);
	assert_int_equal(copy->n_grants, VOLUME_GRANTS_MAX);
	assert_false(volume_record_knows(copy, "strange"));
	strcpy(first, volume_record_grant(copy));
	volume_record_granted(copy);
	assert_int_equal(copy->n_grants, 1);
	assert_string_equal(volume_record_grant(copy), first);
	assert_int_equal(volume_record_raise(copy, VOLUME_EPOCH_MAX, NULL),
			 -ERANGE);
	volume_record_free(record);
	volume_record_free(copy);
}

/* The sample with @from replaced by @to is refused with @why in the text. */
static void refused(const char *from, const char *to, int code, const char *why)
{
	struct volume_record *record = sample(), *copy = NULL;
	auto_free char *json = NULL;
	auto_free char *bad = NULL;
	struct error err = {0};
	char *at;

	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	volume_record_free(record);
	at = strstr(json, from);
	if (!at)
		fail_msg("no '%s' in %s", from, json);
	assert_true(asprintf(&bad, "%.*s%s%s", (int)(at - json), json, to,
			     at + strlen(from)) > 0);
	assert_int_equal(volume_record_decode(bad, strlen(bad), &copy, &err),
			 code);
	assert_null(copy);
	if (!strstr(err.msg, why))
		fail_msg("'%s' does not say '%s'", err.msg, why);
}

static void bad_members_are_refused_by_path(void **state)
{
	(void)state;
	refused("\"name\":\"data\"", "\"name\":\"../etc\"", -EINVAL,
		"metadata.name");
	refused("\"name\":\"data\",", "", -EINVAL, "metadata.name is missing");
	refused("\"name\":\"data\"", "\"name\":7", -EINVAL, "metadata.name");
	refused("\"name\":\"data\"", "\"name\":\"da\\u0000ta\"", -EINVAL,
		"NUL");
	refused("\"name\":\"data\"", "\"name\":\"da\xc3\"", -EINVAL, "utf-8");
	refused(UUID_A, "11111111-2222-4333-8444-55555555555X", -EINVAL,
		"metadata.uid");
	refused("\"capacity\":201326592", "\"capacity\":-1", -EINVAL,
		"spec.capacity");
	refused("\"capacity\":201326592", "\"capacity\":9223372036854775807",
		-EINVAL, "spec.capacity");
	/* json-c since 0.18 refuses it itself, and says where it is. */
	refused("\"capacity\":201326592",
		"\"capacity\":99999999999999999999999999", -EINVAL, "");
	refused("\"capacity\":201326592", "\"capacity\":1e9", -EINVAL,
		"spec.capacity");
	refused("\"capacity\":201326592", "\"capacity\":201330688", -EINVAL,
		"not spec.capacity");
	refused("\"ext4\"", "\"ntfs\"", -EINVAL, "ntfs");
	refused("\"maxSplits\":9", "\"maxSplits\":257", -EINVAL,
		"spec.placement.maxSplits");
	refused("\"nodes\":[\"n1\"]", "\"nodes\":[\"N 1\"]", -EINVAL,
		"spec.placement.nodes");
	refused("\"nodes\":[\"n1\"]", "\"nodes\":[[]]", -EINVAL,
		"spec.placement.nodes");
	refused("\"phase\":\"Ready\"", "\"phase\":\"Lost\"", -EINVAL, "Lost");
	refused("\"phase\":\"Ready\"", "\"phase\":\"Moving\"", -EINVAL,
		"status.phase does not match");
	refused(",\"left\":true", "", -EINVAL, "status.phase does not match");
	refused("\"node\":\"n7\"", "\"node\":\"n1\"", -EINVAL,
		"status.splits[1].move.extent is the split's own");
	refused("\"copied\":4096", "\"copied\":-1", -EINVAL, "copied");
	refused("\"index\":1", "\"index\":2", -EINVAL,
		"status.splits[1].index");
	refused("\"extentID\":\"" UUID_A "\",", "", -EINVAL,
		"status.splits[1].extentID");
	refused("\"size\":134217728", "\"size\":1152921504606846977", -EINVAL,
		"status.splits[1].size");
	refused("\"growTo\":100663296", "\"growTo\":67108864", -EINVAL,
		"status.splits[0].growTo");
	refused("\"growTo\":100663296", "\"growTo\":100663297", -EINVAL,
		"status.splits[0].growTo");
	refused("\"growTo\":100663296", "\"growTo\":-4096", -EINVAL,
		"status.splits[0].growTo");
	refused("\"growTo\":100663296", "\"growTo\":1152921504606851072",
		-EINVAL, "status.splits[0].growTo");
	refused("\"growTo\":100663296", "\"growTo\":1152921504606846976",
		-EINVAL, "hold too much");
	refused("\"growTo\":100663296", "\"growTo\":\"96Mi\"", -EINVAL,
		"status.splits[0].growTo");
	refused("\"fsBehind\":true", "\"fsBehind\":1", -EINVAL,
		"status.splits[1].fsBehind");
	refused("\"state\":\"Ready\"", "\"state\":\"Created\"", -EINVAL,
		"status.splits[1].fsBehind");
	refused("\"epoch\":5,\"splits\"", "\"epoch\":4,\"splits\"", -EINVAL,
		"epoch above");
	refused("\"mountPoint\":\"/mnt", "\"mountPoint\":\"mnt", -EINVAL,
		"status.attachments[0].mountPoint");
	refused("\"mountPoint\":\"/mnt/my data\",", "", -EINVAL,
		"status.attachments[0].mountPoint is missing");
	refused("\"mountPoint\":\"/mnt/my data\",", "\"mountPoint\":\"\",",
		-EINVAL, "status.attachments[0].mountPoint");
	refused("\"state\":\"Attached\"", "\"state\":\"Published\"", -EINVAL,
		"status.attachments[0].mountPoint");
	refused("\"published\":true,", "", -EINVAL,
		"status.attachments[1].published");
	refused("\"readOnly\":true", "\"readOnly\":false", -EINVAL,
		"status.attachments[1].shared");
	refused("\"shared\":true", "\"shared\":\"yes\"", -EINVAL,
		"status.attachments[1].shared");
	refused("reader", "reader\\u0000", -EINVAL,
		"status.attachments[1].note");
	refused("\"layout\":\"union\"", "\"layout\":\"line\"", -EINVAL,
		"linear");
	refused("\"fsType\":\"ext4\",", "", -EINVAL, "spec.fsType is missing");
	refused("\"status\":\"True\"", "\"status\":true", -EINVAL,
		"status.conditions[0].status");
	refused("\"app\":", "\"\":", -EINVAL, "metadata.labels");
	refused("2026-01-09T", "yesterday ", -EINVAL, "creationTimestamp");
}

static struct volume_record *linear_sample(void)
{
	struct volume_record *record = sample();

	strcpy(record->spec.layout, "linear");
	record->spec.fs_type[0] = '\0';
	record->spec.min_splits = 0;
	record->spec.capacity = 64 * MIB;
	assert_int_equal(volume_spec_check(&record->spec, NULL), 0);
	record->n_splits = 1;
	record->attachments[0].mount_point[0] = '\0';
	return record;
}

static void a_block_volume_has_one_split_and_no_mount(void **state)
{
	struct volume_record *record = linear_sample(), *copy;
	auto_free char *json = NULL;
	struct error err = {0};

	(void)state;
	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	assert_int_equal(volume_record_decode(json, strlen(json), &copy, &err),
			 0);
	assert_true(volume_spec_is_device(&copy->spec));
	assert_true(volume_spec_equal(&copy->spec, &record->spec));
	volume_record_free(copy);
	free(take_ptr(json));

	strcpy(record->attachments[0].mount_point, "/mnt");
	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	assert_int_equal(volume_record_decode(json, strlen(json), &copy, &err),
			 -EINVAL);
	free(take_ptr(json));

	record->attachments[0].mount_point[0] = '\0';
	strcpy(record->spec.layout, "direct");
	strcpy(record->spec.fs_type, "ext4");
	record->n_splits = 2;
	record->spec.capacity = 192 * MIB;
	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	assert_int_equal(volume_record_decode(json, strlen(json), &copy, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "splits"));
	volume_record_free(record);
}

/* As @record has it. Returns the error. */
static int decode_again(const struct volume_record *record, struct error *err)
{
	struct volume_record *copy = NULL;
	auto_free char *json = NULL;
	int r;

	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	r = volume_record_decode(json, strlen(json), &copy, err);
	if (r == 0)
		assert_true(volume_spec_equal(&copy->spec, &record->spec));
	volume_record_free(copy);
	return r;
}

static void a_device_of_several_extents_keeps_their_order(void **state)
{
	struct volume_record *record = linear_sample();
	struct error err = {0};

	(void)state;
	record->n_splits = 2;
	record->splits[0].grow_to = 0;
	record->splits[1].size = 128 * MIB;
	record->spec.capacity = 192 * MIB;
	assert_int_equal(decode_again(record, &err), 0);
	/* Only the last one may grow: the others would move what is behind. */
	assert_int_equal(volume_record_grown(record, &record->splits[0],
					     record->splits[0].size + 4096),
			 -ERANGE);
	assert_int_equal(volume_record_grown(record, &record->splits[1],
					     128 * MIB + 4096),
			 0);
	assert_int_equal(record->spec.capacity, 192 * MIB + 4096);

	record->splits[1].size = 128 * MIB;
	record->spec.capacity = 192 * MIB;
	strcpy(record->spec.layout, "stripe");
	record->spec.stripe_width = 2;
	record->spec.stripe_unit = 65536;
	assert_int_equal(decode_again(record, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "different sizes"));
	record->splits[0].size = record->splits[1].size = 128 * MIB;
	record->spec.capacity = 256 * MIB;
	assert_int_equal(decode_again(record, &err), 0);
	assert_int_equal(
		volume_record_grown(record, &record->splits[1], 192 * MIB),
		-ERANGE);
	record->n_splits = 1;
	record->spec.capacity = 128 * MIB;
	assert_int_equal(decode_again(record, &err), -EINVAL);
	volume_record_free(record);
}

static void a_stripe_has_a_width_and_a_unit(void **state)
{
	struct volume_spec spec = {.capacity = GIB, .layout = "stripe"};
	struct volume_spec other = {
		.capacity = GIB, .layout = "linear", .stripe_width = 2};
	struct error err = {0};

	(void)state;
	assert_int_equal(volume_spec_check(&spec, NULL), 0);
	assert_int_equal(spec.stripe_width, 2);
	assert_int_equal(spec.stripe_unit, 256 << 10);
	assert_int_equal(volume_spec_check(&other, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "not 'stripe'"));
	/* Whole units to each. */
	spec.stripe_width = 3;
	assert_int_equal(volume_spec_check(&spec, NULL), 0);
	assert_int_equal(spec.capacity, GIB + (512 << 10));
	assert_int_equal(volume_spec_unit(&spec), 768 << 10);
	spec.capacity = VOLUME_CAPACITY_MAX;
	assert_int_equal(volume_spec_check(&spec, NULL), 0);
	assert_int_equal(spec.capacity % volume_spec_unit(&spec), 0);
	spec.capacity = 128 * MIB;
	assert_int_equal(volume_spec_check(&spec, &err), -ERANGE);
	assert_non_null(strstr(err.msg, "192.00 MiB"));
	spec.capacity = GIB;
	spec.stripe_width = 1;
	assert_int_equal(volume_spec_check(&spec, NULL), -EINVAL);
	spec.stripe_width = 65;
	assert_int_equal(volume_spec_check(&spec, NULL), -EINVAL);
	spec.stripe_width = 4;
	spec.stripe_unit = 5000;
	assert_int_equal(volume_spec_check(&spec, NULL), -EINVAL);
	spec.stripe_unit = 4096;
	spec.max_splits = 3;
	assert_int_equal(volume_spec_check(&spec, NULL), -EINVAL);
	spec.max_splits = 0;
	spec.min_splits = 4;
	assert_int_equal(volume_spec_check(&spec, NULL), -EINVAL);
}

/* Layouts that are a device hold one file system, or none. */
static void a_device_has_one_file_system_or_none(void **state)
{
	struct volume_record *record = linear_sample();
	struct volume_spec *spec = &record->spec;
	struct error err = {0};

	(void)state;
	assert_string_equal(spec->fs_type, "");
	assert_false(volume_spec_is_tree(spec));
	assert_int_equal(volume_spec_file_systems(spec, 3), 0);
	strcpy(spec->fs_type, "ext4");
	assert_int_equal(volume_spec_check(spec, NULL), 0);
	assert_true(volume_spec_is_device(spec) && volume_spec_is_tree(spec));
	assert_int_equal(volume_spec_file_systems(spec, 3), 1);
	/* Mounted, or its device alone. */
	assert_int_equal(decode_again(record, &err), 0);
	strcpy(record->attachments[0].mount_point, "/mnt");
	assert_int_equal(decode_again(record, &err), 0);
	strcpy(record->attachments[0].mount_point, "mnt");
	assert_int_equal(decode_again(record, &err), -EINVAL);
	volume_record_free(record);
}

/* XFS needs its 300 MiB on the whole device, not in each extent. */
static void a_file_system_needs_its_room_on_the_device(void **state)
{
	struct volume_spec spec = {.capacity = 300 * MIB,
				   .layout = "stripe",
				   .stripe_width = 4,
				   .fs_type = "xfs"};

	(void)state;
	assert_int_equal(volume_spec_check(&spec, NULL), 0);
	assert_int_equal(volume_spec_split_minimum(&spec), 64 * MIB);
	assert_int_equal(volume_spec_minimum(&spec), 300 * MIB);
	spec.capacity = 299 * MIB;
	assert_int_equal(volume_spec_check(&spec, NULL), -ERANGE);
	spec.stripe_width = 8;
	assert_int_equal(volume_spec_minimum(&spec), 512 * MIB);
	strcpy(spec.layout, "linear");
	spec.stripe_width = 0;
	spec.stripe_unit = 0;
	assert_int_equal(volume_spec_check(&spec, NULL), -ERANGE);
	spec.capacity = 300 * MIB;
	assert_int_equal(volume_spec_check(&spec, NULL), 0);
	assert_int_equal(volume_spec_minimum(&spec), 300 * MIB);
	strcpy(spec.layout, "union");
	assert_int_equal(volume_spec_split_minimum(&spec), 300 * MIB);
}

static void a_direct_volume_of_many_extents_is_refused(void **state)
{
	struct volume_spec spec = {.capacity = GIB, .layout = "linear"};

	(void)state;
	strcpy(spec.fs_type, "xfs");
	strcpy(spec.layout, "direct");
	assert_int_equal(volume_spec_check(&spec, NULL), -EINVAL);
	strcpy(spec.fs_type, "ext4");
	spec.min_splits = 2;
	assert_int_equal(volume_spec_check(&spec, NULL), -EINVAL);
	spec.min_splits = 1;
	spec.max_extent = GIB - 4096;
	assert_int_equal(volume_spec_check(&spec, NULL), -ERANGE);
	spec.max_extent = GIB;
	spec.max_splits = 7;
	assert_int_equal(volume_spec_check(&spec, NULL), 0);
	assert_int_equal(spec.max_splits, 1);
}

static void a_grown_extent_is_recorded_with_the_capacity(void **state)
{
	struct volume_record *record = sample();
	struct volume_split *a = &record->splits[0], *b = &record->splits[1];

	(void)state;
	/* Half way: it is still being grown. Never formatted: not behind. */
	assert_int_equal(volume_record_grown(record, a, 80 * MIB), 0);
	assert_int_equal(record->spec.capacity, 208 * MIB);
	assert_int_equal(a->size, 80 * MIB);
	assert_int_equal(a->grow_to, 96 * MIB);
	assert_false(a->fs_behind);
	/* Further than asked for, by another hand. */
	assert_int_equal(volume_record_grown(record, a, 100 * MIB), 0);
	assert_int_equal(a->grow_to, 0);
	assert_int_equal(record->spec.capacity, 228 * MIB);
	/* As it was: what is behind stays behind. */
	assert_int_equal(volume_record_grown(record, b, 128 * MIB), 0);
	assert_true(b->fs_behind);
	b->fs_behind = false;
	assert_int_equal(volume_record_grown(record, b, 128 * MIB), 0);
	assert_false(b->fs_behind);
	assert_int_equal(volume_record_grown(record, b, 132 * MIB), 0);
	assert_true(b->fs_behind);
	/* What can't be. */
	assert_int_equal(volume_record_grown(record, b, 128 * MIB), -ERANGE);
	assert_int_equal(volume_record_grown(record, b, 132 * MIB + 1),
			 -ERANGE);
	assert_int_equal(volume_record_grown(record, b, VOLUME_CAPACITY_MAX),
			 -ERANGE);
	assert_int_equal(volume_record_grown(record, b, UINT64_MAX - 4095),
			 -ERANGE);
	assert_int_equal(record->spec.capacity, 232 * MIB);
	assert_int_equal(b->size, 132 * MIB);
	volume_record_free(record);
}

/* Does it decode to the same, and with which error if not? */
static int again(const struct volume_record *record, struct error *err)
{
	auto_free char *json = NULL;
	struct volume_record *copy;
	int r;

	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	r = volume_record_decode(json, strlen(json), &copy, err);
	if (r == 0) {
		assert_int_equal(copy->n_splits, record->n_splits);
		assert_int_equal(copy->spec.capacity, record->spec.capacity);
		volume_record_free(copy);
	}
	return r;
}

static void a_split_that_is_being_made_is_no_part_of_a_ready_volume(
	void **state)
{
	(void)state;
	struct volume_record *record = sample();
	struct volume_split *new;
	struct error err = {0};

	record->spec.min_splits = 1;
	record->splits = reallocarray(record->splits, 3, sizeof(*new));
	assert_non_null(record->splits);
	record->n_splits = 3;
	new = &record->splits[2];
	*new = record->splits[0];
	new->index = 2;
	new->grow_to = 0;
	new->state = SPLIT_PLANNED;
	new->extent_id[0] = '\0';
	strcpy(new->extent, "data-2");
	assert_int_equal(volume_record_made(record), 2);
	assert_int_equal(volume_record_target(record), (96 + 128 + 64) * MIB);
	assert_int_equal(again(record, NULL), 0);
	/* The whole of it, once it is there. */
	new->state = SPLIT_CREATED;
	strcpy(new->extent_id, UUID_B);
	assert_int_equal(volume_record_made(record), 3);
	assert_int_equal(again(record, NULL), -EINVAL);
	record->spec.capacity += new->size;
	assert_int_equal(again(record, NULL), 0);
	/* Never in the middle. */
	record->spec.capacity = record->splits[0].size;
	record->splits[1].state = SPLIT_PLANNED;
	record->splits[1].fs_behind = false;
	assert_int_equal(volume_record_made(record), 1);
	assert_int_equal(again(record, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "made after one that is planned"));
	/* All of it may be gone while it is deleted. */
	record->phase = VOLUME_DELETING;
	assert_int_equal(volume_record_made(record), 3);
	assert_int_equal(again(record, NULL), 0);
	volume_record_free(record);
}

static void a_reader_has_what_was_ever_formatted(void **state)
{
	(void)state;
	struct volume_record *record = sample();

	assert_int_equal(volume_record_attached(record, true), 2);
	record->splits[0].state = SPLIT_READY;
	record->splits[1].state = SPLIT_CREATED;
	record->splits[1].fs_behind = false;
	assert_int_equal(volume_record_attached(record, false), 2);
	assert_int_equal(volume_record_attached(record, true), 1);
	assert_true(volume_record_fs_behind(record));
	record->splits[0].state = SPLIT_CREATED;
	assert_false(volume_record_fs_behind(record)); /* never attached */
	volume_record_free(record);
}

static void another_kind_or_version_is_refused(void **state)
{
	(void)state;
	refused("union.io/v1alpha1", "union.io/v2", -EPROTONOSUPPORT,
		"union.io/v2");
	refused("VolumeSplit", "StorageNode", -EPROTONOSUPPORT, "StorageNode");
}

static void what_is_no_object_is_refused(void **state)
{
	static const char *const texts[] = {
		"",   "null",  "[]",    "{",
		"{}", "{} {}", "\"x\"", "{\"a\":\"\xff\"}",
	};
	struct volume_record *record = NULL;
	auto_free char *deep = malloc(100001);
	auto_free char *large = malloc(RECORD_TEXT_MAX + 3);

	(void)state;
	for (size_t i = 0; i < array_size(texts); i++)
		assert_int_equal(volume_record_decode(texts[i],
						      strlen(texts[i]), &record,
						      NULL),
				 -EINVAL);
	assert_non_null(deep);
	memset(deep, '[', 100000);
	deep[100000] = '\0';
	assert_int_equal(volume_record_decode(deep, 100000, &record, NULL),
			 -EINVAL);
	assert_non_null(large);
	memset(large, ' ', RECORD_TEXT_MAX + 2);
	large[RECORD_TEXT_MAX + 2] = '\0';
	memcpy(large, "{}", 2);
	assert_int_equal(
		volume_record_decode(large, RECORD_TEXT_MAX + 2, &record, NULL),
		-EINVAL);
	assert_null(record);
}

static void a_record_cut_anywhere_is_refused(void **state)
{
	struct volume_record *record = sample(), *copy = NULL;
	auto_free char *json = NULL;

	(void)state;
	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	volume_record_free(record);
	for (size_t i = 0; i < strlen(json); i++)
		assert_int_equal(volume_record_decode(json, i, &copy, NULL),
				 -EINVAL);
}

/* Which extents may be freed: exactly those that the record names so. */
static void only_what_is_given_up_by_its_id_is_nobodys(void **state)
{
	struct volume_record *record = sample();
	char id[UUID_TEXT_SIZE];

	(void)state;
	record->phase = VOLUME_READY;
	assert_false(volume_record_gave_up(record, UUID_A));
	assert_false(volume_record_gave_up(record, UUID_C));
	/* A place that a split has left, on a node that is lost. */
	strcpy(record->splits[1].move.extent_id, UUID_C);
	assert_int_equal(volume_record_lose(record, "n7"), 1);
	assert_true(volume_record_gave_up(record, UUID_C));
	assert_string_equal(record->given_up[0].extent, "data-1");
	/* A split itself; the other one is not. */
	record->splits[1].lost = true;
	assert_true(volume_record_gave_up(record, UUID_A));
	assert_false(volume_record_gave_up(record, UUID_B));
	record->splits[1].lost = false;
	/* What a split has is not nobody's, whatever else the record says. */
	volume_record_give_up(record, "n3", "data-1", UUID_A);
	assert_false(volume_record_gave_up(record, UUID_A));
	record->splits[0].lost = true;
	strcpy(record->splits[0].move.extent_id, UUID_C);
	assert_false(volume_record_gave_up(record, UUID_C));
	record->splits[0].move.extent_id[0] = '\0';
	/* The oldest make room; no id is none. */
	volume_record_give_up(record, "n3", "data-1", "");
	assert_int_equal(record->n_given_up, 2);
	for (unsigned i = 0; i < VOLUME_GIVEN_UP_MAX; i++) {
		(void)uuid_make(id);
		volume_record_give_up(record, "n3", "data-1", id);
	}
	assert_int_equal(record->n_given_up, VOLUME_GIVEN_UP_MAX);
	assert_true(volume_record_gave_up(record, id));
	assert_false(volume_record_gave_up(record, UUID_C));
	volume_record_free(record);
}

/* Split 1 of node n1 moves to n7 by its union. */
static struct volume_record *succeeded(bool joined)
{
	struct volume_record *record = sample();
	struct volume_split *splits = reallocarray(record->splits, 3,
						   sizeof(*splits));

	assert_non_null(splits);
	record->splits = splits;
	splits[0].grow_to = 0;
	splits[1].move = (struct split_move){
		.way = SPLIT_MOVE_UNION,
		.node = "n7",
		.pool = "new",
		.extent = "data-257",
		.extent_id = UUID_C,
		.joined = joined,
	};
	splits[2] = splits[1];
	splits[2].index = 2;
	strcpy(splits[2].node, "n7");
	strcpy(splits[2].pool, "new");
	strcpy(splits[2].extent, "data-257");
	strcpy(splits[2].extent_id, UUID_C);
	splits[2].state = joined ? SPLIT_READY : SPLIT_CREATED;
	splits[2].fs_behind = splits[2].suspect = false;
	splits[2].move = (struct split_move){0};
	record->n_splits = 3;
	record->phase = VOLUME_MOVING;
	return record;
}

/* The store takes it, and has the same afterwards. */
static void assert_valid(const struct volume_record *record)
{
	struct volume_record *copy;
	auto_free char *json = NULL;
	auto_free char *again = NULL;
	struct error err = {0};

	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	if (volume_record_decode(json, strlen(json), &copy, &err) < 0)
		fail_msg("%s", error_text(&err));
	assert_int_equal(volume_record_encode(copy, &again, NULL), 0);
	assert_string_equal(json, again);
	volume_record_free(copy);
}

static void assert_invalid(const struct volume_record *record)
{
	struct volume_record *copy;
	auto_free char *json = NULL;

	assert_int_equal(volume_record_encode(record, &json, NULL), 0);
	assert_int_equal(volume_record_decode(json, strlen(json), &copy, NULL),
			 -EINVAL);
}

static void a_successor_is_no_part_of_the_size(void **state)
{
	struct volume_record *record = succeeded(true);

	(void)state;
	assert_valid(record);
	assert_ptr_equal(volume_record_leaving(record), &record->splits[1]);
	assert_ptr_equal(volume_record_successor(record), &record->splits[2]);
	assert_true(volume_record_target(record) == record->spec.capacity);
	/* Its extent is attached, fenced and withdrawn from the first. */
	assert_int_equal(volume_record_made(record), 3);
	assert_int_equal(volume_record_attached(record, false), 3);
	record->splits[1].move.joined = false;
	assert_int_equal(volume_record_attached(record, false), 2);
	assert_int_equal(volume_record_made(record), 3);
	assert_valid(record);
	/* Each of these is not what such a move is. */
	record->splits[2].size += MIB;
	assert_invalid(record);
	record->splits[2].size -= MIB;
	strcpy(record->splits[2].node, "n8");
	assert_invalid(record);
	strcpy(record->splits[2].node, "n7");
	record->n_splits = 2;
	assert_invalid(record);
	record->n_splits = 3;
	record->phase = VOLUME_READY;
	assert_invalid(record);
	volume_record_free(record);
}

static void a_node_lost_amid_a_move_by_union_leaves_what_is_elsewhere(
	void **state)
{
	static const char *const nodes[] = {"n1", "n7"};

	(void)state;
	for (size_t i = 0; i < array_size(nodes); i++) {
		struct volume_record *record = succeeded(false);

		/* Nothing was there yet: the move is over. */
		assert_true(volume_record_lose(record, nodes[i]) > 0);
		assert_valid(record);
		assert_int_equal(record->phase, VOLUME_READY);
		assert_int_equal(record->n_splits, 2);
		assert_int_equal(record->splits[1].lost, i == 0);
		assert_int_equal(record->splits[1].move.left, i == 0);
		assert_int_equal(volume_record_gave_up(record, UUID_C), i == 1);
		assert_false(volume_record_end_lost(record));
		volume_record_free(record);

		record = succeeded(true);
		assert_false(volume_record_end_lost(record));
		assert_true(volume_record_lose(record, nodes[i]) > 0);
		assert_int_equal(volume_record_lose(record, nodes[i]), 1);
		assert_valid(record);
		assert_int_equal(record->phase, VOLUME_MOVING);
		assert_int_equal(volume_record_lost(record), 1);
		assert_true(volume_record_end_lost(record));
		assert_valid(record);
		assert_int_equal(record->n_splits, 2);
		assert_int_equal(record->splits[1].index, 1);
		assert_int_equal(volume_record_lost(record), 0);
		assert_string_equal(record->splits[1].node, i ? "n1" : "n7");
		assert_true(volume_record_gave_up(record, i ? UUID_C : UUID_A));
		volume_record_free(record);
	}
}

static void a_node_survives_the_round_trip(void **state)
{
	struct node_record node = {0}, copy = {0};
	auto_free char *json = NULL;
	struct error err = {0};

	(void)state;
	strcpy(node.name, "host-1");
	strcpy(node.control_address, "tcp:[fd00::1]:7400");
	strcpy(node.data_address, "[fd00::1]:10809");
	strcpy(node.initiators[0], "10.0.0.7");
	node.n_initiators = 1;
	strcpy(node.tls_ca_file, "/ca");
	strcpy(node.tls_cert_file, "/cert");
	strcpy(node.tls_key_file, "/key");
	assert_int_equal(labels_set(&node.labels, "zone", "east", NULL), 0);
	assert_int_equal(name_list_add(&node.cordoned_pools, "p", NULL), 0);
	assert_int_equal(name_list_add(&node.cordoned_pools, "q", NULL), 0);
	name_list_remove(&node.cordoned_pools, "p");
	node.scrub = calloc(1, sizeof(*node.scrub));
	node.scrub->ages = calloc(1, sizeof(*node.scrub->ages));
	*node.scrub->ages = (struct node_orphan_age){"x-0", UUID_A, 1768000000};
	node.scrub->n_ages = 1;
	node.scrub->at_s = 1768000060;
	node.scrub->orphans = 2;
	node.scrub->orphan_bytes = 7 * MIB;
	node.scrub->missing = 3;
	assert_int_equal(node_record_encode(&node, &json, NULL), 0);
	assert_int_equal(node_record_decode(json, strlen(json), &copy, &err),
			 0);
	assert_string_equal(copy.control_address, node.control_address);
	assert_string_equal(copy.initiators[0], "10.0.0.7");
	assert_string_equal(copy.tls_key_file, "/key");
	assert_string_equal(labels_get(&copy.labels, "zone"), "east");
	assert_false(node_record_cordons(&copy, "p"));
	assert_true(node_record_cordons(&copy, "q"));
	/* Without a keeper, too. */
	assert_null(copy.report);
	assert_int_equal(copy.scrub->at_s, 1768000060);
	assert_int_equal(copy.scrub->orphans, 2);
	assert_int_equal(copy.scrub->orphan_bytes, 7 * MIB);
	assert_int_equal(copy.scrub->missing, 3);
	assert_int_equal(node_scrub_since(copy.scrub, UUID_A), 1768000000);
	assert_int_equal(node_scrub_since(copy.scrub, UUID_B), 0);
	assert_int_equal(node_scrub_since(NULL, UUID_A), 0);
	copy.cordoned = true;
	assert_true(node_record_cordons(&copy, "p"));
	node_record_done(&node);
	node_record_done(&copy);
}

static void a_node_with_a_bad_address_is_refused(void **state)
{
	static const char *const control[] = {
		"",        "unix:",       "unix:rel",  "tcp:a",
		"tcp:a:0", "tcp:a:65536", "http://a:1"};
	static const char *const data[] = {"",       "host",   "host:x",
					   ":10809", "unix:x", "host:99999"};
	struct node_record node = {.name = "a",
				   .control_address = "unix:/x",
				   .data_address = "h:1"};

	(void)state;
	assert_int_equal(node_record_check(&node, NULL), 0);
	for (size_t i = 0; i < array_size(control); i++) {
		strcpy(node.control_address, control[i]);
		assert_int_equal(node_record_check(&node, NULL), -EINVAL);
	}
	strcpy(node.control_address, "tcp:a:1");
	for (size_t i = 0; i < array_size(data); i++) {
		strcpy(node.data_address, data[i]);
		assert_int_equal(node_record_check(&node, NULL), -EINVAL);
	}
	strcpy(node.data_address, "unix:/x");
	strcpy(node.initiators[0], "any");
	node.n_initiators = 1;
	assert_int_equal(node_record_check(&node, NULL), -EINVAL);
	node.n_initiators = 0;
	strcpy(node.tls_ca_file, "/only");
	assert_int_equal(node_record_check(&node, NULL), -EINVAL);
}

static void a_spec_out_of_bounds_is_refused(void **state)
{
	struct volume_spec spec = {.capacity = VOLUME_CAPACITY_MIN - 1};

	(void)state;
	assert_int_equal(volume_spec_check(&spec, NULL), -ERANGE);
	spec.capacity = VOLUME_CAPACITY_MAX + 1;
	assert_int_equal(volume_spec_check(&spec, NULL), -ERANGE);
	spec.capacity = GIB + 1;
	assert_int_equal(volume_spec_check(&spec, NULL), 0);
	assert_int_equal(spec.capacity, GIB + 4096);
	assert_string_equal(spec.fs_type, "ext4");
	spec.min_splits = 17;
	assert_int_equal(volume_spec_check(&spec, NULL), -ERANGE);
	spec.min_splits = 4;
	spec.max_splits = 3;
	assert_int_equal(volume_spec_check(&spec, NULL), -EINVAL);
	spec.max_splits = 0;
	spec.max_extent = MIB;
	assert_int_equal(volume_spec_check(&spec, NULL), -ERANGE);
	spec.max_extent = 0;
	strcpy(spec.policy, "best");
	assert_int_equal(volume_spec_check(&spec, NULL), -EINVAL);
}

static void labels_are_bounded(void **state)
{
	struct labels labels = {0};
	char key[LABEL_TEXT_SIZE + 1];

	(void)state;
	memset(key, 'k', sizeof(key));
	key[LABEL_TEXT_SIZE] = '\0';
	assert_int_equal(labels_set(&labels, key, "", NULL), -EINVAL);
	assert_int_equal(labels_set(&labels, "", "", NULL), -EINVAL);
	for (int i = 0; i < LABELS_MAX; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(labels_set(&labels, key, "v", NULL), 0);
	}
	assert_int_equal(labels_set(&labels, "more", "v", NULL), -E2BIG);
	assert_int_equal(labels_set(&labels, "k3", "w", NULL), 0);
	assert_string_equal(labels_get(&labels, "k3"), "w");
	labels_done(&labels);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_epoch_is_granted_to_somebody_new),
		cmocka_unit_test(a_record_survives_the_round_trip),
		cmocka_unit_test(bad_members_are_refused_by_path),
		cmocka_unit_test(a_block_volume_has_one_split_and_no_mount),
		cmocka_unit_test(a_direct_volume_of_many_extents_is_refused),
		cmocka_unit_test(a_device_of_several_extents_keeps_their_order),
		cmocka_unit_test(a_stripe_has_a_width_and_a_unit),
		cmocka_unit_test(a_device_has_one_file_system_or_none),
		cmocka_unit_test(a_file_system_needs_its_room_on_the_device),
		cmocka_unit_test(a_grown_extent_is_recorded_with_the_capacity),
		cmocka_unit_test(
			a_split_that_is_being_made_is_no_part_of_a_ready_volume),
		cmocka_unit_test(a_reader_has_what_was_ever_formatted),
		cmocka_unit_test(another_kind_or_version_is_refused),
		cmocka_unit_test(what_is_no_object_is_refused),
		cmocka_unit_test(a_record_cut_anywhere_is_refused),
		cmocka_unit_test(only_what_is_given_up_by_its_id_is_nobodys),
		cmocka_unit_test(a_successor_is_no_part_of_the_size),
		cmocka_unit_test(
			a_node_lost_amid_a_move_by_union_leaves_what_is_elsewhere),
		cmocka_unit_test(a_node_survives_the_round_trip),
		cmocka_unit_test(a_node_with_a_bad_address_is_refused),
		cmocka_unit_test(a_spec_out_of_bounds_is_refused),
		cmocka_unit_test(labels_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
