/* SPDX-License-Identifier: Apache-2.0 */
/* Logical block provisioning: its mode page, and what is told by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "target/testkit/scsi_test_kit.h"

#define PAGE_SIZE    24u /* bytes of 1C/02 */
#define THRESHOLD    16  /* its descriptor */
#define CHANGEABLE   0x40
#define ENABLED      0x80
#define LBPERE       0x80
#define ALL_SUBPAGES 0xff

static int setup(void **state)
{
	return kit_pair_open(state,
			     &(struct scsi_unit_options){.block_size = 512,
							 .thin = true,
							 .low_space = 17});
}

static int setup_without(void **state)
{
	return kit_pair_open(state, &(struct scsi_unit_options){
					    .block_size = 512, .thin = true});
}

static int setup_thick(void **state)
{
	return kit_pair_open(state,
			     &(struct scsi_unit_options){.block_size = 512,
							 .low_space = 17});
}

static int sense(struct kit_session *s, uint8_t page, uint8_t sub)
{
	return KIT_DO(s, 0, 255, SCSI_MODE_SENSE_6, 8, page, sub, 255, 0);
}

/* The page that sense() got goes to s->out, behind a header. */
static void take(struct kit_session *s, unsigned length)
{
	assert_int_equal(s->task.in_length, 4 + length);
	memset(s->out, 0, 4);
	memcpy(s->out + 4, s->in + 4, length);
}

static int put(struct kit_session *s, uint8_t length)
{
	return KIT_DO(s, 4u + length, 0, SCSI_MODE_SELECT_6, 0x10, 0, 0,
		      (uint8_t)(4 + length), 0);
}

static void set_enabled(struct kit_session *s, bool enabled)
{
	assert_int_equal(sense(s, 0x1c, 2), 0);
	take(s, PAGE_SIZE);
	s->out[4 + THRESHOLD] = (uint8_t)((s->out[4 + THRESHOLD] & ~ENABLED) |
					  (enabled ? ENABLED : 0));
	assert_int_equal(put(s, PAGE_SIZE), 0);
}

/* How many pages with a subpage there are in the answer, and without one. */
static void count(const struct kit_session *s, unsigned *ret_plain,
		  unsigned *ret_sub)
{
	unsigned at = 4;

	*ret_plain = *ret_sub = 0;
	while (at < s->task.in_length) {
		const uint8_t *page = s->in + at;

		if (page[0] & 0x40) {
			++*ret_sub;
			at += 4u + scsi_be16(page + 2);
		} else {
			++*ret_plain;
			at += 2u + page[1];
		}
	}
	assert_int_equal(at, s->task.in_length);
}

static void says_where_the_threshold_is(void **state)
{
	struct kit_session *s = ((struct kit_pair *)*state)->a;
	const uint8_t head[] = {0x5c, 0x02, 0, 20, 0};
	const uint8_t threshold[] = {0x88, 0x03, 0, 0, 0, 0, 0, 17};

	assert_int_equal(sense(s, 0x1c, 2), 0);
	assert_int_equal(s->task.in_length, 4 + PAGE_SIZE);
	assert_memory_equal(s->in + 4, head, sizeof(head));
	assert_memory_equal(s->in + 4 + THRESHOLD, threshold,
			    sizeof(threshold));
	assert_int_equal(sense(s, CHANGEABLE | 0x1c, 2), 0);
	assert_memory_equal(s->in + 4, head, sizeof(head));
	assert_int_equal(s->in[4 + THRESHOLD], ENABLED);
	assert_int_equal(scsi_be32(s->in + 4 + THRESHOLD + 4), 0);
	/* The threshold is in percent, and told within one. */
	assert_int_equal(KIT_DO(s, 0, 64, SCSI_INQUIRY, 1, 0xb2, 0, 64, 0), 0);
	assert_int_equal(s->in[7], 10);
}

static void lists_subpages_to_who_asks_for_them(void **state)
{
	struct kit_session *s = ((struct kit_pair *)*state)->a;
	unsigned plain, subs;

	assert_int_equal(sense(s, 0x3f, 0), 0);
	count(s, &plain, &subs);
	assert_int_equal(plain, 4);
	assert_int_equal(subs, 0);
	assert_int_equal(sense(s, 0x3f, ALL_SUBPAGES), 0);
	count(s, &plain, &subs);
	assert_int_equal(plain, 4);
	assert_int_equal(subs, 1);
	assert_int_equal(sense(s, 0x1c, ALL_SUBPAGES), 0);
	count(s, &plain, &subs);
	assert_int_equal(plain, 1);
	assert_int_equal(subs, 1);
	assert_int_equal(sense(s, 0x08, ALL_SUBPAGES), 0);
	count(s, &plain, &subs);
	assert_int_equal(plain, 1);
	assert_int_equal(subs, 0);
	assert_int_equal(sense(s, 0x3f, 2), SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(s), 3);
	assert_int_equal(sense(s, 0x1c, 1), SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(s), 3);
	assert_int_equal(sense(s, 0x2b, 0), SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(s), 2);
}

static void tells_everybody_which_threshold_it_was(void **state)
{
	struct kit_pair *f = *state;

	scsi_unit_low_space(f->kit.unit);
	assert_int_equal(kit_ready(f->a), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_UNIT_ATTENTION, SCSI_ASC_LOW_SPACE);
	assert_int_equal(f->a->task.sense[0], 0xf0); /* VALID */
	assert_int_equal(kit_information(f->a), THRESHOLD);
	assert_int_equal(kit_ready(f->a), 0);
	assert_int_equal(kit_ready(f->b), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->b, SCSI_UNIT_ATTENTION, SCSI_ASC_LOW_SPACE);
}

static void tells_nobody_what_is_turned_off(void **state)
{
	struct kit_pair *f = *state;

	set_enabled(f->a, false);
	assert_int_equal(kit_ready(f->b), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->b, SCSI_UNIT_ATTENTION, SCSI_ASC_MODE_CHANGED);
	scsi_unit_low_space(f->kit.unit);
	assert_int_equal(kit_ready(f->a), 0);
	assert_int_equal(kit_ready(f->b), 0);
	set_enabled(f->b, true);
	assert_int_equal(kit_ready(f->a), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_UNIT_ATTENTION, SCSI_ASC_MODE_CHANGED);
	/* All thresholds at once: LBPERE. */
	assert_int_equal(sense(f->a, 0x01, 0), 0);
	assert_int_equal(f->a->in[4 + 7], LBPERE);
	take(f->a, 12);
	f->a->out[4 + 7] = 0;
	assert_int_equal(put(f->a, 12), 0);
	scsi_unit_low_space(f->kit.unit);
	assert_int_equal(kit_ready(f->a), 0);
	assert_int_equal(sense(f->a, 0x01, 0), 0);
	assert_int_equal(f->a->in[4 + 7], 0);
	/* A reset makes it what it was. */
	assert_int_equal(kit_reset(f->a, SCSI_LUN_RESET), 0);
	assert_int_equal(kit_ready(f->a), SCSI_CHECK_CONDITION);
	scsi_unit_low_space(f->kit.unit);
	assert_int_equal(kit_ready(f->a), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_UNIT_ATTENTION, SCSI_ASC_LOW_SPACE);
}

static void assert_refused(struct kit_session *s, uint8_t length, int field)
{
	assert_int_equal(put(s, length), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_LIST);
	assert_int_equal(kit_field(s), field);
}

static void changes_nothing_else_of_the_page(void **state)
{
	struct kit_session *s = ((struct kit_pair *)*state)->a;
	const unsigned fixed[] = {4, 15, THRESHOLD + 1, THRESHOLD + 7};

	for (unsigned i = 0; i < array_size(fixed); i++) {
		assert_int_equal(sense(s, 0x1c, 2), 0);
		take(s, PAGE_SIZE);
		s->out[4 + fixed[i]] ^= 1; /* SITUA is one of them */
		assert_refused(s, PAGE_SIZE, (int)(4 + fixed[i]));
	}
	assert_int_equal(sense(s, 0x1c, 2), 0);
	take(s, PAGE_SIZE);
	s->out[4 + 3]--; /* its length */
	assert_refused(s, PAGE_SIZE, 4 + 2);
	s->out[4 + 3]++;
	s->out[4 + 1] = 3; /* another subpage */
	assert_refused(s, PAGE_SIZE, 4 + 1);
	s->out[4 + 1] = 0; /* which is none */
	assert_refused(s, PAGE_SIZE, 4);
	s->out[4 + 1] = 2;
	for (uint8_t length = 1; length < PAGE_SIZE; length++) {
		assert_int_equal(put(s, length), SCSI_CHECK_CONDITION);
		kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	}
	assert_int_equal(put(s, PAGE_SIZE), 0);
}

static void has_none_where_nothing_runs_short(void **state)
{
	struct kit_pair *f = *state;
	unsigned plain, subs;

	assert_int_equal(sense(f->a, 0x1c, 2), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(sense(f->a, 0x3f, ALL_SUBPAGES), 0);
	count(f->a, &plain, &subs);
	assert_int_equal(plain, 4);
	assert_int_equal(subs, 0);
	memset(f->a->out, 0, 4 + PAGE_SIZE);
	f->a->out[4] = 0x5c;
	f->a->out[5] = 2;
	f->a->out[7] = 20;
	assert_refused(f->a, PAGE_SIZE, 4 + 1);
	assert_int_equal(KIT_DO(f->a, 0, 64, SCSI_INQUIRY, 1, 0xb2, 0, 64, 0),
			 0);
	assert_int_equal(f->a->in[7], 0);
	assert_int_equal(kit_ready(f->b), 0);
}

static void refuses_a_threshold_that_is_no_percentage(void **state)
{
	const struct scsi_unit_options options = {
		.block_size = 512, .size = 512, .thin = true, .low_space = 100};
	struct scsi_unit *unit = NULL;

	(void)state;
	assert_int_equal(scsi_unit_new(&options, &unit, NULL), -EINVAL);
}

#define TEST_OF(name, up) \
	cmocka_unit_test_setup_teardown(name, up, kit_pair_close)
#define TEST(name) TEST_OF(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(says_where_the_threshold_is),
		TEST(lists_subpages_to_who_asks_for_them),
		TEST(tells_everybody_which_threshold_it_was),
		TEST(tells_nobody_what_is_turned_off),
		TEST(changes_nothing_else_of_the_page),
		TEST_OF(has_none_where_nothing_runs_short, setup_without),
		TEST_OF(has_none_where_nothing_runs_short, setup_thick),
		cmocka_unit_test(refuses_a_threshold_that_is_no_percentage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
