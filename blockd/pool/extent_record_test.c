/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/extent_record.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "blockd/pool/record_text.h"

#define ID "01234567-89ab-4cde-8f01-23456789abcd"

static struct extent_record example(void)
{
	struct extent_record record = {
		.name = "vol-1",
		.id = ID,
		.pool_id = ID,
		.size = 5 * GIB,
		.created_s = 1700000000,
		.state = EXTENT_OK,
		.blank = true,
	};
	char z[] = "zone", az[] = "x=y z", app[] = "app", empty[] = "";
	struct extent_label labels[] = {{z, az}, {app, empty}};
	const char *initiators[] = {"10.0.0.7", "fd00::/64"};

	assert_int_equal(extent_record_set_labels(&record, labels, 2, NULL), 0);
	assert_int_equal(
		extent_record_set_initiators(&record, initiators, 2, NULL), 0);
	record.export.exists = true;
	record.export.active = true;
	record.export.epoch = UINT64_MAX;
	assert_int_equal(extent_scsi_make("iqn.2000-01.org:group", 255, "staff",
					  &record.export.scsi, NULL),
			 0);
	record.export.block_size = 4096;
	strcpy(record.export.grant, "node-1/extent.0");
	return record;
}

static void gives_back_what_was_encoded(void **state)
{
	struct extent_record record = example(), back;
	auto_free char *text = NULL;
	size_t length;

	(void)state;
	assert_int_equal(extent_record_encode(&record, &text, &length, NULL),
			 0);
	assert_int_equal(extent_record_decode(text, length, &back, NULL), 0);
	assert_string_equal(back.name, record.name);
	assert_string_equal(back.id, record.id);
	assert_string_equal(back.pool_id, record.pool_id);
	assert_true(back.size == record.size);
	assert_true(back.created_s == record.created_s);
	assert_true(back.blank);
	assert_int_equal(back.state, EXTENT_OK);
	assert_true(extent_record_same_labels(&back, &record));
	assert_true(extent_export_same(&back.export, &record.export));
	assert_string_equal(back.labels[0].key, "app");
	extent_record_done(&back);
	extent_record_done(&record);
}

/* Encode lines of our own with a good checksum. */
static int decode_lines(const char *const *lines, struct error *err)
{
	struct record_writer w = {0};
	struct extent_record record;
	auto_free char *text = NULL;
	size_t length;
	int r;

	record_text_begin(&w, "tributary-extent", 1);
	for (; *lines; lines += 2)
		if (strcmp(lines[0], "label") == 0)
			record_text_add_pair(&w, lines[0], "k", lines[1]);
		else if (strcmp(lines[0], "origin") == 0)
			record_text_add_pair(&w, lines[0], lines[1], ID);
		else
			record_text_add(&w, lines[0], lines[1]);
	assert_int_equal(record_text_end(&w, &text, &length), 0);
	r = extent_record_decode(text, length, &record, err);
	if (r == 0)
		extent_record_done(&record);
	return r;
}

#define GOOD                                                                  \
	"name", "a", "id", ID, "pool", ID, "size", "1048576", "created", "1", \
		"state", "ok", "blank", "no"

#define EXPORT \
	"export-epoch", "1", "export-active", "yes", "export-read-only", "no"

static void accepts_a_record_that_was_never_exported(void **state)
{
	const char *lines[] = {GOOD, NULL};

	(void)state;
	assert_int_equal(decode_lines(lines, NULL), 0);
}

#define OTHER    "11234567-89ab-4cde-8f01-23456789abcd"
#define ORIGIN   "origin", "b", "method", "shared"
#define SNAPSHOT GOOD, "kind", "snapshot", ORIGIN, "cut", OTHER

static void gives_back_what_a_snapshot_is(void **state)
{
	struct extent_record record = example(), back;
	auto_free char *text = NULL;
	size_t length;

	(void)state;
	record.kind = EXTENT_KIND_SNAPSHOT;
	record.reserved = 7 * MIB;
	record.thick = true;
	record.limits = (struct extent_limits){100, 8 * MIB};
	record.origin = (struct extent_origin){
		.name = "vol-0",
		.id = OTHER,
		.method = POOL_COPY_REFLINK,
		.cut = ID,
	};
	assert_int_equal(extent_record_encode(&record, &text, &length, NULL),
			 0);
	assert_int_equal(extent_record_decode(text, length, &back, NULL), 0);
	assert_int_equal(back.kind, EXTENT_KIND_SNAPSHOT);
	assert_true(back.reserved == 7 * MIB);
	assert_true(back.thick);
	assert_true(back.limits.iops == 100);
	assert_true(back.limits.bytes_per_second == 8 * MIB);
	assert_string_equal(back.origin.name, "vol-0");
	assert_string_equal(back.origin.id, OTHER);
	assert_string_equal(back.origin.cut, ID);
	assert_int_equal(back.origin.method, POOL_COPY_REFLINK);
	extent_record_done(&back);
	extent_record_done(&record);
}

/* What an older program wrote, and can read. */
static void writes_a_plain_extent_as_it_always_was(void **state)
{
	static const char text[] = "tributary-extent 1\n"
				   "name=a\nid=" ID "\npool=" ID
				   "\nsize=1048576\ncreated=1\nstate=ok\n"
				   "blank=no\nlabel=k=v\nexport-epoch=1\n"
				   "export-active=yes\nexport-read-only=no\n"
				   "crc32c=43488211\n";
	struct extent_record record;
	auto_free char *again = NULL;
	size_t length;

	(void)state;
	assert_int_equal(
		extent_record_decode(text, sizeof(text) - 1, &record, NULL), 0);
	assert_int_equal(record.kind, EXTENT_KIND_EXTENT);
	assert_string_equal(record.origin.name, "");
	assert_false(record.thick);
	assert_int_equal(extent_record_encode(&record, &again, &length, NULL),
			 0);
	assert_int_equal(length, sizeof(text) - 1);
	assert_memory_equal(again, text, length);
	extent_record_done(&record);
}

static void accepts_what_snapshots_and_clones_have(void **state)
{
	const char *const good[][28] = {
		{SNAPSHOT, "reserved", "0", NULL},
		{GOOD, ORIGIN, NULL},
		{GOOD, "thick", "yes", "limit-iops", "1", NULL},
		{GOOD, "limit-bytes", "65536", NULL},
	};

	(void)state;
	for (size_t i = 0; i < array_size(good); i++)
		assert_int_equal(decode_lines(good[i], NULL), 0);
}

static void refuses_half_an_export_and_odd_blocks(void **state)
{
#define EXPORTED                                                              \
	GOOD, "export-epoch", "1", "export-active", "no", "export-read-only", \
		"no"
	const char *good[] = {EXPORTED, "export-block-size", "512", NULL};
	const char *odd[] = {EXPORTED, "export-block-size", "1024", NULL};
	const char *none[] = {EXPORTED, "export-block-size", "0", NULL};
	const char *half[] = {GOOD, "export-block-size", "512", NULL};

	(void)state;
	assert_int_equal(decode_lines(good, NULL), 0);
	assert_int_equal(decode_lines(odd, NULL), -EBADMSG);
	assert_int_equal(decode_lines(none, NULL), -EBADMSG);
	assert_int_equal(decode_lines(half, NULL), -EBADMSG);
}

static void refuses_half_a_snapshot(void **state)
{
	const char *const bad[][28] = {
		{SNAPSHOT, NULL}, /* without what is reserved */
		{GOOD, "kind", "snapshot", ORIGIN, "reserved", "1", NULL},
		{GOOD, "kind", "snapshot", "cut", OTHER, "reserved", "1", NULL},
		{GOOD, ORIGIN, "cut", OTHER, NULL}, /* no snapshot */
		{GOOD, ORIGIN, "reserved", "1", NULL},
		{GOOD, "kind", "extent", NULL}, /* never written */
		{GOOD, "kind", "volume", NULL},
		{GOOD, "origin", "b", NULL},
		{GOOD, "method", "shared", NULL},
		{GOOD, "origin", "../b", "method", "shared", NULL},
		{GOOD, "origin", "b", "method", "none", NULL},
		{GOOD, "thick", "no", NULL},
		{GOOD, "limit-iops", "0", NULL},
		{GOOD, "limit-iops", "1000000001", NULL},
		{GOOD, "limit-bytes", "65535", NULL},
		{GOOD, "limit-bytes", "1125899906842625", NULL},
	};

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++) {
		struct error err = {0};

		assert_int_equal(decode_lines(bad[i], &err), -EBADMSG);
		assert_true(err.msg[0]);
	}
}

static void refuses_records_that_make_no_sense(void **state)
{
	const char *const bad[][26] = {
		{GOOD, "name", "b", NULL},             /* twice */
		{GOOD, "color", "red", NULL},          /* unknown */
		{GOOD, "export-epoch", "1", NULL},     /* half an export */
		{GOOD, "export-initiator", "a", NULL}, /* the same */
		/* LUNs of nothing, of no name, that are none */
		{GOOD, EXPORT, "export-lun", "1", NULL},
		{GOOD, EXPORT, "export-target", "iqn.x:a", NULL},
		{GOOD, "export-account", "a", NULL},
		{GOOD, EXPORT, "export-account", "../a", NULL},
		{GOOD, EXPORT, "export-target", "iqn.x:7", "export-lun", "0",
		 NULL},
		{GOOD, EXPORT, "export-target", "iqn.x:a", "export-lun", "256",
		 NULL},
		{GOOD, "label", "v", "label", "w", NULL}, /* key twice */
		{"id", ID, NULL},
		{"name", "../a", "id", ID, "pool", ID, "size", "1048576",
		 "created", "1", "state", "ok", "blank", "no", NULL},
		{"name", "a", "id", "x", "pool", ID, "size", "1048576",
		 "created", "1", "state", "ok", "blank", "no", NULL},
		{"name", "a", "id", ID, "pool", ID, "size", "1048577",
		 "created", "1", "state", "ok", "blank", "no", NULL},
		{"name", "a", "id", ID, "pool", ID, "size", "1048576",
		 "created", "1", "state", "fine", "blank", "no", NULL},
	};

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++) {
		struct error err = {0};

		assert_int_equal(decode_lines(bad[i], &err), -EBADMSG);
		assert_true(err.msg[0]);
	}
}

static void bounds_labels_and_initiators(void **state)
{
	struct extent_record record = {0};
	struct extent_label labels[EXTENT_LABELS_MAX + 1];
	const char *initiators[EXTENT_INITIATORS_MAX + 1];
	char keys[EXTENT_LABELS_MAX + 1][8], value[EXTENT_LABEL_MAX + 2];
	char control[] = "a\nb", row[EXTENT_INITIATOR_MAX + 2];

	(void)state;
	memset(row, 'r', sizeof(row) - 1);
	row[sizeof(row) - 1] = '\0';
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (size_t i = 0; i < array_size(labels); i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
		labels[i] = (struct extent_label){keys[i], value + 1};
	}
	for (size_t i = 0; i < array_size(initiators); i++)
		initiators[i] = "10.0.0.1";
	assert_int_equal(extent_record_set_labels(&record, labels, 17, NULL),
			 -EINVAL);
	assert_int_equal(extent_record_set_labels(&record, labels, 16, NULL),
			 0);
	labels[3].value = value;
	assert_int_equal(extent_record_set_labels(&record, labels, 16, NULL),
			 -EINVAL);
	labels[3].value = control;
	assert_int_equal(extent_record_set_labels(&record, labels, 16, NULL),
			 -EINVAL);
	labels[3] = labels[2];
	assert_int_equal(extent_record_set_labels(&record, labels, 16, NULL),
			 -EINVAL);
	assert_int_equal(record.n_labels, 16);
	assert_int_equal(
		extent_record_set_initiators(&record, initiators, 65, NULL),
		-EINVAL);
	assert_int_equal(
		extent_record_set_initiators(&record, initiators, 64, NULL), 0);
	initiators[0] = row;
	assert_int_equal(
		extent_record_set_initiators(&record, initiators, 1, NULL),
		-EINVAL);
	extent_record_done(&record);
}

static void bounds_sizes(void **state)
{
	(void)state;
	assert_int_equal(extent_size_check(MIB, NULL), 0);
	assert_int_equal(extent_size_check(MIB - 4096, NULL), -EINVAL);
	assert_int_equal(extent_size_check(MIB + 1, NULL), -EINVAL);
	assert_int_equal(extent_size_check(16 * TIB - 4096, NULL), 0);
	assert_int_equal(extent_size_check(16 * TIB, NULL), -EINVAL);
	assert_int_equal(extent_size_check(0, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_back_what_was_encoded),
		cmocka_unit_test(gives_back_what_a_snapshot_is),
		cmocka_unit_test(writes_a_plain_extent_as_it_always_was),
		cmocka_unit_test(accepts_what_snapshots_and_clones_have),
		cmocka_unit_test(refuses_half_an_export_and_odd_blocks),
		cmocka_unit_test(refuses_half_a_snapshot),
		cmocka_unit_test(accepts_a_record_that_was_never_exported),
		cmocka_unit_test(refuses_records_that_make_no_sense),
		cmocka_unit_test(bounds_labels_and_initiators),
		cmocka_unit_test(bounds_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
