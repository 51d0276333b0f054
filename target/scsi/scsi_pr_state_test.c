/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent reservations over sessions and restarts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

#include "target/testkit/scsi_pr_test_kit.h"

static void a_registration_outlives_its_session(void **state)
{
	struct pr_kit *f = *state;

	pr_both_register(f);
	assert_int_equal(pr_out(f->a, RESERVE, 1, 0xa, 0, 0), 0);
	kit_logout(f->a);
	assert_int_equal(pr_write_block(f->b), SCSI_RESERVATION_CONFLICT);
	f->a = kit_login(&f->kit, 1);
	assert_int_equal(pr_write_block(f->a), 0);
}

static void a_reservation_survives_a_restart_if_told(void **state)
{
	struct pr_kit *f = *state;

	assert_int_equal(pr_out(f->a, REGISTER, 0, 0, 0xa, 1), 0);
	assert_int_equal(pr_out(f->b, REGISTER, 0, 0, 0xb, 1), 0);
	assert_int_equal(pr_out(f->a, RESERVE, 6, 0xa, 0, 0), 0);
	pr_kit_down(f);
	pr_kit_up(f);
	assert_int_equal(pr_in(f->b, 2), 0);
	assert_int_equal(f->b->in[3] & 1, 1); /* PTPL_A */
	assert_int_equal(pr_in(f->b, 1), 0);
	assert_int_equal(scsi_be64(f->b->in + 8), 0xa);
	assert_int_equal(f->b->in[21], 6);
	assert_int_equal(pr_write_block(f->b), 0); /* registered */
	/* Without APTPL in the last REGISTER nothing stays. */
	assert_int_equal(pr_out(f->b, REGISTER, 0, 0xb, 0xb, 0), 0);
	assert_int_equal(access(f->path, F_OK), -1);
	pr_kit_down(f);
	pr_kit_up(f);
	assert_int_equal(pr_in(f->b, 0), 0);
	assert_int_equal(scsi_be32(f->b->in + 4), 0);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, pr_kit_setup, pr_kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_registration_outlives_its_session),
		TEST(a_reservation_survives_a_restart_if_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
