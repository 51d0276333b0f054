/* SPDX-License-Identifier: Apache-2.0 */
/* An export that grows under its connections, over a real file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/nbd/nbd_proto.h"
#include "target/target.h"
#include "target/testkit/target_test_kit.h"

#define KIB UINT64_C(1024)

#define SIZE    (64 * KIB) /* bytes, at first */
#define BLOCK   4096u      /* bytes, of each request */
#define CLIENTS 4          /* two on each of the loops */
#define STEPS   100        /* of growing under load */

struct fixture {
	struct target *target;
	char dir[32];
	char path[48];
	char address[64];
	int fds[CLIENTS];
	atomic_ullong reached; /* bytes; connections must reach so far */
	atomic_bool stop;
};

static int file_open(void *context, struct loop *loop, bool read_only,
		     struct blockdev **ret, struct error *err)
{
	const struct fixture *f = context;

	return blockdev_file_open(loop, f->path, 0,
				  read_only ? BLOCKDEV_FILE_READ_ONLY : 0, ret,
				  err);
}

static int export_set(struct fixture *f, const char *name, uint64_t epoch)
{
	static const char *const anybody = "any";

	return target_export_set(f->target,
				 &(struct target_export){
					 .name = name,
					 .epoch = epoch,
					 .initiators = &anybody,
					 .n_initiators = 1,
					 .open = file_open,
					 .context = f,
				 },
				 NULL);
}

static int setup(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	const struct target_options options = {.loops = 2};
	FILE *file;

	memset(f, 0, sizeof(*f));
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/grow-test.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->path, sizeof(f->path), "%.31s/data", f->dir);
	(void)snprintf(f->address, sizeof(f->address), "unix:%.31s/s", f->dir);
	file = fopen(f->path, "w");
	if (!file || fclose(file) != 0 || truncate(f->path, SIZE) < 0 ||
	    target_new(&options, &f->target, NULL) < 0 ||
	    target_listen_nbd(f->target, f->address, NULL, NULL) < 0)
		return -1;
	for (int i = 0; i < CLIENTS; i++)
		f->fds[i] = -1;
	*state = f;
	return export_set(f, "x", 5);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < CLIENTS; i++)
		fd_close(f->fds[i]);
	target_free(f->target);
	(void)unlink(f->path);
	return rmdir(f->dir);
}

static void connect_all(struct fixture *f, const char *name)
{
	for (int i = 0; i < CLIENTS; i++) {
		f->fds[i] = client_dial(f->address);
		assert_true(client_begin(f->fds[i], name, NULL));
	}
}

/* As the owner does it: first the device, then the connections. */
static void grow(struct fixture *f, uint64_t size)
{
	assert_int_equal(truncate(f->path, (off_t)size), 0);
	target_export_grow(f->target, "x", size);
}

static uint32_t write_at(int fd, uint64_t offset, char fill)
{
	char data[BLOCK];

	memset(data, fill, sizeof(data));
	client_ask(fd, NBD_CMD_WRITE, offset, offset, sizeof(data));
	client_put(fd, data, sizeof(data));
	return client_answer(fd, offset);
}

static uint32_t read_at(int fd, uint64_t offset, char *ret)
{
	char data[BLOCK];
	uint32_t error;

	client_ask(fd, NBD_CMD_READ, offset, offset, sizeof(data));
	error = client_answer(fd, offset);
	if (error == 0) {
		client_get(fd, data, sizeof(data));
		*ret = data[BLOCK - 1];
	}
	return error;
}

static uint64_t size_told(struct fixture *f, const char *name)
{
	struct client_export export = {0};
	int fd = client_dial(f->address);

	assert_true(client_begin(fd, name, &export));
	fd_close(fd);
	return export.size;
}

static void live_connections_reach_the_new_end(void **state)
{
	struct fixture *f = *state;
	char c = 0;

	connect_all(f, "x@5");
	for (int i = 0; i < CLIENTS; i++) {
		assert_int_equal(read_at(f->fds[i], SIZE, &c), NBD_EINVAL);
		assert_int_equal(write_at(f->fds[i], SIZE, 'n'), NBD_ENOSPC);
	}
	grow(f, 4 * SIZE);
	for (int i = 0; i < CLIENTS; i++) { /* the first over the old end */
		uint64_t at = SIZE - BLOCK / 2 + (uint64_t)i * BLOCK;

		assert_int_equal(write_at(f->fds[i], at, (char)('a' + i)), 0);
		assert_int_equal(read_at(f->fds[CLIENTS - 1 - i], at, &c), 0);
		assert_int_equal(c, 'a' + i);
		assert_int_equal(read_at(f->fds[i], 4 * SIZE - BLOCK, &c), 0);
		assert_int_equal(c, 0);
		client_ask(f->fds[i], NBD_CMD_WRITE_ZEROES, 7, 2 * SIZE, BLOCK);
		assert_int_equal(client_answer(f->fds[i], 7), 0);
		assert_int_equal(read_at(f->fds[i], 4 * SIZE, &c), NBD_EINVAL);
		assert_int_equal(write_at(f->fds[i], 4 * SIZE, 'n'),
				 NBD_ENOSPC);
	}
	assert_true(size_told(f, "x@5") == 4 * SIZE);
}

static void nothing_shrinks_and_repeating_is_harmless(void **state)
{
	struct fixture *f = *state;
	char c = 0;

	connect_all(f, "x@5");
	grow(f, 2 * SIZE);
	target_export_grow(f->target, "x", 2 * SIZE);
	target_export_grow(f->target, "x", SIZE);
	target_export_grow(f->target, "x", 0);
	target_export_grow(f->target, "nobody", 8 * SIZE);
	for (int i = 0; i < CLIENTS; i++) {
		assert_int_equal(read_at(f->fds[i], 2 * SIZE - BLOCK, &c), 0);
		assert_int_equal(read_at(f->fds[i], 2 * SIZE, &c), NBD_EINVAL);
	}
}

/* Names that begin like the one that grew, and one without an epoch. */
static void only_the_export_of_that_name_grows(void **state)
{
	struct fixture *f = *state;
	char c = 0;

	assert_int_equal(export_set(f, "xx", 5), 0);
	assert_int_equal(export_set(f, "y", 0), 0);
	f->fds[0] = client_dial(f->address);
	assert_true(client_begin(f->fds[0], "xx@5", NULL));
	f->fds[1] = client_dial(f->address);
	assert_true(client_begin(f->fds[1], "y", NULL));
	grow(f, 2 * SIZE);
	assert_int_equal(read_at(f->fds[0], SIZE, &c), NBD_EINVAL);
	assert_int_equal(read_at(f->fds[1], SIZE, &c), NBD_EINVAL);
	target_export_grow(f->target, "y", 2 * SIZE);
	assert_int_equal(read_at(f->fds[0], SIZE, &c), NBD_EINVAL);
	assert_int_equal(read_at(f->fds[1], SIZE, &c), 0);
}

struct client {
	struct fixture *f;
	pthread_t thread;
	int fd;
	unsigned rounds;
};

/* Whatever growing has reached must be there to read and write. */
static void *client_main(void *context)
{
	struct client *client = context;
	struct fixture *f = client->f;
	bool last;
	char c = 0;

	do {
		uint64_t end;

		last = f->stop;
		end = f->reached;
		assert_int_equal(write_at(client->fd, end - BLOCK, 'w'), 0);
		assert_int_equal(read_at(client->fd, end - BLOCK, &c), 0);
		assert_int_equal(c, 'w');
		client->rounds++;
	} while (!last);
	return NULL;
}

static void connections_come_go_and_work_while_it_grows(void **state)
{
	struct fixture *f = *state;
	struct client clients[CLIENTS];
	char c = 0;

	connect_all(f, "x@5");
	f->reached = SIZE;
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = (struct client){.f = f, .fd = f->fds[i]};
		assert_int_equal(pthread_create(&clients[i].thread, NULL,
						client_main, &clients[i]),
				 0);
	}
	for (uint64_t step = 1; step <= STEPS; step++) {
		uint64_t size = SIZE + step * 8 * KIB;
		int fd = client_dial(f->address);

		grow(f, size);
		f->reached = size;
		/* Its handshake may come before or after. */
		assert_true(client_begin(fd, "x@5", NULL));
		assert_int_equal(read_at(fd, size - BLOCK, &c), 0);
		fd_close(fd);
	}
	f->stop = true;
	for (int i = 0; i < CLIENTS; i++) {
		pthread_join(clients[i].thread, NULL);
		assert_true(clients[i].rounds > 0);
	}
}

static void *raiser_main(void *context)
{
	struct fixture *f = context;

	for (uint64_t epoch = 6; !f->stop; epoch++)
		assert_int_equal(export_set(f, "x", epoch), 0);
	return NULL;
}

/* Connections are told of their growth while they are thrown out. */
static void epochs_may_rise_while_it_grows(void **state)
{
	struct fixture *f = *state;
	pthread_t raiser;
	char name[32];

	assert_int_equal(pthread_create(&raiser, NULL, raiser_main, f), 0);
	for (uint64_t step = 1; step <= STEPS; step++) {
		int fd = client_dial(f->address);

		(void)snprintf(name, sizeof(name), "x@%d", (int)(5 + step));
		(void)client_begin(fd, name, NULL); /* may be too early, late */
		grow(f, SIZE + step * 8 * KIB);
		fd_close(fd);
	}
	f->stop = true;
	pthread_join(raiser, NULL);
	assert_int_equal(export_set(f, "x", UINT64_MAX), 0);
	(void)snprintf(name, sizeof(name), "x@%llu",
		       (unsigned long long)UINT64_MAX);
	assert_true(size_told(f, name) == SIZE + STEPS * 8 * KIB);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(live_connections_reach_the_new_end),
		TEST(nothing_shrinks_and_repeating_is_harmless),
		TEST(only_the_export_of_that_name_grows),
		TEST(connections_come_go_and_work_while_it_grows),
		TEST(epochs_may_rise_while_it_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
