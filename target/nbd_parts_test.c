/* SPDX-License-Identifier: Apache-2.0 */
/* Large requests in parts: before a device that takes its time, or fails. */
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
#include "target/nbd_proto.h"
#include "target/slow_disk_kit.h"
#include "target/target.h"
#include "target/target_test_kit.h"

#define LARGE (UINT32_C(1) << 20)
#define PART  (UINT32_C(256) << 10) /* of nbd_parts.c */

static void release(void *context)
{
	(void)context;
}

/* ---- the server, and a client that has seen it be slow ---- */

struct fixture {
	struct target *target;
	char dir[32];
	char address[64]; /* "unix:PATH" */
	uint8_t data[LARGE + PART];
};

static int setup(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	const char *initiator = "unix";
	struct target_options options = {.loops = 1, .max_connections = 4};
	struct target_export export = {
		.name = "x",
		.epoch = 1,
		.initiators = &initiator,
		.n_initiators = 1,
		.open = slow_disk_open,
		.release = release,
	};
	struct error err = {0};

	slow_disk_reset();
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/parts-test.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->address, sizeof(f->address), "unix:%.31s/s", f->dir);
	for (size_t i = 0; i < sizeof(f->data); i++)
		f->data[i] = (uint8_t)(i * 31 + i / 4096);
	if (target_new(&options, &f->target, &err) < 0 ||
	    target_listen_nbd(f->target, f->address, NULL, &err) < 0 ||
	    target_export_set(f->target, &export, &err) < 0) {
		print_error("%s\n", err.msg);
		return -1;
	}
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	target_free(f->target);
	assert_int_equal(slow_disk.open, 0);
	assert_int_equal(slow_disk.in_flight, 0);
	return rmdir(f->dir);
}

/* Past what the first large request teaches the server of the device. */
static int connect_to(struct fixture *f, bool structured)
{
	int fd = client_dial(f->address);

	assert_true(structured ? client_begin_structured(fd, "x@1")
			       : client_begin(fd, "x@1", NULL));
	client_ask(fd, NBD_CMD_WRITE, 99, 0, PART);
	client_put(fd, f->data, PART);
	assert_int_equal(client_answer(fd, 99), 0);
	slow_disk.operations = slow_disk.largest = 0;
	return fd;
}

/* ---- tests ---- */

static void a_large_write_is_written_in_parts(void **state)
{
	struct fixture *f = *state;
	int fd = connect_to(f, false);
	uint32_t length = LARGE + 512;

	client_ask(fd, NBD_CMD_WRITE, 1, 0, length);
	client_put(fd, f->data, length);
	assert_int_equal(client_answer(fd, 1), 0);
	assert_int_equal(slow_disk.operations, 5);
	assert_int_equal(slow_disk.largest, PART);
	slow_disk_check(f->data, length);
	fd_close(fd);
}

static void a_part_is_written_while_the_rest_is_awaited(void **state)
{
	struct fixture *f = *state;
	int fd = connect_to(f, false);

	client_ask(fd, NBD_CMD_WRITE, 1, 0, LARGE);
	client_put(fd, f->data, LARGE / 2);
	slow_disk_await(2);
	client_put(fd, f->data + LARGE / 2, LARGE / 2);
	assert_int_equal(client_answer(fd, 1), 0);
	assert_int_equal(slow_disk.operations, 4);
	slow_disk_check(f->data, LARGE);
	fd_close(fd);
}

static void with_fua_it_stays_whole(void **state)
{
	struct fixture *f = *state;
	int fd = connect_to(f, false);
	struct nbd_wire_request wire = {
		.magic = be32_make(NBD_REQUEST_MAGIC),
		.flags = be16_make(NBD_CMD_FLAG_FUA),
		.type = be16_make(NBD_CMD_WRITE),
		.cookie = be64_make(1),
		.length = be32_make(LARGE),
	};

	client_put(fd, &wire, sizeof(wire));
	client_put(fd, f->data, LARGE);
	assert_int_equal(client_answer(fd, 1), 0);
	assert_int_equal(slow_disk.operations, 1);
	assert_int_equal(slow_disk.flags, BLOCKDEV_FUA);
	fd_close(fd);
}

static void parts_that_fail_are_one_error(void **state)
{
	struct fixture *f = *state;
	int fd = connect_to(f, false);

	slow_disk.bad = PART;
	client_ask(fd, NBD_CMD_WRITE, 1, 0, LARGE);
	client_put(fd, f->data, LARGE);
	assert_int_equal(client_answer(fd, 1), NBD_EIO);
	slow_disk.bad = UINT_MAX;
	client_ask(fd, NBD_CMD_FLUSH, 2, 0, 0);
	assert_int_equal(client_answer(fd, 2), 0);
	fd_close(fd);
}

static void a_simple_reply_has_all_of_a_read(void **state)
{
	struct fixture *f = *state;
	int fd = connect_to(f, false);
	static uint8_t back[LARGE];

	client_ask(fd, NBD_CMD_WRITE, 1, 0, LARGE);
	client_put(fd, f->data, LARGE);
	assert_int_equal(client_answer(fd, 1), 0);
	slow_disk.operations = 0;
	client_ask(fd, NBD_CMD_READ, 2, 0, LARGE);
	assert_int_equal(client_answer(fd, 2), 0);
	client_get(fd, back, sizeof(back));
	assert_memory_equal(back, f->data, LARGE);
	assert_int_equal(slow_disk.operations, 1);
	fd_close(fd);
}

/* Chunks until the last; the bytes of data they have had. */
static uint32_t chunks_take(int fd, uint64_t cookie, uint8_t *to,
			    uint16_t *ret_type)
{
	uint8_t text[256];
	uint32_t got = 0;

	for (;;) {
		struct nbd_wire_chunk chunk;
		uint32_t length;

		client_get(fd, &chunk, sizeof(chunk));
		assert_int_equal(be32_get(chunk.magic),
				 NBD_STRUCTURED_REPLY_MAGIC);
		assert_true(be64_get(chunk.cookie) == cookie);
		length = be32_get(chunk.length);
		*ret_type = be16_get(chunk.type);
		if (*ret_type == NBD_REPLY_TYPE_OFFSET_DATA) {
			be64 offset;

			client_get(fd, &offset, sizeof(offset));
			length -= (uint32_t)sizeof(offset);
			assert_true(be64_get(offset) + length <= LARGE);
			client_get(fd, to + be64_get(offset), length);
			got += length;
		} else if (length > 0) {
			assert_true(length <= sizeof(text));
			client_get(fd, text, length);
		}
		if (be16_get(chunk.flags) & NBD_REPLY_FLAG_DONE)
			return got;
	}
}

static void a_read_comes_in_chunks(void **state)
{
	struct fixture *f = *state;
	int fd = connect_to(f, true);
	static uint8_t back[LARGE];
	uint16_t type;

	client_ask(fd, NBD_CMD_WRITE, 1, 0, LARGE);
	client_put(fd, f->data, LARGE);
	assert_int_equal(client_answer(fd, 1), 0);
	slow_disk.operations = 0;
	client_ask(fd, NBD_CMD_READ, 2, 0, LARGE);
	assert_int_equal(chunks_take(fd, 2, back, &type), LARGE);
	assert_int_equal(type, NBD_REPLY_TYPE_NONE);
	assert_int_equal(slow_disk.operations, 4);
	assert_memory_equal(back, f->data, LARGE);
	slow_disk.bad = PART; /* of the others the data may come */
	client_ask(fd, NBD_CMD_READ, 3, 0, LARGE);
	assert_int_equal(chunks_take(fd, 3, back, &type), LARGE - PART);
	assert_int_equal(type, NBD_REPLY_TYPE_ERROR);
	fd_close(fd);
}

/* More parts than there are slots for requests, from a peer that goes. */
static void who_goes_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 4; i++) {
		int fd = connect_to(f, i & 1);

		for (unsigned n = 0; n < 40; n++)
			client_ask(fd, NBD_CMD_READ, n, 0, LARGE);
		client_ask(fd, NBD_CMD_WRITE, 41, 0, LARGE);
		/* What the socket takes: nobody reads the replies. */
		(void)send(fd, f->data, LARGE / 4 * i,
			   MSG_NOSIGNAL | MSG_DONTWAIT);
		fd_close(fd);
	}
	while (slow_disk.open)
		usleep(1000);
}

static void a_new_epoch_waits_for_the_parts(void **state)
{
	struct fixture *f = *state;
	const char *initiator = "unix";
	struct target_export export = {
		.name = "x",
		.epoch = 2,
		.initiators = &initiator,
		.n_initiators = 1,
		.open = slow_disk_open,
		.release = release,
	};
	int fd = connect_to(f, false);
	unsigned operations;

	client_ask(fd, NBD_CMD_WRITE, 1, 0, LARGE);
	client_put(fd, f->data, LARGE / 2 + 100);
	slow_disk_await(1);
	assert_int_equal(target_export_set(f->target, &export, NULL), 0);
	assert_int_equal(slow_disk.in_flight, 0);
	operations = slow_disk.operations;
	/* The peer may see its end already: what it says lands nowhere. */
	(void)send(fd, f->data, LARGE / 2 - 100, MSG_NOSIGNAL);
	assert_true(client_closed(fd));
	assert_int_equal(slow_disk.operations, operations);
	fd_close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(a_large_write_is_written_in_parts),
		TEST(a_part_is_written_while_the_rest_is_awaited),
		TEST(with_fua_it_stays_whole),
		TEST(parts_that_fail_are_one_error),
		TEST(a_simple_reply_has_all_of_a_read),
		TEST(a_read_comes_in_chunks),
		TEST(who_goes_leaves_nothing_behind),
		TEST(a_new_epoch_waits_for_the_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
