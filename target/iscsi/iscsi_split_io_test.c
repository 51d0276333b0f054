/* SPDX-License-Identifier: Apache-2.0 */
/* Large commands in parts: before a device that takes its time, or fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/wire/crc32c.h"
#include "target/scsi/scsi_defs.h"
#include "target/target.h"
#include "target/testkit/initiator_kit.h"
#include "target/testkit/slow_disk_kit.h"
#include "target/testkit/target_test_kit.h"

/* ---- the server ---- */

struct fixture {
	struct target *target;
	char dir[32];
	char address[64]; /* "unix:PATH" */
	uint8_t data[INITIATOR_LARGE], back[INITIATOR_LARGE];
	struct initiator client, other;
};

static void release(void *context)
{
	(void)context;
}

static int export_set(struct target *target, uint64_t epoch, struct error *err)
{
	static const char *const initiators[] = {"unix"};
	struct target_scsi scsi = {.uuid = {1},
				   .size = SLOW_DISK_SIZE,
				   .block_size = INITIATOR_BLOCK};
	struct target_export export = {
		.name = "x",
		.epoch = epoch,
		.initiators = initiators,
		.n_initiators = 1,
		.scsi = &scsi,
		.open = slow_disk_open,
		.release = release,
	};

	return target_export_set(target, &export, err);
}

static int setup(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	struct target_options options = {.loops = 1, .max_connections = 8};
	struct error err = {0};

	slow_disk_reset();
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/parts-test.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->address, sizeof(f->address), "unix:%.31s/s", f->dir);
	for (size_t i = 0; i < sizeof(f->data); i++)
		f->data[i] = (uint8_t)(i * 31 + i / 4096);
	slow_disk_fill(f->data, INITIATOR_LARGE);
	memset(f->back, 0, sizeof(f->back));
	if (target_new(&options, &f->target, &err) < 0 ||
	    target_listen_iscsi(f->target, f->address, NULL, &err) < 0 ||
	    export_set(f->target, 1, &err) < 0) {
		print_error("%s\n", err.msg);
		return -1;
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	slow_disk.held = UINT_MAX; /* a test may have failed */
	target_free(f->target);
	assert_int_equal(slow_disk.open, 0);
	assert_int_equal(slow_disk.in_flight, 0);
	return rmdir(f->dir);
}

#define LOGIN                     \
	"InitiatorName=iqn.a:b\0" \
	"TargetName=" TARGET_ISCSI_PREFIX ":x:1\0"

/* Past what the first large command teaches the server of the device. */
static void learn(struct fixture *f, struct initiator *c)
{
	assert_int_equal(initiator_be_ready(c), 2); /* power on */
	assert_int_equal(initiator_be_ready(c), 0);
	initiator_say(c, SCSI_READ_16, INITIATOR_READS | INITIATOR_SIMPLE,
		      INITIATOR_PART, 0);
	if (!initiator_get_data(c, f->back, 0, INITIATOR_PART))
		assert_int_equal(initiator_get_status(c), 0);
	memset(f->back, 0, sizeof(f->back));
	slow_disk.operations = slow_disk.largest = 0;
}

static struct initiator *log_in(struct fixture *f, struct initiator *c,
				bool digest)
{
	static const char plain[] = LOGIN,
			  checked[] = LOGIN "DataDigest=CRC32C\0";

	c->fd = client_dial(f->address);
	if (digest)
		initiator_login(c, checked, sizeof(checked) - 1, 1);
	else
		initiator_login(c, plain, sizeof(plain) - 1,
				c == &f->client ? 2 : 3);
	c->digest = digest;
	learn(f, c);
	return c;
}

static struct initiator *connect_to(struct fixture *f)
{
	return log_in(f, &f->client, false);
}

/* CHECK CONDITION, and what was moved before. @key: of fixed format sense */
static void fails_at(struct initiator *c, uint8_t key, uint32_t moved)
{
	be32 lba;

	assert_int_equal(initiator_get_status(c), 2);
	assert_int_equal(c->data[2 + 2] & 15, key);
	memcpy(&lba, c->data + 2 + 3, sizeof(lba));
	assert_int_equal(be32_get(lba), moved / INITIATOR_BLOCK);
	assert_int_equal(c->bhs.flags & 6, 2); /* underflow */
	assert_int_equal(initiator_word(c, ISCSI_WORD_LENGTH),
			 INITIATOR_LARGE - moved);
}

/* ---- tests ---- */

static void a_large_write_is_written_in_parts(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);

	slow_disk_fill(NULL, INITIATOR_LARGE);
	initiator_say_write(c);
	for (unsigned i = 0; i < INITIATOR_LARGE / INITIATOR_PART; i++)
		initiator_give(c, f->data, 0);
	assert_int_equal(initiator_get_status(c), 0);
	assert_int_equal(c->bhs.flags & 6, 0); /* no residual */
	assert_int_equal(slow_disk.operations,
			 INITIATOR_LARGE / INITIATOR_PART);
	assert_int_equal(slow_disk.largest, INITIATOR_PART);
	slow_disk_check(f->data, INITIATOR_LARGE);
	fd_close(c->fd);
}

static void a_part_is_written_while_the_rest_is_awaited(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);

	initiator_say_write(c);
	initiator_give(c, f->data, 0);
	slow_disk_await(1);
	initiator_give(c, f->data, 0);
	slow_disk_await(2);
	initiator_give(c, f->data, 0);
	initiator_give(c, f->data, 0);
	assert_int_equal(initiator_get_status(c), 0);
	fd_close(c->fd);
}

static void with_fua_and_in_order_it_stays_whole(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);

	initiator_say(c, SCSI_WRITE_16, INITIATOR_WRITES | INITIATOR_SIMPLE,
		      INITIATOR_LARGE, 0x08);
	for (unsigned i = 0; i < INITIATOR_LARGE / INITIATOR_PART; i++)
		initiator_give(c, f->data, 0);
	assert_int_equal(initiator_get_status(c), 0);
	assert_int_equal(slow_disk.operations, 1);
	assert_int_equal(slow_disk.flags, BLOCKDEV_FUA);
	initiator_say(c, SCSI_READ_16, INITIATOR_READS | INITIATOR_ORDERED,
		      INITIATOR_LARGE, 0);
	assert_true(initiator_get_data(c, f->back, 0, INITIATOR_LARGE));
	assert_int_equal(slow_disk.operations, 2);
	fd_close(c->fd);
}

static void the_first_of_a_read_comes_before_the_last_is_read(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);

	slow_disk.held = INITIATOR_PART;
	initiator_say_read(c);
	assert_false(initiator_get_data(c, f->back, 0, INITIATOR_PART));
	assert_memory_equal(f->back, f->data, INITIATOR_PART);
	slow_disk.held = UINT_MAX;
	assert_true(initiator_get_data(c, f->back, INITIATOR_PART,
				       INITIATOR_LARGE));
	assert_memory_equal(f->back, f->data, INITIATOR_LARGE);
	assert_int_equal(slow_disk.operations,
			 INITIATOR_LARGE / INITIATOR_PART);
	assert_int_equal(initiator_be_ready(c), 0);
	fd_close(c->fd);
}

static void with_digests_it_is_the_same(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = log_in(f, &f->client, true);

	slow_disk.held = 2 * INITIATOR_PART;
	initiator_say_read(c);
	assert_false(initiator_get_data(c, f->back, 0, 2 * INITIATOR_PART));
	slow_disk.held = UINT_MAX;
	assert_true(initiator_get_data(c, f->back, 2 * INITIATOR_PART,
				       INITIATOR_LARGE));
	assert_memory_equal(f->back, f->data, INITIATOR_LARGE);
	slow_disk_fill(NULL, INITIATOR_LARGE);
	initiator_say_write(c);
	for (unsigned i = 0; i < INITIATOR_LARGE / INITIATOR_PART; i++)
		initiator_give(c, f->data, 0);
	assert_int_equal(initiator_get_status(c), 0);
	slow_disk_check(f->data, INITIATOR_LARGE);
	fd_close(c->fd);
}

/* All that is asked for has to come, and nothing of the wrong is written. */
static void a_wrong_digest_fails_the_command_and_its_part_is_not_written(
	void **state)
{
	struct fixture *f = *state;
	struct initiator *c = log_in(f, &f->client, true);

	slow_disk_fill(NULL, INITIATOR_LARGE);
	initiator_say_write(c);
	initiator_give(c, f->data, 0);
	initiator_give(c, f->data, 1);
	initiator_get_pdu(c, ISCSI_REJECT);
	assert_int_equal(initiator_get_status(c), 2);
	assert_int_equal(c->data[2 + 2] & 15, 0x0b); /* ABORTED COMMAND */
	assert_int_equal(c->data[2 + 12], 0x47);     /* RFC 7143 11.4.7.2 */
	assert_int_equal(slow_disk.operations, 1);
	slow_disk_check(f->data, INITIATOR_PART);
	assert_int_equal(slow_disk.in_flight, 0);
	assert_int_equal(initiator_be_ready(c), 0);
	fd_close(c->fd);
}

/* How long the server takes is not known: too short a wait proves less. */
static void what_has_no_digest_yet_is_not_written_when_another_part_ends(
	void **state)
{
	struct fixture *f = *state;
	struct initiator *c = log_in(f, &f->client, true);
	le32 wrong = le32_make(
		crc32c(0, f->data + INITIATOR_PART, INITIATOR_PART) ^ 1);

	slow_disk_fill(NULL, INITIATOR_LARGE);
	slow_disk.held = 0;
	initiator_say_write(c);
	initiator_give(c, f->data, 0);
	slow_disk_await(1);
	c->digest = false;
	initiator_give(c, f->data, 0);
	c->digest = true;
	(void)usleep(50000); /* it has come */
	slow_disk.held = UINT_MAX;
	(void)usleep(50000); /* the first part has ended */
	client_put(c->fd, &wrong, sizeof(wrong));
	initiator_get_pdu(c, ISCSI_REJECT);
	assert_int_equal(initiator_get_status(c), 2);
	assert_int_equal(slow_disk.operations, 1);
	fd_close(c->fd);
}

static void a_part_that_can_not_be_read_ends_the_data(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);

	slow_disk.bad = 2 * INITIATOR_PART;
	initiator_say_read(c);
	assert_false(initiator_get_data(c, f->back, 0, 2 * INITIATOR_PART));
	assert_memory_equal(f->back, f->data, 2 * INITIATOR_PART);
	fails_at(c, SCSI_MEDIUM_ERROR, 2 * INITIATOR_PART);
	assert_int_equal(initiator_be_ready(c), 0);
	slow_disk.bad = 0;
	initiator_say_read(c);
	fails_at(c, SCSI_MEDIUM_ERROR, 0);
	fd_close(c->fd);
}

static void a_part_that_can_not_be_written_is_told_when_all_has_come(
	void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);

	slow_disk.bad = INITIATOR_PART;
	initiator_say_write(c);
	for (unsigned i = 0; i < INITIATOR_LARGE / INITIATOR_PART; i++)
		initiator_give(c, f->data, 0);
	fails_at(c, SCSI_MEDIUM_ERROR, INITIATOR_PART);
	slow_disk.bad = UINT_MAX;
	initiator_say_write(c);
	for (unsigned i = 0; i < INITIATOR_LARGE / INITIATOR_PART; i++)
		initiator_give(c, f->data, 0);
	assert_int_equal(initiator_get_status(c), 0);
	fd_close(c->fd);
}

static void an_aborted_read_sends_no_more(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);

	slow_disk.held = INITIATOR_PART;
	initiator_say_read(c);
	assert_false(initiator_get_data(c, f->back, 0, INITIATOR_PART));
	initiator_say_abort(c);
	initiator_say(c, 0, 0x80 | INITIATOR_SIMPLE, 0, 0);
	assert_int_equal(initiator_get_status(c),
			 0); /* the abort has been seen */
	slow_disk.held = UINT_MAX;
	initiator_get_task_response(c);
	assert_int_equal(slow_disk.in_flight, 0);
	initiator_say_read(c);
	assert_true(initiator_get_data(c, f->back, 0, INITIATOR_LARGE));
	fd_close(c->fd);
}

/* Nothing of it reaches the device after the answer to the abort. */
static void an_aborted_write_ends_before_that_is_answered(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);

	slow_disk.held = 0;
	initiator_say_write(c);
	initiator_give(c, f->data, 0);
	slow_disk_await(1);
	initiator_get_pdu(c, ISCSI_R2T);
	initiator_say_abort(c);
	initiator_say(c, 0, 0x80 | INITIATOR_SIMPLE, 0, 0);
	assert_int_equal(initiator_get_status(c), 0);
	assert_int_equal(slow_disk.in_flight, 1);
	slow_disk.held = UINT_MAX;
	initiator_get_task_response(c);
	assert_int_equal(slow_disk.in_flight, 0);
	assert_int_equal(slow_disk.operations, 1);
	assert_int_equal(initiator_be_ready(c), 0);
	fd_close(c->fd);
}

/* Of one initiator by another. */
static void a_reset_waits_for_the_parts_and_lets_none_follow(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);
	struct initiator *other = log_in(f, &f->other, false);

	slow_disk.held = 0;
	initiator_say_write(c);
	initiator_give(c, f->data, 0);
	slow_disk_await(1);
	initiator_say_reset(other);
	slow_disk.held = UINT_MAX;
	initiator_get_task_response(other);
	assert_int_equal(slow_disk.in_flight, 0);
	for (unsigned i = 1; i < INITIATOR_LARGE / INITIATOR_PART; i++)
		initiator_give(c, f->data, 0);
	initiator_say(c, 0, 0x80 | INITIATOR_SIMPLE, 0, 0);
	assert_int_equal(initiator_get_status(c), 2);
	assert_int_equal(c->data[2 + 2] & 15, 6); /* UNIT ATTENTION */
	assert_int_equal(slow_disk.operations, 1);
	fd_close(c->fd);
	fd_close(other->fd);
}

static void what_a_unit_owes_is_told_before_a_part_begins(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);
	struct initiator *other = log_in(f, &f->other, false);

	initiator_say_reset(other);
	initiator_get_task_response(other);
	initiator_say_read(c);
	assert_int_equal(initiator_get_status(c), 2);
	assert_int_equal(c->data[2 + 2] & 15, 6); /* UNIT ATTENTION */
	assert_int_equal(slow_disk.operations, 0);
	initiator_say_read(c);
	assert_true(initiator_get_data(c, f->back, 0, INITIATOR_LARGE));
	assert_int_equal(slow_disk.operations,
			 INITIATOR_LARGE / INITIATOR_PART);
	fd_close(c->fd);
	fd_close(other->fd);
}

/* More parts than a session may have; nobody takes what they bring. */
static void who_goes_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 4; i++) {
		struct initiator *c = connect_to(f);
		struct iscsi_wire_bhs bhs = initiator_header(ISCSI_DATA_OUT, 0,
							     0);

		initiator_say_write(c);
		initiator_give(c, f->data, 0);
		initiator_get_pdu(c, ISCSI_R2T);
		bhs.itt = c->bhs.itt;
		bhs.word[ISCSI_WORD_TTT] = c->bhs.word[ISCSI_WORD_TTT];
		bhs.word[ISCSI_WORD_OFFSET] = c->bhs.word[ISCSI_WORD_OFFSET];
		for (unsigned n = 0; n < 20; n++)
			initiator_say_read(c);
		bhs.data_length[0] = 2; /* 128 KiB */
		client_put(c->fd, &bhs, sizeof(bhs));
		/* What the socket takes: some of it, none, or all. */
		(void)send(c->fd, f->data, INITIATOR_LARGE / 8 / 3 * i,
			   MSG_NOSIGNAL | MSG_DONTWAIT);
		fd_close(c->fd);
	}
	while (slow_disk.open)
		usleep(1000);
}

static void a_new_epoch_waits_for_the_parts(void **state)
{
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);
	unsigned operations;

	initiator_say_write(c);
	initiator_give(c, f->data, 0);
	initiator_give(c, f->data, 0);
	slow_disk_await(1);
	assert_int_equal(export_set(f->target, 2, NULL), 0);
	assert_int_equal(slow_disk.in_flight, 0);
	operations = slow_disk.operations;
	/* The peer may see its end already: what it says lands nowhere. */
	(void)send(c->fd, f->data, INITIATOR_PART, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (recv(c->fd, f->back, sizeof(f->back), 0) > 0)
		;
	assert_int_equal(slow_disk.operations, operations);
	fd_close(c->fd);
}

/* The initiator sends again what had no answer: nothing comes after that. */
static void who_comes_back_waits_for_what_was_at_the_device(void **state)
{
	static const char text[] = LOGIN;
	const struct linger now = {.l_onoff = 1};
	struct fixture *f = *state;
	struct initiator *c = connect_to(f);
	int half_open[8];

	for (unsigned i = 0; i < 8; i++) {
		slow_disk.delay_ms = 2 + 7 * i;
		initiator_say_write(c);
		initiator_give(c, f->data, 0);
		if (i % 2)
			initiator_give(c, f->data, 0);
		slow_disk_await(1);
		half_open[i] = dup(c->fd);
		if (i % 4 == 1)
			(void)shutdown(c->fd, SHUT_RDWR);
		if (i % 4 == 2)
			(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now,
					 sizeof(now));
		if (i % 4 >= 2)
			fd_close(take_fd(&half_open[i]));
		fd_close(c->fd);
		*c = (struct initiator){.fd = client_dial(f->address)};
		initiator_login(c, text, sizeof(text) - 1, 2);
		assert_int_equal(slow_disk.in_flight, 0);
		learn(f, c);
	}
	for (unsigned i = 0; i < 8; i++)
		fd_close(half_open[i]);
	fd_close(c->fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(a_large_write_is_written_in_parts),
		TEST(a_part_is_written_while_the_rest_is_awaited),
		TEST(with_fua_and_in_order_it_stays_whole),
		TEST(the_first_of_a_read_comes_before_the_last_is_read),
		TEST(with_digests_it_is_the_same),
		TEST(a_wrong_digest_fails_the_command_and_its_part_is_not_written),
		TEST(what_has_no_digest_yet_is_not_written_when_another_part_ends),
		TEST(a_part_that_can_not_be_read_ends_the_data),
		TEST(a_part_that_can_not_be_written_is_told_when_all_has_come),
		TEST(an_aborted_read_sends_no_more),
		TEST(an_aborted_write_ends_before_that_is_answered),
		TEST(a_reset_waits_for_the_parts_and_lets_none_follow),
		TEST(what_a_unit_owes_is_told_before_a_part_begins),
		TEST(who_goes_leaves_nothing_behind),
		TEST(a_new_epoch_waits_for_the_parts),
		TEST(who_comes_back_waits_for_what_was_at_the_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
