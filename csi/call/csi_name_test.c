/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/csi_name.h"
#include "csi/call/volume_lock.h"

static void takes_a_good_name_as_it_is(void **state)
{
	static const char *const names[] = {
		"pvc-1c477b5e-2c0a-4f5f-8a39-0f3f6a3c9d11", "a", "0.x_y-z9"};
	char name[RECORD_NAME_SIZE];

	(void)state;
	for (size_t i = 0; i < array_size(names); i++) {
		csi_name_map(names[i], name);
		assert_string_equal(name, names[i]);
	}
}

static void makes_a_good_name_of_any_other(void **state)
{
	static const char *const names[] = {
		"Upper",
		"a b",
		"/",
		"..",
		"a..b",
		"Grüße an alle",
		"-a",
		"a-",
		"日本",
		"a/b",
		"a@b",
		"x\ty",
		"sixty-bytes-sixty-bytes-sixty-bytes-sixty-bytes-sixty-bytes-",
	};
	char all[array_size(names)][RECORD_NAME_SIZE];

	(void)state;
	for (size_t i = 0; i < array_size(names); i++) {
		csi_name_map(names[i], all[i]);
		assert_int_equal(name_check("volume", all[i], NULL), 0);
		assert_true(strlen(all[i]) <= VOLUME_NAME_MAX);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(all[i], all[k]);
	}
	/* The same for ever: records are found by it. */
	csi_name_map("Upper", all[0]);
	assert_string_equal(all[0], "upper-cppsxjkeud3fhxbaimz7urah47");
	assert_int_equal(strncmp(all[5], "gr-e-an-alle-", 13), 0);
	assert_int_equal(strncmp(all[8], "volume-", 7), 0);
}

static void reads_the_ids_it_writes(void **state)
{
	static const char uid[] = "0c6f9d5e-1111-4222-8333-abcdefabcdef";
	char text[CSI_ID_SIZE];
	struct csi_id id;
	struct volume_record record = {.name = "data"};

	(void)state;
	csi_id_format(text, "data", uid);
	assert_int_equal(csi_id_parse(text, &id), 0);
	assert_string_equal(id.name, "data");
	assert_string_equal(id.uid, uid);
	(void)strcpy(record.uid, uid);
	assert_true(csi_id_matches(&id, &record));
	record.uid[0] = '1'; /* made again under its name */
	assert_false(csi_id_matches(&id, &record));
	/* by hand, without the uid */
	assert_int_equal(csi_id_parse("data", &id), 0);
	assert_true(csi_id_matches(&id, &record));
}

#define INLINE_ID                                                        \
	"csi-0123456789abcdef0123456789abcdef0123456789abcdef0123456789" \
	"abcdef"

/* A pod's volume and a controller's never meet, whatever their ids are. */
static void keeps_inline_volumes_and_others_apart(void **state)
{
	static const char *const bad[] = {
		"",
		"csi-",
		"data",
		"csi-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0",
		"csj-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		"csi-0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"};
	struct volume_record record = {0};
	struct csi_id id, other;

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++)
		assert_int_equal(csi_inline_id_parse(bad[i], &id), -EINVAL);
	assert_int_equal(csi_id_parse(INLINE_ID, &id), -EINVAL);
	assert_int_equal(csi_inline_id_parse(INLINE_ID, &id), 0);
	(void)strcpy(record.name, id.name);
	assert_int_equal(csi_id_parse(id.name, &other), 0);
	/* A controller's, of that name. */
	assert_true(csi_id_matches(&other, &record));
	assert_false(csi_id_matches(&id, &record));
	/* A pod's. */
	assert_int_equal(
		labels_set(&record.labels, CSI_LABEL_NAME, INLINE_ID, NULL), 0);
	assert_false(csi_id_matches(&id, &record));
	assert_int_equal(
		labels_set(&record.labels, CSI_LABEL_INLINE, "host1", NULL), 0);
	assert_true(csi_id_matches(&id, &record));
	assert_false(csi_id_matches(&other, &record));
	/* Another pod's, whose name is the same: nobody has found two. */
	assert_int_equal(
		labels_set(&record.labels, CSI_LABEL_NAME, "csi-x", NULL), 0);
	assert_false(csi_id_matches(&id, &record));
	labels_done(&record.labels);
}

static void refuses_ids_of_others(void **state)
{
	static const char *const ids[] = {
		"",
		"@",
		"Data",
		"../etc",
		"a@",
		"a@b",
		"a@0c6f9d5e-1111-4222-8333-abcdefabcdeF",
		"a@0c6f9d5e-1111-4222-8333-abcdefabcdef0",
		"a@0c6f9d5e-1111-4222-8333-abcdefabcde",
		"@0c6f9d5e-1111-4222-8333-abcdefabcdef",
		"a@@0c6f9d5e-1111-4222-8333-abcdefabcdef",
		"sixty-bytes-sixty-bytes-sixty-bytes-sixty-bytes-sixty-bytes1",
	};
	struct csi_id id = {.name = "untouched"};

	(void)state;
	for (size_t i = 0; i < array_size(ids); i++)
		assert_int_equal(csi_id_parse(ids[i], &id), -EINVAL);
	assert_string_equal(id.name, "untouched");
}

static void reads_its_own_tokens_only(void **state)
{
	static const char *const bad[] = {"x",
					  "after:",
					  "after:A",
					  "data",
					  "before:data",
					  "after:data ",
					  "after:data\n",
					  "after:data m m",
					  "after: m",
					  "after:data \x7f"};
	struct record_place place = {.after = "data"}, read;
	char token[CSI_TOKEN_SIZE + 1];

	(void)state;
	csi_token_format(token, &place);
	assert_string_equal(token, "after:data");
	assert_int_equal(csi_token_parse(token, &read), 0);
	assert_string_equal(read.after, "data");
	assert_string_equal(read.mark, "");
	memset(place.after, 'a', VOLUME_NAME_MAX);
	memset(place.mark, '=', sizeof(place.mark) - 1);
	csi_token_format(token, &place);
	assert_int_equal(csi_token_parse(token, &read), 0);
	assert_string_equal(read.after, place.after);
	assert_string_equal(read.mark, place.mark);
	(void)strcat(token, "=");
	assert_int_equal(csi_token_parse(token, &read), -EINVAL);
	assert_int_equal(csi_token_parse("", &read), 0);
	assert_string_equal(read.after, "");
	assert_string_equal(read.mark, "");
	for (size_t i = 0; i < array_size(bad); i++)
		assert_int_equal(csi_token_parse(bad[i], &read), -EINVAL);
}

static void lets_one_at_a_time_have_a_volume(void **state)
{
	struct volume_locks locks;
	struct volume_lock a = {0}, b = {0}, c = {0};

	(void)state;
	volume_locks_init(&locks);
	assert_null(volume_lock_take(&locks, &a, "x", "CreateVolume"));
	assert_null(volume_lock_take(&locks, &b, "y", "DeleteVolume"));
	assert_string_equal(volume_lock_take(&locks, &c, "x", "DeleteVolume"),
			    "CreateVolume");
	volume_lock_release(&locks, &a);
	assert_null(volume_lock_take(&locks, &c, "x", "DeleteVolume"));
	volume_lock_release(&locks, &b);
	volume_lock_release(&locks, &c);
	volume_locks_done(&locks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_a_good_name_as_it_is),
		cmocka_unit_test(makes_a_good_name_of_any_other),
		cmocka_unit_test(reads_the_ids_it_writes),
		cmocka_unit_test(keeps_inline_volumes_and_others_apart),
		cmocka_unit_test(refuses_ids_of_others),
		cmocka_unit_test(reads_its_own_tokens_only),
		cmocka_unit_test(lets_one_at_a_time_have_a_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
