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
#include "base/crc32c.h"
#include "target/iscsi_proto.h"
#include "target/scsi_defs.h"
#include "target/slow_disk_kit.h"
#include "target/target.h"
#include "target/target_test_kit.h"

#define LARGE (UINT32_C(1) << 20)
#define PART  (UINT32_C(256) << 10) /* of iscsi_parts.c */
#define BLOCK 512u

#define READS  0xc0 /* and final */
#define WRITES 0xa0
#define NO_LUN UINT64_C(0)

/* ---- an initiator: one PDU after the other ---- */

struct client {
	int fd;
	uint32_t cmdsn, itt; /* of the last command */
	bool digest;         /* of data, both ways */
	struct iscsi_wire_bhs bhs;
	uint8_t data[LARGE]; /* of what came last */
	uint32_t length;
};

static void put_pdu(struct client *c, struct iscsi_wire_bhs bhs,
		    const void *data, uint32_t length, uint32_t wrong)
{
	le32 digest = le32_make(crc32c(0, data, length) ^ wrong);

	assert_int_equal(length % 4, 0);
	bhs.data_length[0] = (uint8_t)(length >> 16);
	bhs.data_length[1] = (uint8_t)(length >> 8);
	bhs.data_length[2] = (uint8_t)length;
	client_put(c->fd, &bhs, sizeof(bhs));
	if (length > 0)
		client_put(c->fd, data, length);
	if (length > 0 && c->digest)
		client_put(c->fd, &digest, sizeof(digest));
}

static uint32_t word(const struct client *c, enum iscsi_word n)
{
	return be32_get(c->bhs.word[n]);
}

/* The next PDU, which must be of that kind. */
static void get_pdu(struct client *c, uint8_t opcode)
{
	const uint8_t *n = c->bhs.data_length;
	le32 digest;
	uint32_t padding;

	client_get(c->fd, &c->bhs, sizeof(c->bhs));
	assert_int_equal(c->bhs.opcode, opcode);
	c->length = (uint32_t)n[0] << 16 | (uint32_t)n[1] << 8 | n[2];
	padding = iscsi_padding(c->length);
	assert_true(c->length + padding <= sizeof(c->data));
	client_get(c->fd, c->data, c->length + padding);
	if (c->length > 0 && c->digest) {
		client_get(c->fd, &digest, sizeof(digest));
		assert_int_equal(le32_get(digest),
				 crc32c(0, c->data, c->length + padding));
	}
}

static struct iscsi_wire_bhs header(uint8_t opcode, uint8_t flags, uint32_t itt)
{
	return (struct iscsi_wire_bhs){
		.opcode = opcode, .flags = flags, .itt = be32_make(itt)};
}

#define ATTRIBUTE_SIMPLE  1
#define ATTRIBUTE_ORDERED 2

/* READ (16) or WRITE (16) from the start; 0: TEST UNIT READY. */
static void say_command(struct client *c, uint8_t opcode, uint8_t flags,
			uint32_t length, uint8_t byte1)
{
	struct iscsi_wire_bhs bhs = header(ISCSI_COMMAND, flags, ++c->itt);
	be32 blocks = be32_make(length / BLOCK);
	uint8_t cdb[16] = {opcode, byte1};

	if (opcode)
		memcpy(cdb + 10, &blocks, sizeof(blocks));
	bhs.word[ISCSI_WORD_TTT] = be32_make(length);
	bhs.word[ISCSI_WORD_SN] = be32_make(c->cmdsn++);
	memcpy(&bhs.word[3], cdb, sizeof(cdb));
	put_pdu(c, bhs, NULL, 0, 0);
}

static void say_read(struct client *c)
{
	say_command(c, SCSI_READ_16, READS | ATTRIBUTE_SIMPLE, LARGE, 0);
}

static void say_write(struct client *c)
{
	say_command(c, SCSI_WRITE_16, WRITES | ATTRIBUTE_SIMPLE, LARGE, 0);
}

/* Its status; no data comes with it. */
static uint8_t get_status(struct client *c)
{
	get_pdu(c, ISCSI_RESPONSE);
	assert_int_equal(be32_get(c->bhs.itt), c->itt);
	return c->bhs.byte3;
}

static uint8_t be_ready(struct client *c)
{
	say_command(c, 0, 0x80 | ATTRIBUTE_SIMPLE, 0, 0);
	return get_status(c);
}

/* What an R2T asks for is given; @wrong: to its digest. */
static void give(struct client *c, const uint8_t *data, uint32_t wrong)
{
	struct iscsi_wire_bhs bhs = header(ISCSI_DATA_OUT, 0x80, c->itt);
	uint32_t offset, length;

	get_pdu(c, ISCSI_R2T);
	assert_int_equal(be32_get(c->bhs.itt), c->itt);
	offset = word(c, ISCSI_WORD_OFFSET);
	length = word(c, ISCSI_WORD_LENGTH);
	assert_int_equal(length, PART); /* MaxBurstLength, as by default */
	bhs.word[ISCSI_WORD_TTT] = c->bhs.word[ISCSI_WORD_TTT];
	bhs.word[ISCSI_WORD_OFFSET] = be32_make(offset);
	put_pdu(c, bhs, data + offset, length, wrong);
}

/* Data up to @end, which begins at @at; true: with it came GOOD. */
static bool get_data(struct client *c, uint8_t *to, uint32_t at, uint32_t end)
{
	while (at < end) {
		get_pdu(c, ISCSI_DATA_IN);
		assert_int_equal(be32_get(c->bhs.itt), c->itt);
		assert_int_equal(word(c, ISCSI_WORD_OFFSET), at);
		assert_true(c->length <= end - at);
		memcpy(to + at, c->data, c->length);
		at += c->length;
	}
	return c->bhs.flags & 1;
}

static void say_abort(struct client *c)
{
	struct iscsi_wire_bhs bhs = header(ISCSI_TASK_REQUEST | 0x40,
					   0x80 | ISCSI_ABORT_TASK, 999);

	bhs.word[ISCSI_WORD_TTT] = be32_make(c->itt); /* its tag */
	bhs.word[ISCSI_WORD_SN] = be32_make(c->cmdsn);
	put_pdu(c, bhs, NULL, 0, 0);
}

static void say_reset(struct client *c)
{
	struct iscsi_wire_bhs bhs = header(ISCSI_TASK_REQUEST | 0x40,
					   0x80 | ISCSI_LUN_RESET, 998);

	bhs.word[ISCSI_WORD_TTT] = be32_make(ISCSI_TAG_NONE);
	bhs.word[ISCSI_WORD_SN] = be32_make(c->cmdsn);
	put_pdu(c, bhs, NULL, 0, 0);
}

static void get_task_response(struct client *c)
{
	get_pdu(c, ISCSI_TASK_RESPONSE);
	assert_int_equal(c->bhs.byte2, ISCSI_TASK_COMPLETE);
}

/* ---- the server ---- */

struct fixture {
	struct target *target;
	char dir[32];
	char address[64]; /* "unix:PATH" */
	uint8_t data[LARGE], back[LARGE];
	struct client client, other;
};

static void release(void *context)
{
	(void)context;
}

static int export_set(struct target *target, uint64_t epoch, struct error *err)
{
	static const char *const initiators[] = {"unix"};
	struct target_scsi scsi = {
		.uuid = {1}, .size = SLOW_DISK_SIZE, .block_size = BLOCK};
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
	slow_disk_fill(f->data, LARGE);
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

static void login(struct client *c, const char *text, size_t length,
		  uint8_t isid)
{
	static uint8_t keys[512];
	struct iscsi_wire_bhs bhs = header(0x43, 0x87, 1);

	memcpy(keys, text, length);
	memset(keys + length, 0, 4);
	bhs.lun.bytes[0] = 0x80;
	bhs.lun.bytes[5] = isid;
	bhs.word[ISCSI_WORD_SN] = be32_make(1);
	c->digest = false;
	put_pdu(c, bhs, keys, (uint32_t)(length + 3) & ~3u, 0);
	get_pdu(c, ISCSI_LOGIN_RESPONSE);
	assert_int_equal(word(c, ISCSI_WORD_DATASN) >> 16, 0); /* status */
	c->cmdsn = 1;
	c->itt = 1;
}

/* Past what the first large command teaches the server of the device. */
static struct client *log_in(struct fixture *f, struct client *c, bool digest)
{
	static const char plain[] = LOGIN,
			  checked[] = LOGIN "DataDigest=CRC32C\0";

	c->fd = client_dial(f->address);
	if (digest)
		login(c, checked, sizeof(checked) - 1, 1);
	else
		login(c, plain, sizeof(plain) - 1, c == &f->client ? 2 : 3);
	c->digest = digest;
	assert_int_equal(be_ready(c), 2); /* power on */
	assert_int_equal(be_ready(c), 0);
	say_command(c, SCSI_READ_16, READS | ATTRIBUTE_SIMPLE, PART, 0);
	if (!get_data(c, f->back, 0, PART))
		assert_int_equal(get_status(c), 0);
	memset(f->back, 0, sizeof(f->back));
	slow_disk.operations = slow_disk.largest = 0;
	return c;
}

static struct client *connect_to(struct fixture *f)
{
	return log_in(f, &f->client, false);
}

/* CHECK CONDITION, and what was moved before. @key: of fixed format sense */
static void fails_at(struct client *c, uint8_t key, uint32_t moved)
{
	be32 lba;

	assert_int_equal(get_status(c), 2);
	assert_int_equal(c->data[2 + 2] & 15, key);
	memcpy(&lba, c->data + 2 + 3, sizeof(lba));
	assert_int_equal(be32_get(lba), moved / BLOCK);
	assert_int_equal(c->bhs.flags & 6, 2); /* underflow */
	assert_int_equal(word(c, ISCSI_WORD_LENGTH), LARGE - moved);
}

/* ---- tests ---- */

static void a_large_write_is_written_in_parts(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);

	slow_disk_fill(NULL, LARGE);
	say_write(c);
	for (unsigned i = 0; i < LARGE / PART; i++)
		give(c, f->data, 0);
	assert_int_equal(get_status(c), 0);
	assert_int_equal(c->bhs.flags & 6, 0); /* no residual */
	assert_int_equal(slow_disk.operations, LARGE / PART);
	assert_int_equal(slow_disk.largest, PART);
	slow_disk_check(f->data, LARGE);
	fd_close(c->fd);
}

static void a_part_is_written_while_the_rest_is_awaited(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);

	say_write(c);
	give(c, f->data, 0);
	slow_disk_await(1);
	give(c, f->data, 0);
	slow_disk_await(2);
	give(c, f->data, 0);
	give(c, f->data, 0);
	assert_int_equal(get_status(c), 0);
	fd_close(c->fd);
}

static void with_fua_and_in_order_it_stays_whole(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);

	say_command(c, SCSI_WRITE_16, WRITES | ATTRIBUTE_SIMPLE, LARGE, 0x08);
	for (unsigned i = 0; i < LARGE / PART; i++)
		give(c, f->data, 0);
	assert_int_equal(get_status(c), 0);
	assert_int_equal(slow_disk.operations, 1);
	assert_int_equal(slow_disk.flags, BLOCKDEV_FUA);
	say_command(c, SCSI_READ_16, READS | ATTRIBUTE_ORDERED, LARGE, 0);
	assert_true(get_data(c, f->back, 0, LARGE));
	assert_int_equal(slow_disk.operations, 2);
	fd_close(c->fd);
}

static void the_first_of_a_read_comes_before_the_last_is_read(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);

	slow_disk.held = PART;
	say_read(c);
	assert_false(get_data(c, f->back, 0, PART));
	assert_memory_equal(f->back, f->data, PART);
	slow_disk.held = UINT_MAX;
	assert_true(get_data(c, f->back, PART, LARGE));
	assert_memory_equal(f->back, f->data, LARGE);
	assert_int_equal(slow_disk.operations, LARGE / PART);
	assert_int_equal(be_ready(c), 0);
	fd_close(c->fd);
}

static void with_digests_it_is_the_same(void **state)
{
	struct fixture *f = *state;
	struct client *c = log_in(f, &f->client, true);

	slow_disk.held = 2 * PART;
	say_read(c);
	assert_false(get_data(c, f->back, 0, 2 * PART));
	slow_disk.held = UINT_MAX;
	assert_true(get_data(c, f->back, 2 * PART, LARGE));
	assert_memory_equal(f->back, f->data, LARGE);
	slow_disk_fill(NULL, LARGE);
	say_write(c);
	for (unsigned i = 0; i < LARGE / PART; i++)
		give(c, f->data, 0);
	assert_int_equal(get_status(c), 0);
	slow_disk_check(f->data, LARGE);
	fd_close(c->fd);
}

/* All that is asked for has to come, and nothing of the wrong is written. */
static void a_wrong_digest_fails_the_command_and_its_part_is_not_written(
	void **state)
{
	struct fixture *f = *state;
	struct client *c = log_in(f, &f->client, true);

	slow_disk_fill(NULL, LARGE);
	say_write(c);
	give(c, f->data, 0);
	give(c, f->data, 1);
	get_pdu(c, ISCSI_REJECT);
	assert_int_equal(get_status(c), 2);
	assert_int_equal(c->data[2 + 2] & 15, 0x0b); /* ABORTED COMMAND */
	assert_int_equal(c->data[2 + 12], 0x47);     /* RFC 7143 11.4.7.2 */
	assert_int_equal(slow_disk.operations, 1);
	slow_disk_check(f->data, PART);
	assert_int_equal(slow_disk.in_flight, 0);
	assert_int_equal(be_ready(c), 0);
	fd_close(c->fd);
}

/* How long the server takes is not known: too short a wait proves less. */
static void what_has_no_digest_yet_is_not_written_when_another_part_ends(
	void **state)
{
	struct fixture *f = *state;
	struct client *c = log_in(f, &f->client, true);
	le32 wrong = le32_make(crc32c(0, f->data + PART, PART) ^ 1);

	slow_disk_fill(NULL, LARGE);
	slow_disk.held = 0;
	say_write(c);
	give(c, f->data, 0);
	slow_disk_await(1);
	c->digest = false;
	give(c, f->data, 0);
	c->digest = true;
	(void)usleep(50000); /* it has come */
	slow_disk.held = UINT_MAX;
	(void)usleep(50000); /* the first part has ended */
	client_put(c->fd, &wrong, sizeof(wrong));
	get_pdu(c, ISCSI_REJECT);
	assert_int_equal(get_status(c), 2);
	assert_int_equal(slow_disk.operations, 1);
	fd_close(c->fd);
}

static void a_part_that_can_not_be_read_ends_the_data(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);

	slow_disk.bad = 2 * PART;
	say_read(c);
	assert_false(get_data(c, f->back, 0, 2 * PART));
	assert_memory_equal(f->back, f->data, 2 * PART);
	fails_at(c, SCSI_MEDIUM_ERROR, 2 * PART);
	assert_int_equal(be_ready(c), 0);
	slow_disk.bad = 0;
	say_read(c);
	fails_at(c, SCSI_MEDIUM_ERROR, 0);
	fd_close(c->fd);
}

static void a_part_that_can_not_be_written_is_told_when_all_has_come(
	void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);

	slow_disk.bad = PART;
	say_write(c);
	for (unsigned i = 0; i < LARGE / PART; i++)
		give(c, f->data, 0);
	fails_at(c, SCSI_MEDIUM_ERROR, PART);
	slow_disk.bad = UINT_MAX;
	say_write(c);
	for (unsigned i = 0; i < LARGE / PART; i++)
		give(c, f->data, 0);
	assert_int_equal(get_status(c), 0);
	fd_close(c->fd);
}

static void an_aborted_read_sends_no_more(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);

	slow_disk.held = PART;
	say_read(c);
	assert_false(get_data(c, f->back, 0, PART));
	say_abort(c);
	say_command(c, 0, 0x80 | ATTRIBUTE_SIMPLE, 0, 0);
	assert_int_equal(get_status(c), 0); /* the abort has been seen */
	slow_disk.held = UINT_MAX;
	get_task_response(c);
	assert_int_equal(slow_disk.in_flight, 0);
	say_read(c);
	assert_true(get_data(c, f->back, 0, LARGE));
	fd_close(c->fd);
}

/* Nothing of it reaches the device after the answer to the abort. */
static void an_aborted_write_ends_before_that_is_answered(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);

	slow_disk.held = 0;
	say_write(c);
	give(c, f->data, 0);
	slow_disk_await(1);
	get_pdu(c, ISCSI_R2T);
	say_abort(c);
	say_command(c, 0, 0x80 | ATTRIBUTE_SIMPLE, 0, 0);
	assert_int_equal(get_status(c), 0);
	assert_int_equal(slow_disk.in_flight, 1);
	slow_disk.held = UINT_MAX;
	get_task_response(c);
	assert_int_equal(slow_disk.in_flight, 0);
	assert_int_equal(slow_disk.operations, 1);
	assert_int_equal(be_ready(c), 0);
	fd_close(c->fd);
}

/* Of one initiator by another. */
static void a_reset_waits_for_the_parts_and_lets_none_follow(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);
	struct client *other = log_in(f, &f->other, false);

	slow_disk.held = 0;
	say_write(c);
	give(c, f->data, 0);
	slow_disk_await(1);
	say_reset(other);
	slow_disk.held = UINT_MAX;
	get_task_response(other);
	assert_int_equal(slow_disk.in_flight, 0);
	for (unsigned i = 1; i < LARGE / PART; i++)
		give(c, f->data, 0);
	say_command(c, 0, 0x80 | ATTRIBUTE_SIMPLE, 0, 0);
	assert_int_equal(get_status(c), 2);
	assert_int_equal(c->data[2 + 2] & 15, 6); /* UNIT ATTENTION */
	assert_int_equal(slow_disk.operations, 1);
	fd_close(c->fd);
	fd_close(other->fd);
}

static void what_a_unit_owes_is_told_before_a_part_begins(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);
	struct client *other = log_in(f, &f->other, false);

	say_reset(other);
	get_task_response(other);
	say_read(c);
	assert_int_equal(get_status(c), 2);
	assert_int_equal(c->data[2 + 2] & 15, 6); /* UNIT ATTENTION */
	assert_int_equal(slow_disk.operations, 0);
	say_read(c);
	assert_true(get_data(c, f->back, 0, LARGE));
	assert_int_equal(slow_disk.operations, LARGE / PART);
	fd_close(c->fd);
	fd_close(other->fd);
}

/* More parts than a session may have; nobody takes what they bring. */
static void who_goes_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 4; i++) {
		struct client *c = connect_to(f);
		struct iscsi_wire_bhs bhs = header(ISCSI_DATA_OUT, 0, 0);

		say_write(c);
		give(c, f->data, 0);
		get_pdu(c, ISCSI_R2T);
		bhs.itt = c->bhs.itt;
		bhs.word[ISCSI_WORD_TTT] = c->bhs.word[ISCSI_WORD_TTT];
		bhs.word[ISCSI_WORD_OFFSET] = c->bhs.word[ISCSI_WORD_OFFSET];
		for (unsigned n = 0; n < 20; n++)
			say_read(c);
		bhs.data_length[0] = 2; /* 128 KiB */
		client_put(c->fd, &bhs, sizeof(bhs));
		/* What the socket takes: some of it, none, or all. */
		(void)send(c->fd, f->data, LARGE / 8 / 3 * i,
			   MSG_NOSIGNAL | MSG_DONTWAIT);
		fd_close(c->fd);
	}
	while (slow_disk.open)
		usleep(1000);
}

static void a_new_epoch_waits_for_the_parts(void **state)
{
	struct fixture *f = *state;
	struct client *c = connect_to(f);
	unsigned operations;

	say_write(c);
	give(c, f->data, 0);
	give(c, f->data, 0);
	slow_disk_await(1);
	assert_int_equal(export_set(f->target, 2, NULL), 0);
	assert_int_equal(slow_disk.in_flight, 0);
	operations = slow_disk.operations;
	/* The peer may see its end already: what it says lands nowhere. */
	(void)send(c->fd, f->data, PART, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (recv(c->fd, f->back, sizeof(f->back), 0) > 0)
		;
	assert_int_equal(slow_disk.operations, operations);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
