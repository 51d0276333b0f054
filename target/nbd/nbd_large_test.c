/* SPDX-License-Identifier: Apache-2.0 */
/* Large reads of a file in the page cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/nbd/nbd_proto.h"
#include "target/target.h"
#include "target/testkit/target_test_kit.h"

#define MIB       (UINT32_C(1) << 20)
#define FILE_SIZE (16 * MIB)

/* ---- the file, and its readers ---- */

static struct {
	char path[64];
	int fd;
	struct blockdev_ops ops, inner;
	atomic_uint open;
} file;

static uint8_t pattern[FILE_SIZE];

static void count_close(struct blockdev *dev)
{
	file.inner.close(dev);
	file.open--;
}

static int file_open(void *context, struct loop *loop, bool read_only,
		     struct blockdev **ret, struct error *err)
{
	int r = blockdev_file_open(loop, file.path, 0, 0, ret, err);

	(void)context;
	(void)read_only;
	if (r < 0)
		return r;
	/* There is one loop, so nobody else is looking. */
	file.inner = file.ops = *(*ret)->ops;
	file.ops.close = count_close;
	(*ret)->ops = &file.ops;
	file.open++;
	return 0;
}

static void release(void *context)
{
	(void)context;
}

/* ---- the server ---- */

struct fixture {
	struct target *target;
	char dir[32];
	char address[2][64]; /* by a unix socket and by TCP */
};

static int serve(struct fixture *f)
{
	const char *initiator = "any";
	struct target_options options = {.loops = 1, .max_connections = 4};
	struct target_export export = {
		.name = "x",
		.epoch = 1,
		.initiators = &initiator,
		.n_initiators = 1,
		.open = file_open,
		.release = release,
	};
	struct error err = {0};
	int port = 0;

	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/large-test.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->address[0], 64, "unix:%.31s/s", f->dir);
	if (target_new(&options, &f->target, &err) < 0 ||
	    target_listen_nbd(f->target, f->address[0], NULL, &err) < 0 ||
	    target_listen_nbd(f->target, "tcp:127.0.0.1:0", &port, &err) < 0 ||
	    target_export_set(f->target, &export, &err) < 0) {
		print_error("%s\n", err.msg);
		return -1;
	}
	(void)snprintf(f->address[1], 64, "tcp:127.0.0.1:%d", port);
	return 0;
}

static int file_make(void)
{
	file.fd = memfd_create("x", MFD_CLOEXEC);
	for (size_t i = 0; i < FILE_SIZE; i++)
		pattern[i] = (uint8_t)(i * 31 + i / 4096);
	(void)snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d",
		       file.fd);
	return pwrite(file.fd, pattern, FILE_SIZE, 0) == FILE_SIZE ? 0 : -1;
}

static int setup(void **state)
{
	static struct fixture fixture;

	*state = &fixture;
	return file_make() < 0 ? -1 : serve(&fixture);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	target_free(f->target);
	assert_int_equal(file.open, 0);
	fd_close(file.fd);
	return rmdir(f->dir);
}

/* ---- a client ---- */

/* One chunk of the data at @offset; its flags. */
static uint16_t take_chunk(int fd, uint64_t cookie, uint8_t *to,
			   uint64_t offset, uint32_t length)
{
	struct nbd_wire_chunk chunk;
	uint32_t has;
	be64 at;

	client_get(fd, &chunk, sizeof(chunk));
	assert_true(be64_get(chunk.cookie) == cookie);
	if (be16_get(chunk.type) == NBD_REPLY_TYPE_NONE)
		return be16_get(chunk.flags);
	assert_int_equal(be16_get(chunk.type), NBD_REPLY_TYPE_OFFSET_DATA);
	client_get(fd, &at, sizeof(at));
	has = be32_get(chunk.length) - (uint32_t)sizeof(at);
	assert_true(be64_get(at) >= offset &&
		    be64_get(at) + has <= offset + length);
	client_get(fd, to + (be64_get(at) - offset), has);
	return be16_get(chunk.flags);
}

/* Of a simple reply or, from a device that was slow, any number of chunks. */
static void take_data(int fd, bool structured, uint64_t cookie, uint64_t offset,
		      uint32_t length)
{
	static uint8_t got[FILE_SIZE];

	memset(got, 0, length);
	if (structured) {
		while (!(take_chunk(fd, cookie, got, offset, length) &
			 NBD_REPLY_FLAG_DONE))
			;
	} else {
		assert_int_equal(client_answer(fd, cookie), 0);
		client_get(fd, got, length);
	}
	assert_memory_equal(got, pattern + offset, length);
}

static int connect_to(const char *address, bool structured)
{
	int fd = client_dial(address);

	assert_true(structured ? client_begin_structured(fd, "x@1")
			       : client_begin(fd, "x@1", NULL));
	return fd;
}

/* ---- tests ---- */

static const struct {
	uint64_t offset;
	uint32_t length;
} reads[] = {
	{0, MIB},    {512, 512}, {MIB + 700, 128 << 10}, {MIB, (128 << 10) - 1},
	{4096, MIB}, {1, MIB},   {3 * MIB, 4 * MIB},     {FILE_SIZE - MIB, MIB},
};

static void large_reads_come_as_they_are_in_the_file(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 4; i++) {
		bool structured = i & 1;
		int fd = connect_to(f->address[i / 2], structured);

		for (size_t n = 0; n < array_size(reads); n++) {
			client_ask(fd, NBD_CMD_READ, n, reads[n].offset,
				   reads[n].length);
			take_data(fd, structured, n, reads[n].offset,
				  reads[n].length);
		}
		fd_close(fd);
	}
}

/* Small and large ones, answered in any order to a slow reader. */
static void replies_do_not_mix(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 2; i++) {
		int fd = connect_to(f->address[i], false);
		bool answered[64] = {0};

		for (unsigned n = 0; n < 64; n++)
			client_ask(fd, NBD_CMD_READ, n, n * 4096,
				   n & 1 ? 4096 : MIB);
		for (unsigned n = 0; n < 64; n++) {
			struct nbd_wire_simple_reply reply;
			static uint8_t got[MIB];
			uint64_t cookie;
			uint32_t length;

			client_get(fd, &reply, sizeof(reply));
			cookie = be64_get(reply.cookie);
			assert_int_equal(be32_get(reply.magic),
					 NBD_SIMPLE_REPLY_MAGIC);
			assert_true(cookie < 64 && !answered[cookie]);
			answered[cookie] = true;
			length = cookie & 1 ? 4096 : MIB;
			client_get(fd, got, length);
			assert_memory_equal(got, pattern + cookie * 4096,
					    length);
		}
		fd_close(fd);
	}
}

/* The error comes instead of the data, and what follows is served. */
static void a_file_cut_short_is_an_error(void **state)
{
	struct fixture *f = *state;
	int fd = connect_to(f->address[1], false);

	assert_int_equal(ftruncate(file.fd, FILE_SIZE - MIB / 2), 0);
	client_ask(fd, NBD_CMD_READ, 1, FILE_SIZE - MIB, MIB);
	assert_int_equal(client_answer(fd, 1), NBD_EIO);
	client_ask(fd, NBD_CMD_READ, 2, 0, MIB);
	take_data(fd, false, 2, 0, MIB);
	fd_close(fd);
}

static void what_was_written_is_read_at_once(void **state)
{
	struct fixture *f = *state;
	int fd = connect_to(f->address[1], false);

	for (unsigned n = 0; n < 32; n++) {
		memset(pattern + MIB, (int)n, MIB);
		client_ask(fd, NBD_CMD_WRITE, 1, MIB, MIB);
		client_put(fd, pattern + MIB, MIB);
		assert_int_equal(client_answer(fd, 1), 0);
		client_ask(fd, NBD_CMD_READ, 2, MIB, MIB);
		take_data(fd, false, 2, MIB, MIB);
	}
	fd_close(fd);
}

/* A peer that takes nothing, with its socket full, goes or stays. */
static void who_goes_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 4; i++) {
		int fd = connect_to(f->address[i & 1], i / 2);
		struct pollfd can = {.fd = fd, .events = POLLIN};

		for (unsigned n = 0; n < 15; n++)
			client_ask(fd, NBD_CMD_READ, n, n * MIB, MIB);
		assert_int_equal(poll(&can, 1, -1), 1);
		fd_close(fd);
	}
	while (file.open)
		usleep(1000);
}

static void a_new_epoch_ends_it_amid_a_reply(void **state)
{
	struct fixture *f = *state;
	const char *initiator = "any";
	struct target_export export = {
		.name = "x",
		.initiators = &initiator,
		.n_initiators = 1,
		.open = file_open,
		.release = release,
	};
	static uint8_t got[15 * (MIB + 16)];

	for (unsigned i = 0; i < 2; i++) {
		int fd = client_dial(f->address[i]);
		size_t n = 1;

		assert_true(client_begin(fd, i ? "x@2" : "x@1", NULL));
		for (unsigned k = 0; k < 15; k++)
			client_ask(fd, NBD_CMD_READ, k, k * MIB, MIB);
		client_get(fd, got, 1);
		export.epoch = 2 + i;
		assert_int_equal(target_export_set(f->target, &export, NULL),
				 0);
		assert_int_equal(file.open, 0);
		for (ssize_t r; (r = recv(fd, got, sizeof(got), 0)) > 0;)
			n += (size_t)r;
		assert_true(n < sizeof(got));
		fd_close(fd);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(large_reads_come_as_they_are_in_the_file),
		TEST(replies_do_not_mix),
		TEST(a_file_cut_short_is_an_error),
		TEST(what_was_written_is_read_at_once),
		TEST(who_goes_leaves_nothing_behind),
		TEST(a_new_epoch_ends_it_amid_a_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
