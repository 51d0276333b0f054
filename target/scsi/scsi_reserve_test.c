/* SPDX-License-Identifier: Apache-2.0 */
/* RESERVE and RELEASE, of a session. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "target/testkit/scsi_pr_test_kit.h"

static void one_session_reserves_until_it_ends(void **state)
{
	struct pr_kit *f = *state;

	assert_int_equal(KIT_DO(f->a, 0, 0, SCSI_RESERVE_6, 0, 0, 0, 0, 0), 0);
	assert_int_equal(pr_read_block(f->a), 0);
	assert_int_equal(pr_read_block(f->b), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(kit_ready(f->b), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(KIT_DO(f->b, 0, 36, SCSI_INQUIRY, 0, 0, 0, 36, 0), 0);
	assert_int_equal(
		KIT_DO(f->b, 0, 0, SCSI_RELEASE_10, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		0);
	assert_int_equal(pr_read_block(f->b), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_out(f->b, REGISTER, 0, 0, 0xb, 0),
			 SCSI_RESERVATION_CONFLICT);
	assert_int_equal(KIT_DO(f->a, 0, 0, SCSI_RELEASE_6, 0, 0, 0, 0, 0), 0);
	assert_int_equal(pr_read_block(f->b), 0);
	assert_int_equal(
		KIT_DO(f->a, 0, 0, SCSI_RESERVE_10, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		0);
	kit_logout(f->a);
	assert_int_equal(pr_read_block(f->b), 0);
	f->a = kit_login(&f->kit, 1);
	assert_int_equal(KIT_DO(f->a, 0, 0, SCSI_RESERVE_6, 0x11, 0, 0, 0, 0),
			 SCSI_CHECK_CONDITION);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, pr_kit_setup, pr_kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_session_reserves_until_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
