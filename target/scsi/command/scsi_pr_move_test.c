/* SPDX-License-Identifier: Apache-2.0 */
/* REGISTER AND MOVE */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "target/testkit/scsi_pr_test_kit.h"

/* To initiator @to, with key @new; @flags: UNREG 2, APTPL 1. */
static int move(struct kit_session *s, uint64_t key, uint64_t new,
		uint8_t flags, uint8_t to)
{
	const uint8_t isid[6] = {0x40, 0, 0, 0, 0, to};
	char name[32];
	unsigned n;

	snprintf(name, sizeof(name), "iqn.2026-11.test:initiator-%u", to);
	memset(s->out, 0, 24);
	scsi_put64(s->out, key);
	scsi_put64(s->out + 8, new);
	s->out[17] = flags;
	s->out[19] = 1; /* the target's only port */
	n = scsi_transport_id(name, isid, s->out + 24);
	scsi_put32(s->out + 20, n);
	return KIT_DO(s, 24 + n, 0, SCSI_PERSISTENT_RESERVE_OUT, MOVE, 0, 0, 0,
		      0, 0, 0, (uint8_t)(24 + n), 0);
}

static void moves_a_reservation(void **state)
{
	struct pr_kit *f = *state;

	assert_int_equal(pr_out(f->a, REGISTER, 0, 0, 0xa, 0), 0);
	assert_int_equal(pr_out(f->a, RESERVE, 1, 0xa, 0, 0), 0);
	assert_int_equal(move(f->a, 0xa, 0xb, 0, 2), 0); /* not registered */
	assert_int_equal(pr_write_block(f->a), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_write_block(f->b), 0);
	assert_int_equal(pr_in(f->a, 1), 0);
	assert_int_equal(scsi_be32(f->a->in), 2); /* generation */
	assert_int_equal(scsi_be64(f->a->in + 8), 0xb);
	assert_int_equal(f->a->in[21], 1);
	/* Back, with another key, and b is out of it. */
	assert_int_equal(move(f->b, 0xb, 0xaa, 3, 1), 0);
	assert_int_equal(pr_write_block(f->a), 0);
	assert_int_equal(pr_write_block(f->b), SCSI_RESERVATION_CONFLICT);
	pr_kit_down(f); /* APTPL */
	pr_kit_up(f);
	assert_int_equal(pr_in(f->a, 0), 0);
	assert_int_equal(scsi_be32(f->a->in + 4), 8);
	assert_int_equal(scsi_be64(f->a->in + 8), 0xaa);
	assert_int_equal(pr_write_block(f->b), SCSI_RESERVATION_CONFLICT);
}

static void refuses_a_wrong_move(void **state)
{
	struct pr_kit *f = *state;

	assert_int_equal(move(f->a, 0, 0xb, 0, 2), SCSI_RESERVATION_CONFLICT);
	pr_both_register(f);
	assert_int_equal(move(f->a, 0xa, 0xb, 0, 2), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(pr_out(f->a, RESERVE, 8, 0xa, 0, 0), 0);
	assert_int_equal(move(f->a, 0xa, 0xb, 0, 2), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_out(f->a, RELEASE, 8, 0xa, 0, 0), 0);
	pr_assert_attention(f->b, SCSI_ASC_RELEASED);
	assert_int_equal(pr_out(f->a, RESERVE, 1, 0xa, 0, 0), 0);
	assert_int_equal(move(f->b, 0xb, 0xb, 0, 3), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(move(f->a, 7, 0xb, 0, 2), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(move(f->a, 0xa, 0, 0, 2), SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(f->a), 8);
	assert_int_equal(move(f->a, 0xa, 0xb, 0, 1), SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(f->a), 24); /* to itself */
	memset(f->a->out, 0, 24);
	scsi_put64(f->a->out, 0xa);
	scsi_put64(f->a->out + 8, 0xb);
	f->a->out[19] = 1;
	assert_int_equal(KIT_DO(f->a, 24, 0, SCSI_PERSISTENT_RESERVE_OUT, MOVE,
				0, 0, 0, 0, 0, 0, 24, 0),
			 SCSI_CHECK_CONDITION); /* to nobody */
	assert_int_equal(kit_field(f->a), 24);
	f->a->out[19] = 2;
	assert_int_equal(KIT_DO(f->a, 24, 0, SCSI_PERSISTENT_RESERVE_OUT, MOVE,
				0, 0, 0, 0, 0, 0, 24, 0),
			 SCSI_CHECK_CONDITION); /* no such port */
	assert_int_equal(kit_field(f->a), 18);
	f->a->out[23] = 1;
	assert_int_equal(KIT_DO(f->a, 24, 0, SCSI_PERSISTENT_RESERVE_OUT, MOVE,
				0, 0, 0, 0, 0, 0, 24, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	assert_int_equal(pr_write_block(f->a), 0); /* it is still its own */
	assert_int_equal(pr_write_block(f->b), SCSI_RESERVATION_CONFLICT);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, pr_kit_setup, pr_kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(moves_a_reservation),
		TEST(refuses_a_wrong_move),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
