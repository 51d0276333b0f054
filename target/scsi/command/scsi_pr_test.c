/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent reservations: registering, reserving, preempting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "target/testkit/scsi_pr_test_kit.h"

/* ---- registering ---- */

static void registers_with_the_right_key_only(void **state)
{
	struct pr_kit *f = *state;

	assert_int_equal(pr_out(f->a, REGISTER, 0, 7, 0xa, 0),
			 SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_out(f->a, REGISTER, 0, 0, 0, 0), 0);
	pr_both_register(f);
	assert_int_equal(pr_out(f->a, REGISTER, 0, 7, 0xaa, 0),
			 SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_out(f->a, REGISTER, 0, 0xa, 0xaa, 0), 0);
	assert_int_equal(pr_out(f->b, IGNORE, 0, 99, 0xbb, 0), 0);
	assert_int_equal(pr_in(f->a, 0), 0);
	assert_int_equal(scsi_be32(f->a->in), 5); /* generation */
	assert_int_equal(scsi_be32(f->a->in + 4), 16);
	assert_int_equal(scsi_be64(f->a->in + 8), 0xaa);
	assert_int_equal(scsi_be64(f->a->in + 16), 0xbb);
	assert_int_equal(pr_out(f->a, REGISTER, 0, 0xaa, 0, 0), 0);
	assert_int_equal(pr_in(f->a, 0), 0);
	assert_int_equal(scsi_be32(f->a->in + 4), 8);
}

static void refuses_a_wrong_list(void **state)
{
	struct pr_kit *f = *state;

	assert_int_equal(KIT_DO(f->a, 24, 0, SCSI_PERSISTENT_RESERVE_OUT, 0, 0,
				0, 0, 0, 0, 0, 23, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	pr_both_register(f);
	assert_int_equal(pr_out(f->a, RESERVE, 4, 0xa, 0, 0),
			 SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(f->a), 2);
	assert_int_equal(pr_out(f->a, RESERVE, 0x11, 0xa, 0, 0),
			 SCSI_CHECK_CONDITION); /* a scope */
	assert_int_equal(pr_out(f->a, 9, 1, 0xa, 0, 0), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(kit_field(f->a), 1);
	assert_int_equal(pr_out(f->a, RESERVE, 1, 0xa, 0, 8),
			 SCSI_CHECK_CONDITION); /* SPEC_I_PT */
	assert_int_equal(kit_field(f->a), 20);
}

static void registers_others_by_name(void **state)
{
	struct pr_kit *f = *state;
	const uint8_t isid[6] = {0x40, 0, 0, 0, 0, 2};
	uint8_t *list = f->a->out;
	unsigned n;

	memset(list, 0, 512);
	scsi_put64(list + 8, 0xa);
	list[20] = 8; /* SPEC_I_PT */
	n = scsi_transport_id("iqn.2026-11.test:initiator-2", isid, list + 28);
	scsi_put32(list + 24, n);
	assert_int_equal(KIT_DO(f->a, 28 + n, 0, SCSI_PERSISTENT_RESERVE_OUT, 0,
				0, 0, 0, 0, 0, 0, (uint8_t)(28 + n), 0),
			 0);
	assert_int_equal(pr_out(f->b, RESERVE, 1, 0xa, 0, 0), 0);
	assert_int_equal(pr_in(f->a, 3), 0); /* full status */
	assert_int_equal(scsi_be32(f->a->in + 4), f->a->task.in_length - 8);
	assert_int_equal(f->a->in[8 + 12], 0); /* a does not hold it */
	list[28 + 3] ^= 1; /* a length that is not a multiple of 4 */
	assert_int_equal(pr_out(f->a, CLEAR, 0, 0xa, 0, 0), 0);
	memset(list, 0, 24);
	scsi_put64(list + 8, 0xa);
	list[20] = 8;
	assert_int_equal(KIT_DO(f->a, 28 + n, 0, SCSI_PERSISTENT_RESERVE_OUT, 0,
				0, 0, 0, 0, 0, 0, (uint8_t)(28 + n), 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_LIST);
	assert_int_equal(kit_field(f->a), 28);
}

/* ---- rights of each type ---- */

static void every_type_keeps_out_whom_it_says(void **state)
{
	struct pr_kit *f = *state;
	static const struct {
		uint8_t type;
		bool registrant_writes, stranger_reads;
	} types[] = {
		{SCSI_PR_WRITE, false, true},
		{SCSI_PR_ACCESS, false, false},
		{SCSI_PR_WRITE_REGISTRANTS, true, true},
		{SCSI_PR_ACCESS_REGISTRANTS, true, false},
		{SCSI_PR_WRITE_ALL, true, true},
		{SCSI_PR_ACCESS_ALL, true, false},
	};
	struct kit_session *c = kit_login(&f->kit, 3);

	pr_both_register(f);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		int conflict = SCSI_RESERVATION_CONFLICT;

		assert_int_equal(
			pr_out(f->a, RESERVE, types[i].type, 0xa, 0, 0), 0);
		assert_int_equal(pr_write_block(f->a), 0);
		assert_int_equal(pr_write_block(f->b),
				 types[i].registrant_writes ? 0 : conflict);
		assert_int_equal(pr_write_block(c), conflict);
		assert_int_equal(pr_read_block(c),
				 types[i].stranger_reads ? 0 : conflict);
		assert_int_equal(kit_ready(c), 0);
		assert_int_equal(KIT_DO(c, 0, 0, SCSI_RESERVE_6, 0, 0, 0, 0, 0),
				 conflict);
		assert_int_equal(pr_in(c, 1), 0);
		assert_int_equal(c->in[21], types[i].type);
		assert_int_equal(
			pr_out(f->a, RELEASE, types[i].type, 0xa, 0, 0), 0);
		if (scsi_pr_type_registrants(types[i].type))
			pr_assert_attention(f->b, SCSI_ASC_RELEASED);
		assert_int_equal(pr_write_block(c), 0);
	}
	kit_logout(c);
}

static void reserves_once(void **state)
{
	struct pr_kit *f = *state;

	assert_int_equal(pr_out(f->a, RESERVE, 1, 0xa, 0, 0),
			 SCSI_RESERVATION_CONFLICT); /* not registered */
	pr_both_register(f);
	assert_int_equal(pr_out(f->a, RESERVE, 1, 0xa, 0, 0), 0);
	assert_int_equal(pr_out(f->a, RESERVE, 1, 0xa, 0, 0), 0);
	assert_int_equal(pr_out(f->a, RESERVE, 3, 0xa, 0, 0),
			 SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_out(f->b, RESERVE, 1, 0xb, 0, 0),
			 SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_out(f->b, RELEASE, 1, 0xb, 0, 0), 0); /* not its */
	assert_int_equal(pr_out(f->a, RELEASE, 3, 0xa, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_BAD_RELEASE);
	assert_int_equal(pr_out(f->a, REGISTER, 0, 0xa, 0, 0), 0);
	assert_int_equal(pr_in(f->b, 1), 0); /* with its holder it went */
	assert_int_equal(scsi_be32(f->b->in + 4), 0);
}

static void preempts(void **state)
{
	struct pr_kit *f = *state;

	pr_both_register(f);
	assert_int_equal(pr_out(f->a, RESERVE, 1, 0xa, 0, 0), 0);
	assert_int_equal(pr_out(f->b, PREEMPT, 3, 0xb, 0x77, 0),
			 SCSI_RESERVATION_CONFLICT); /* nobody's key */
	assert_int_equal(pr_out(f->b, PREEMPT, 3, 0xb, 0, 0),
			 SCSI_CHECK_CONDITION);
	assert_int_equal(pr_out(f->b, PREEMPT, 3, 0xb, 0xa, 0), 0);
	pr_assert_attention(f->a, SCSI_ASC_UNREGISTERED);
	assert_int_equal(pr_read_block(f->a), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_read_block(f->b), 0);
	assert_int_equal(pr_in(f->b, 1), 0);
	assert_int_equal(scsi_be64(f->b->in + 8), 0xb);
	assert_int_equal(f->b->in[21], 3);
	assert_int_equal(pr_out(f->b, CLEAR, 0, 0xb, 0, 0), 0);
	assert_int_equal(pr_write_block(f->a), 0);
}

static void a_preempted_writer_lands_nothing_afterwards(void **state)
{
	struct pr_kit *f = *state;
	const uint8_t write[] = {SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 0, 1, 0};
	const uint8_t preempt[] = {SCSI_PERSISTENT_RESERVE_OUT,
				   PREEMPT_ABORT,
				   1,
				   0,
				   0,
				   0,
				   0,
				   0,
				   24,
				   0};

	pr_both_register(f);
	assert_int_equal(pr_out(f->a, RESERVE, 1, 0xa, 0, 0), 0);
	atomic_store(&f->kit.hold, true);
	kit_begin(f->a, write, sizeof(write), 512, 0);
	kit_wait_held(&f->kit);
	memset(f->b->out, 0, 24);
	scsi_put64(f->b->out, 0xb);
	scsi_put64(f->b->out + 8, 0xa);
	kit_begin(f->b, preempt, sizeof(preempt), 24, 0);
	kit_call(&f->kit, kit_nothing, NULL);
	assert_false(kit_is_done(f->b)); /* it waits for the write */
	kit_let_go(&f->kit);
	(void)kit_end(f->a);
	assert_true(f->a->task.aborted);
	assert_int_equal(kit_end(f->b), 0);
	pr_assert_attention(f->a, SCSI_ASC_UNREGISTERED);
	assert_int_equal(pr_write_block(f->a), SCSI_RESERVATION_CONFLICT);
}

static void preempts_all_where_all_hold(void **state)
{
	struct pr_kit *f = *state;

	pr_both_register(f);
	assert_int_equal(pr_out(f->a, RESERVE, 8, 0xa, 0, 0), 0);
	assert_int_equal(pr_out(f->b, RESERVE, 8, 0xb, 0, 0),
			 0); /* it holds too */
	assert_int_equal(pr_out(f->b, PREEMPT, 1, 0xb, 0, 0), 0);
	pr_assert_attention(f->a, SCSI_ASC_UNREGISTERED);
	assert_int_equal(pr_write_block(f->a), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_in(f->a, 0), 0);
	assert_int_equal(scsi_be32(f->a->in + 4), 8);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, pr_kit_setup, pr_kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(registers_with_the_right_key_only),
		TEST(refuses_a_wrong_list),
		TEST(registers_others_by_name),
		TEST(every_type_keeps_out_whom_it_says),
		TEST(reserves_once),
		TEST(preempts),
		TEST(a_preempted_writer_lands_nothing_afterwards),
		TEST(preempts_all_where_all_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
