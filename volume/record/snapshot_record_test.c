/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volume/record/snapshot_record.h"

#define UID "0c6f9d5e-1111-4222-8333-abcdefabcde"

static const char snapshot[] =
	"{\"apiVersion\":\"union.io/v1alpha1\",\"kind\":\"VolumeSplitSnapshot\","
	"\"metadata\":{\"name\":\"s\",\"uid\":\"" UID "0\","
	"\"creationTimestamp\":\"2026-01-31T10:00:00Z\",\"labels\":{\"a\":\"b\"}},"
	"\"spec\":{\"volume\":\"v\",\"volumeUID\":\"" UID "1\",\"group\":\"g\","
	"\"groupUID\":\"" UID "2\"},"
	"\"status\":{\"phase\":\"Copying\",\"cut\":\"" UID "3\","
	"\"cutTime\":\"2026-01-31T10:00:01Z\","
	"\"volumeSpec\":{\"capacity\":134217728,\"layout\":\"union\","
	"\"fsType\":\"ext4\",\"policy\":\"mfs\",\"transport\":\"auto\","
	"\"placement\":{}},"
	"\"splits\":[{\"index\":0,\"node\":\"n\",\"pool\":\"p\","
	"\"extent\":\"snap." UID "0-0\",\"extentID\":\"" UID "4\","
	"\"origin\":\"v-0\",\"originID\":\"" UID "5\",\"size\":134217728,"
	"\"copied\":4096,\"state\":\"Copying\",\"content\":\"Ready\","
	"\"fsBehind\":true,\"fsUUID\":\"" UID "6\"}],\"conditions\":[]}}";

static const char group[] =
	"{\"apiVersion\":\"union.io/v1alpha1\","
	"\"kind\":\"VolumeSplitGroupSnapshot\","
	"\"metadata\":{\"name\":\"g\",\"uid\":\"" UID "2\","
	"\"creationTimestamp\":\"2026-01-31T10:00:00Z\"},"
	"\"spec\":{\"members\":[{\"volume\":\"v\",\"volumeUID\":\"" UID "1\","
	"\"snapshot\":\"g-0\",\"snapshotUID\":\"" UID "0\"},"
	"{\"volume\":\"w\",\"volumeUID\":\"" UID "7\",\"snapshot\":\"g-1\","
	"\"snapshotUID\":\"" UID "8\"}],"
	"\"parameters\":[{\"key\":\"a b\",\"value\":\"c\"}]},"
	"\"status\":{\"phase\":\"Ready\",\"cut\":\"" UID "3\","
	"\"cutTime\":\"2026-01-31T10:00:01Z\",\"conditions\":[]}}";

/* @text with the first @from replaced. Returned owned. */
static char *with(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	char *changed;

	assert_non_null(at);
	changed = malloc(strlen(text) + strlen(to) + 1);
	assert_non_null(changed);
	memcpy(changed, text, (size_t)(at - text));
	strcpy(changed + (at - text), to);
	strcat(changed, at + strlen(from));
	return changed;
}

static int decode(const char *text)
{
	struct snapshot_record *record = NULL;
	struct group_record *other = NULL;
	int r;

	if (strstr(text, "VolumeSplitGroupSnapshot")) {
		r = group_record_decode(text, strlen(text), &other, NULL);
		group_record_free(other);
	} else {
		r = snapshot_record_decode(text, strlen(text), &record, NULL);
		snapshot_record_free(record);
	}
	return r;
}

static void a_snapshot_is_read_and_written(void **state)
{
	struct snapshot_record *record = NULL;
	char *json = NULL;

	(void)state;
	assert_int_equal(snapshot_record_decode(snapshot, strlen(snapshot),
						&record, NULL),
			 0);
	assert_string_equal(record->volume, "v");
	assert_string_equal(record->group, "g");
	assert_int_equal(record->phase, SNAPSHOT_COPYING);
	assert_true(snapshot_record_is_cut(record));
	assert_int_equal(snapshot_record_copied(record), 4096);
	assert_int_equal(record->splits[0].content, SPLIT_READY);
	assert_true(record->splits[0].fs_behind);
	assert_int_equal(snapshot_record_encode(record, &json, NULL), 0);
	assert_int_equal(decode(json), 0);
	assert_non_null(strstr(json, "\"copied\":4096"));
	free(json);
	snapshot_record_free(record);
}

static void a_group_is_read_and_written(void **state)
{
	struct group_record *record = NULL;
	char *json = NULL;

	(void)state;
	assert_int_equal(
		group_record_decode(group, strlen(group), &record, NULL), 0);
	assert_int_equal(record->n_members, 2);
	assert_string_equal(record->members[1].snapshot, "g-1");
	assert_string_equal(labels_get(&record->parameters, "a b"), "c");
	assert_int_equal(group_record_encode(record, &json, NULL), 0);
	assert_int_equal(decode(json), 0);
	free(json);
	group_record_free(record);
}

static void nonsense_is_refused(void **state)
{
	static const struct {
		const char *text, *from, *to;
	} bad[] = {
		{snapshot, "\"volume\":\"v\"", "\"volume\":\"\""},
		{snapshot, "\"groupUID\":\"" UID "2\"", "\"x\":1"},
		{snapshot, "\"cutTime\"", "\"x\""},
		{snapshot, "\"phase\":\"Copying\"", "\"phase\":\"Ready\""},
		{snapshot, "\"phase\":\"Copying\"", "\"phase\":\"Lost\""},
		{snapshot, "\"capacity\":134217728", "\"capacity\":134221824"},
		{snapshot, "\"size\":134217728", "\"size\":134217729"},
		{snapshot, "\"copied\":4096", "\"copied\":134217729"},
		{snapshot, "\"extentID\":\"" UID "4\"", "\"x\":1"},
		{snapshot, "\"originID\":\"" UID "5\"", "\"originID\":\"5\""},
		{snapshot, "\"content\":\"Ready\"", "\"content\":\"Created\""},
		{snapshot, "\"content\":\"Ready\"", "\"content\":\"Planned\""},
		{snapshot, "\"index\":0", "\"index\":1"},
		{snapshot, "\"volumeSpec\"", "\"spec\""},
		{group, "\"volume\":\"v\"", "\"volume\":\"w\""},
		{group, "\"volume\":\"v\"", "\"volume\":\"x\""},
		{group, "\"snapshot\":\"g-0\"", "\"snapshot\":\"/\""},
		{group, "\"cutTime\"", "\"x\""},
		{group, "\"key\":\"a b\"", "\"key\":\"\""},
		{group, "\"members\":[", "\"members\":[],\"x\":["},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char *text = with(bad[i].text, bad[i].from, bad[i].to);

		if (decode(text) != -EINVAL)
			fail_msg("taken: %s", bad[i].to);
		free(text);
	}
	assert_int_equal(
		snapshot_record_decode(group, strlen(group), NULL, NULL),
		-EPROTONOSUPPORT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_is_read_and_written),
		cmocka_unit_test(a_group_is_read_and_written),
		cmocka_unit_test(nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
