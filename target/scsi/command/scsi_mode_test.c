/* SPDX-License-Identifier: Apache-2.0 */
/* Mode pages, removable media, and what is said to be supported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "target/testkit/scsi_test_kit.h"

static int setup(void **state)
{
	return kit_pair_open(state, NULL);
}

static int setup_read_only(void **state)
{
	return kit_pair_open(state,
			     &(struct scsi_unit_options){.block_size = 4096,
							 .read_only = true});
}

static int setup_removable(void **state)
{
	return kit_pair_open(state,
			     &(struct scsi_unit_options){.block_size = 512,
							 .removable = true});
}

static int sense_6(struct kit_session *s, uint8_t page)
{
	return KIT_DO(s, 0, 255, SCSI_MODE_SENSE_6, 8, page, 0, 255, 0);
}

/* The control page as it is goes to s->out, behind a header. */
static void get_control(struct kit_session *s)
{
	assert_int_equal(sense_6(s, 0x0a), 0);
	assert_int_equal(s->task.in_length, 4 + 12);
	memset(s->out, 0, 4);
	memcpy(s->out + 4, s->in + 4, 12);
}

static int put_control(struct kit_session *s)
{
	return KIT_DO(s, 16, 0, SCSI_MODE_SELECT_6, 0x10, 0, 0, 16, 0);
}

static int write_block(struct kit_session *s)
{
	return KIT_DO(s, 512, 0, SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 0, 1, 0);
}

static void senses_all_pages(void **state)
{
	struct kit_session *s = ((struct kit_pair *)*state)->a;
	unsigned at = 4 + 8, n = 0;

	assert_int_equal(
		KIT_DO(s, 0, 255, SCSI_MODE_SENSE_6, 0, 0x3f, 0, 255, 0), 0);
	assert_int_equal(s->in[0], s->task.in_length - 1);
	assert_int_equal(s->in[3], 8);
	assert_int_equal(scsi_be32(s->in + 4), KIT_BLOCKS);
	assert_int_equal(scsi_be24(s->in + 9), 512);
	for (; at < s->task.in_length; at += 2u + s->in[at + 1])
		n++;
	assert_int_equal(at, s->task.in_length);
	assert_int_equal(n, 4);
	assert_int_equal(KIT_DO(s, 0, 255, SCSI_MODE_SENSE_10, 0x10, 0x08, 0, 0,
				0, 0, 0, 255, 0),
			 0);
	assert_int_equal(scsi_be16(s->in), s->task.in_length - 2);
	assert_int_equal(s->in[4], 1); /* LONGLBA */
	assert_int_equal(scsi_be64(s->in + 8), KIT_BLOCKS);
	assert_int_equal(sense_6(s, 0xc8), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_SAVING);
	assert_int_equal(sense_6(s, 0x2b), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(kit_field(s), 2);
}

static void changes_only_what_is_changeable(void **state)
{
	struct kit_session *s = ((struct kit_pair *)*state)->a;

	get_control(s);
	s->out[4 + 3] ^= 0x20;
	assert_int_equal(put_control(s), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_LIST);
	assert_int_equal(kit_field(s), 4 + 3);
	get_control(s);
	s->out[3] = 7; /* a block descriptor of 7 bytes */
	assert_int_equal(put_control(s), SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(s), 3);
	get_control(s);
	assert_int_equal(
		KIT_DO(s, 15, 0, SCSI_MODE_SELECT_6, 0x10, 0, 0, 15, 0),
		SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	assert_int_equal(
		KIT_DO(s, 16, 0, SCSI_MODE_SELECT_6, 0x11, 0, 0, 16, 0),
		SCSI_CHECK_CONDITION); /* SP */
	assert_int_equal(kit_field(s), 1);
	assert_int_equal(KIT_DO(s, 0, 0, SCSI_MODE_SELECT_6, 0x10, 0, 0, 0, 0),
			 0);
}

static void tells_others_of_a_write_protect(void **state)
{
	struct kit_pair *f = *state;

	get_control(f->a);
	f->a->out[4 + 4] = 0x08; /* SWP */
	assert_int_equal(put_control(f->a), 0);
	assert_int_equal(kit_ready(f->a), 0);
	assert_int_equal(kit_ready(f->b), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->b, SCSI_UNIT_ATTENTION, SCSI_ASC_MODE_CHANGED);
	assert_int_equal(write_block(f->b), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->b, SCSI_DATA_PROTECT, SCSI_ASC_SOFTWARE_PROTECTED);
	assert_int_equal(sense_6(f->b, 0x0a), 0);
	assert_int_equal(f->b->in[2] & 0x80, 0x80); /* WP */
	get_control(f->a);
	f->a->out[4 + 4] = 0;
	assert_int_equal(put_control(f->a), 0);
	assert_int_equal(kit_ready(f->b), SCSI_CHECK_CONDITION);
	assert_int_equal(write_block(f->b), 0);
}

static void speaks_in_descriptors_when_told(void **state)
{
	struct kit_pair *f = *state;

	get_control(f->a);
	f->a->out[4 + 2] |= 0x04; /* D_SENSE */
	assert_int_equal(put_control(f->a), 0);
	assert_int_equal(KIT_DO(f->a, 0, 512, SCSI_READ_10, 0, 0x7f, 0, 0, 0, 0,
				0, 1, 0),
			 SCSI_CHECK_CONDITION);
	assert_int_equal(f->a->task.sense[0], 0x72);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA_RANGE);
	assert_int_equal(f->a->task.sense_length, 8 + f->a->task.sense[7]);
	assert_int_equal(scsi_be64(f->a->task.sense + 12), 0x7f000000);
}

static void writes_through_without_a_cache(void **state)
{
	struct kit_pair *f = *state;

	assert_int_equal(write_block(f->a), 0);
	assert_int_equal(f->kit.fua_writes, 0);
	assert_int_equal(sense_6(f->a, 0x08), 0);
	memset(f->a->out, 0, 4);
	memcpy(f->a->out + 4, f->a->in + 4, 20);
	f->a->out[4 + 2] = 0; /* WCE */
	assert_int_equal(KIT_DO(f->a, 24, 0, SCSI_MODE_SELECT_10, 0x10, 0, 0, 0,
				0, 0, 0, 28, 0),
			 SCSI_CHECK_CONDITION); /* not as long as it says */
	assert_int_equal(
		KIT_DO(f->a, 24, 0, SCSI_MODE_SELECT_6, 0x10, 0, 0, 24, 0), 0);
	assert_int_equal(write_block(f->a), 0);
	assert_int_equal(f->kit.fua_writes, 1);
	assert_int_equal(kit_reset(f->a, SCSI_LUN_RESET), 0);
	assert_int_equal(kit_ready(f->a), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_UNIT_ATTENTION, SCSI_ASC_RESET);
	assert_int_equal(write_block(f->a), 0);
	assert_int_equal(f->kit.fua_writes, 1); /* back to what it was */
}

static void writes_nothing_where_it_may_not(void **state)
{
	struct kit_pair *f = *state;

	assert_int_equal(
		KIT_DO(f->a, 4096, 0, SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 0, 1, 0),
		SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_DATA_PROTECT, SCSI_ASC_WRITE_PROTECTED);
	assert_int_equal(f->a->task.out_length, 0);
	assert_int_equal(KIT_DO(f->a, 4096, 0, SCSI_WRITE_SAME_16, 0, 0, 0, 0,
				0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_DATA_PROTECT, SCSI_ASC_WRITE_PROTECTED);
	assert_int_equal(
		KIT_DO(f->a, 0, 4096, SCSI_READ_10, 0, 0, 0, 0, 0, 0, 0, 1, 0),
		0);
	assert_int_equal(f->kit.operations, 1);
	/* The unit is not thin: there is no UNMAP. */
	assert_int_equal(
		KIT_DO(f->a, 24, 0, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 0, 24, 0),
		SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);
}

/* ---- media ---- */

static int start_stop(struct kit_session *s, uint8_t what)
{
	return KIT_DO(s, 0, 0, SCSI_START_STOP_UNIT, 0, 0, 0, what, 0);
}

static int prevent(struct kit_session *s, uint8_t how)
{
	return KIT_DO(s, 0, 0, SCSI_PREVENT_ALLOW, 0, 0, 0, how, 0);
}

static void ejects_and_loads(void **state)
{
	struct kit_pair *f = *state;

	assert_int_equal(start_stop(f->a, 0), 0); /* a stop ejects nothing */
	assert_int_equal(f->kit.flushes, 1);
	assert_int_equal(start_stop(f->a, 0x22), 0); /* nor does idle */
	assert_int_equal(kit_ready(f->a), 0);
	assert_int_equal(start_stop(f->a, 2), 0);
	assert_int_equal(kit_ready(f->b), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->b, SCSI_NOT_READY, SCSI_ASC_NO_MEDIUM);
	assert_int_equal(write_block(f->a), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_NOT_READY, SCSI_ASC_NO_MEDIUM);
	assert_int_equal(KIT_DO(f->a, 0, 8, SCSI_READ_CAPACITY_10, 0, 0, 0, 0,
				0, 0, 0, 0, 0),
			 SCSI_CHECK_CONDITION);
	assert_int_equal(start_stop(f->a, 3), 0);
	assert_int_equal(kit_ready(f->a), 0);
	assert_int_equal(kit_ready(f->b), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->b, SCSI_UNIT_ATTENTION, SCSI_ASC_MEDIUM_CHANGED);
	assert_int_equal(write_block(f->b), 0);
}

static void keeps_a_medium_that_somebody_needs(void **state)
{
	struct kit_pair *f = *state;

	assert_int_equal(prevent(f->b, 1), 0);
	assert_int_equal(start_stop(f->a, 2), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_PREVENTED);
	kit_logout(f->b); /* with the session it is over */
	assert_int_equal(start_stop(f->a, 2), 0);
	assert_int_equal(start_stop(f->a, 3), 0);
	f->b = kit_login(&f->kit, 2);
	assert_int_equal(prevent(f->b, 1), 0);
	assert_int_equal(kit_reset(f->a, SCSI_TARGET_RESET), 0);
	assert_int_equal(kit_ready(f->a), SCSI_CHECK_CONDITION);
	assert_int_equal(start_stop(f->a, 2), 0);
	assert_int_equal(prevent(f->a, 2), SCSI_CHECK_CONDITION);
}

static void ejects_no_fixed_disk(void **state)
{
	struct kit_pair *f = *state;

	assert_int_equal(start_stop(f->a, 2), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(kit_field(f->a), 4);
}

/* ---- what is supported ---- */

static int supported(struct kit_session *s, uint8_t how, uint8_t opcode,
		     uint8_t action)
{
	return KIT_DO(s, 0, 65535, SCSI_MAINTENANCE_IN, 0x0c, how, opcode, 0,
		      action, 0, 0, 0xff, 0xff, 0, 0);
}

static void supports_what_it_says(void **state)
{
	struct kit_session *s = ((struct kit_pair *)*state)->a;
	static uint8_t all[4096];
	size_t length;

	assert_int_equal(supported(s, 0, 0, 0), 0);
	length = s->task.in_length;
	assert_true(length > 4 + 40 * 8 && length <= sizeof(all));
	assert_int_equal(scsi_be32(s->in), length - 4);
	memcpy(all, s->in, length);
	for (size_t at = 4; at < length; at += 8) {
		bool acts = all[at + 5] & 1;

		assert_int_equal(
			supported(s, acts ? 2 : 1, all[at], all[at + 3]), 0);
		assert_int_equal(s->in[1], 3);
		assert_int_equal(scsi_be16(s->in + 2), scsi_be16(all + at + 6));
		assert_int_equal(s->in[4], all[at]);
		assert_int_equal(
			supported(s, acts ? 1 : 2, all[at], all[at + 3]),
			SCSI_CHECK_CONDITION);
	}
	assert_int_equal(supported(s, 1, 0xd7, 0), 0);
	assert_int_equal(s->in[1], 1);
	assert_int_equal(supported(s, 0x81, SCSI_READ_10, 0), 0); /* RCTD */
	assert_int_equal(s->task.in_length, 4 + 10 + 12);
}

static void reports_one_port_that_is_active(void **state)
{
	struct kit_session *s = ((struct kit_pair *)*state)->a;

	assert_int_equal(KIT_DO(s, 0, 255, SCSI_MAINTENANCE_IN, 0x0a, 0, 0, 0,
				0, 0, 0, 0, 255, 0, 0),
			 0);
	assert_int_equal(scsi_be32(s->in), s->task.in_length - 4);
	assert_int_equal(s->in[4] & 0x0f, 0);
	assert_int_equal(KIT_DO(s, 0, 255, SCSI_MAINTENANCE_IN, 0x0d, 0, 0, 0,
				0, 0, 0, 0, 255, 0, 0),
			 0);
	assert_int_equal(s->task.in_length, 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, kit_pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(senses_all_pages),
		TEST(changes_only_what_is_changeable),
		TEST(tells_others_of_a_write_protect),
		TEST(speaks_in_descriptors_when_told),
		TEST(writes_through_without_a_cache),
		cmocka_unit_test_setup_teardown(writes_nothing_where_it_may_not,
						setup_read_only,
						kit_pair_close),
		cmocka_unit_test_setup_teardown(
			ejects_and_loads, setup_removable, kit_pair_close),
		cmocka_unit_test_setup_teardown(
			keeps_a_medium_that_somebody_needs, setup_removable,
			kit_pair_close),
		TEST(ejects_no_fixed_disk),
		TEST(supports_what_it_says),
		TEST(reports_one_port_that_is_active),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
