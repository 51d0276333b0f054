/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations that were to survive and are lost, and how one gets out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/testkit/scsi_pr_test_kit.h"

#define APTPL     1
#define ALL_TG_PT 4
#define SPEC_I_PT 8

static int inquiry(struct kit_session *s)
{
	return KIT_DO(s, 0, 96, SCSI_INQUIRY, 0, 0, 0, 96, 0);
}

static void assert_lost(struct kit_session *s, int status)
{
	assert_int_equal(status, SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_DATA_PROTECT, SCSI_ASC_PR_LOST);
}

static void flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte = 0;

	assert_return_code(fd, errno);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/* a holds one that survives; then the power goes, and the file is damaged. */
static void lose(struct pr_kit *f)
{
	assert_int_equal(pr_out(f->a, REGISTER, 0, 0, 0xa, APTPL), 0);
	assert_int_equal(pr_out(f->a, RESERVE, 3, 0xa, 0, 0), 0);
	pr_kit_down(f);
	flip(f->path, 20);
	pr_kit_up(f);
}

static void every_damage_is_found(void **state)
{
	struct pr_kit *f = *state;
	const struct scsi_unit_options options = {
		.block_size = 512, .size = 512, .state_path = f->path};
	struct scsi_unit *unit = NULL;
	struct stat st;

	assert_int_equal(pr_out(f->a, REGISTER, 0, 0, 0xa, APTPL), 0);
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(scsi_unit_new(&options, &unit, NULL), 0);
	assert_false(unit->pr.lost);
	for (off_t i = 0; i < st.st_size; i++) {
		flip(f->path, i);
		assert_int_equal(scsi_unit_reload(unit, NULL), 0);
		assert_true(unit->pr.lost);
		assert_true(unit->guarded);
		flip(f->path, i);
	}
	assert_int_equal(truncate(f->path, st.st_size - 1), 0);
	assert_int_equal(scsi_unit_reload(unit, NULL), 0);
	assert_true(unit->pr.lost);
	assert_int_equal(truncate(f->path, 1 << 20), 0);
	assert_int_equal(scsi_unit_reload(unit, NULL), 0);
	assert_true(unit->pr.lost);
	/* An operator who has looked leaves no file at all. */
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(scsi_unit_reload(unit, NULL), 0);
	assert_false(unit->pr.lost);
	assert_false(unit->guarded);
	scsi_unit_unref(unit);
}

static void all_but_a_few_commands_are_refused(void **state)
{
	struct pr_kit *f = *state;
	struct kit_session *a;

	lose(f);
	a = f->a;
	assert_lost(a, pr_read_block(a));
	assert_lost(a, pr_write_block(a));
	assert_lost(a, kit_ready(a));
	assert_lost(a, KIT_DO(a, 0, 8, SCSI_READ_CAPACITY_10, 0, 0, 0, 0, 0, 0,
			      0, 0, 0));
	assert_lost(a, KIT_DO(a, 0, 0, SCSI_RESERVE_6, 0, 0, 0, 0, 0));
	assert_lost(a, KIT_DO(a, 0, 0, SCSI_START_STOP_UNIT, 0, 0, 0, 0, 0));
	/* Not even what is wrong with them is told. */
	assert_lost(a, KIT_DO(a, 0, 512, SCSI_READ_10, 0, 0xff, 0, 0, 0, 0, 0,
			      1, 0));
	for (uint8_t action = 0; action < 4; action++)
		assert_lost(a, pr_in(a, action));
	for (unsigned action = REGISTER; action < MOVE; action++)
		assert_lost(a, pr_out(a, (uint8_t)action, 3, 0, 0xa, 0));
	assert_lost(f->b, pr_write_block(f->b));
	/* SPC-4 5.13.5.2 */
	assert_int_equal(inquiry(a), 0);
	assert_int_equal(KIT_DO(a, 0, 18, SCSI_REQUEST_SENSE, 0, 0, 0, 18, 0),
			 0);
	assert_int_equal(KIT_DO(a, 0, 64, SCSI_REPORT_LUNS, 0, 0, 0, 0, 0, 0, 0,
				0, 64, 0, 0),
			 0);
	assert_int_equal(KIT_DO(a, 0, 64, SCSI_MAINTENANCE_IN, 0x0a, 0, 0, 0, 0,
				0, 0, 0, 64, 0, 0),
			 0);
	assert_lost(a, KIT_DO(a, 0, 64, SCSI_MAINTENANCE_IN, 0x0c, 0, 0, 0, 0,
			      0, 0, 0, 64, 0, 0));
	assert_int_equal(KIT_DO(a, 0, 0, SCSI_START_STOP_UNIT, 0, 0, 0, 1, 0),
			 0);
	assert_int_equal(KIT_DO(a, 0, 0, 0xff, 0, 0, 0, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);
}

static void an_initiator_replaces_what_is_lost(void **state)
{
	struct pr_kit *f = *state;

	lose(f);
	assert_int_equal(pr_out(f->b, REPLACE_LOST, 1, 0, 0xb0, APTPL), 0);
	assert_int_equal(pr_in(f->a, 3), 0);
	assert_int_equal(scsi_be32(f->a->in), 0); /* the generation */
	assert_int_equal(scsi_be64(f->a->in + 8), 0xb0);
	assert_int_equal(f->a->in[8 + 12], 1);
	assert_int_equal(f->a->in[8 + 13], 1);
	assert_int_equal(pr_write_block(f->b), 0);
	assert_int_equal(pr_write_block(f->a), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_read_block(f->a), 0);
	/* The reservation is kept, too. */
	pr_kit_down(f);
	pr_kit_up(f);
	assert_int_equal(pr_write_block(f->a), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(pr_write_block(f->b), 0);
}

static void what_is_not_to_be_kept_leaves_no_file(void **state)
{
	struct pr_kit *f = *state;

	lose(f);
	assert_int_equal(pr_out(f->a, REPLACE_LOST, 8, 0, 0xa, 0), 0);
	assert_int_equal(pr_write_block(f->b), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(access(f->path, F_OK), -1);
	pr_kit_down(f);
	pr_kit_up(f);
	assert_int_equal(pr_write_block(f->b), 0);
}

static void a_replacement_says_what_it_has_to(void **state)
{
	struct pr_kit *f = *state;
	struct kit_session *a;

	/* Nothing is lost. */
	assert_int_equal(pr_out(f->a, REPLACE_LOST, 1, 0, 0xa, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_BAD_RELEASE);
	assert_int_equal(pr_in(f->a, 2), 0);
	assert_int_equal(f->a->in[2] & 0x80, 0x80); /* RLR_C */
	lose(f);
	a = f->a;
	assert_int_equal(pr_out(a, REPLACE_LOST, 1, 0xa, 0xa, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_LIST);
	assert_int_equal(kit_field(a), 0);
	assert_int_equal(pr_out(a, REPLACE_LOST, 1, 0, 0, 0),
			 SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(a), 8);
	assert_int_equal(pr_out(a, REPLACE_LOST, 1, 0, 0xa, ALL_TG_PT),
			 SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(a), 20);
	assert_int_equal(pr_out(a, REPLACE_LOST, 1, 0, 0xa, SPEC_I_PT),
			 SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(a), 20);
	assert_int_equal(pr_out(a, REPLACE_LOST, 2, 0, 0xa, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_lost(a, pr_read_block(a));
}

/* The file can't be replaced: it is as lost as it was. */
static void a_replacement_that_is_not_saved_is_none(void **state)
{
	struct pr_kit *f = *state;
	char *path;

	lose(f);
	path = f->kit.unit->state_path;
	f->kit.unit->state_path = strdup("/dev/null/nowhere");
	assert_int_equal(pr_out(f->a, REPLACE_LOST, 3, 0, 0xa, APTPL),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_HARDWARE_ERROR, SCSI_ASC_INTERNAL);
	assert_lost(f->a, pr_read_block(f->a));
	free(f->kit.unit->state_path);
	f->kit.unit->state_path = path;
	assert_int_equal(pr_out(f->b, REPLACE_LOST, 3, 0, 0xb, APTPL), 0);
	assert_int_equal(pr_read_block(f->b), 0);
	assert_int_equal(pr_read_block(f->a), SCSI_RESERVATION_CONFLICT);
	assert_int_equal(f->kit.unit->pr.count, 1);
}

/* Both were told of the loss; one of them is to have the unit. */
static void who_replaces_is_not_replaced_while_that_is_saved(void **state)
{
	static const uint8_t cdb[10] = {SCSI_PERSISTENT_RESERVE_OUT,
					REPLACE_LOST, 3, [8] = 24};
	struct pr_kit *f = *state;

	lose(f);
	memset(f->a->out, 0, 24);
	scsi_put64(f->a->out + 8, 0xa);
	f->a->out[20] = APTPL;
	kit_begin(f->a, cdb, sizeof(cdb), 24, 0);
	assert_int_not_equal(pr_out(f->b, REPLACE_LOST, 3, 0, 0xb, APTPL), 0);
	assert_int_equal(kit_end(f->a), 0);
	assert_int_equal(pr_write_block(f->a), 0);
	assert_int_equal(pr_write_block(f->b), SCSI_RESERVATION_CONFLICT);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, pr_kit_setup, pr_kit_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_damage_is_found),
		TEST(all_but_a_few_commands_are_refused),
		TEST(an_initiator_replaces_what_is_lost),
		TEST(what_is_not_to_be_kept_leaves_no_file),
		TEST(a_replacement_says_what_it_has_to),
		TEST(a_replacement_that_is_not_saved_is_none),
		TEST(who_replaces_is_not_replaced_while_that_is_saved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
