/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/export/lun_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define GROUP "iqn.2000-01.org:group"

static int setup(void **state)
{
	*state = lun_table_new();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	lun_table_free(*state);
	return 0;
}

static struct extent_scsi scsi(const char *target, unsigned lun,
			       const char *account)
{
	struct extent_scsi made = {.lun = 99};

	assert_int_equal(extent_scsi_make(target, lun, account, &made, NULL),
			 0);
	return made;
}

static int take(void **state, const char *extent, const char *target,
		unsigned lun, const char *account, struct error *err)
{
	struct extent_scsi wanted = scsi(target, lun, account);

	return lun_table_take(*state, extent, &wanted, err);
}

static void a_lun_is_one_extents(void **state)
{
	struct error err = {0};

	assert_int_equal(take(state, "a", GROUP, 1, NULL, NULL), 0);
	assert_int_equal(take(state, "a", GROUP, 1, NULL, NULL), 0);
	assert_int_equal(take(state, "b", GROUP, 2, NULL, NULL), 0);
	assert_int_equal(take(state, "b", GROUP, 1, NULL, &err), -EEXIST);
	assert_non_null(strstr(err.msg, "LUN 1"));
	assert_non_null(strstr(err.msg, "'a'"));
	assert_int_equal(
		take(state, "c", "iqn.2000-01.ORG:group", 1, NULL, NULL),
		-EEXIST);
	assert_int_equal(
		take(state, "c", "iqn.2000-01.org:other", 1, NULL, NULL), 0);
}

static void the_own_target_of_one_is_no_others(void **state)
{
	struct error err = {0};

	assert_int_equal(take(state, "a", NULL, 0, NULL, NULL), 0);
	assert_int_equal(
		take(state, "b", "iqn.2025-01.io.union:a", 0, NULL, &err),
		-EEXIST);
	assert_non_null(strstr(err.msg, "'a'"));
	assert_int_equal(
		take(state, "b", "iqn.2025-01.io.union:a", 1, NULL, NULL), 0);
}

static void the_luns_of_a_target_have_one_account(void **state)
{
	struct error err = {0};

	assert_int_equal(take(state, "a", GROUP, 0, "staff", NULL), 0);
	assert_int_equal(take(state, "b", GROUP, 1, "guests", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "'staff'"));
	assert_int_equal(take(state, "b", GROUP, 1, "staff", NULL), 0);
}

/* Between the wish and the record, both are its own. */
static void what_is_not_settled_is_kept_from_others(void **state)
{
	struct extent_scsi kept = scsi(GROUP, 2, NULL);

	assert_int_equal(take(state, "a", GROUP, 1, NULL, NULL), 0);
	assert_int_equal(take(state, "a", GROUP, 2, NULL, NULL), 0);
	assert_int_equal(take(state, "b", GROUP, 1, NULL, NULL), -EEXIST);
	assert_int_equal(take(state, "b", GROUP, 2, NULL, NULL), -EEXIST);
	lun_table_settle(*state, "a", &kept);
	assert_int_equal(take(state, "b", GROUP, 1, NULL, NULL), 0);
	assert_int_equal(take(state, "c", GROUP, 2, NULL, NULL), -EEXIST);
	lun_table_settle(*state, "a", NULL);
	assert_int_equal(take(state, "c", GROUP, 2, NULL, NULL), 0);
	lun_table_settle(*state, "nobody", NULL);
}

static void what_cannot_be_is_refused(void **state)
{
	struct extent_scsi kept = scsi(GROUP, 2, "one"), made = kept;
	char name[EXTENT_TARGET_SIZE + 1];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(extent_scsi_make(name, 0, NULL, &made, NULL), -EINVAL);
	assert_int_equal(extent_scsi_make(name + 1, 0, NULL, &made, NULL), 0);
	made = kept;
	assert_int_equal(extent_scsi_make("a b", 0, NULL, &made, NULL),
			 -EINVAL);
	assert_int_equal(extent_scsi_make(GROUP ":7", 0, NULL, &made, NULL),
			 -EINVAL);
	assert_int_equal(extent_scsi_make(GROUP, 256, NULL, &made, NULL),
			 -EINVAL);
	assert_int_equal(extent_scsi_make(NULL, 1, NULL, &made, NULL), -EINVAL);
	assert_int_equal(extent_scsi_make("", 0, "../x", &made, NULL), -EINVAL);
	assert_true(extent_scsi_same(&made, &kept));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(a_lun_is_one_extents),
		TEST(the_own_target_of_one_is_no_others),
		TEST(the_luns_of_a_target_have_one_account),
		TEST(what_is_not_settled_is_kept_from_others),
		TEST(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
