/* SPDX-License-Identifier: Apache-2.0 */
/* A loop's thread waits for a disk that does not answer; nobody else does. */
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

#define SIZE   (UINT64_C(64) << 10) /* bytes, at first */
#define BLOCK  4096u                /* bytes, of each request */
#define OTHERS 6                    /* connections that come later */

struct fixture {
	struct target *target;
	char dir[32];
	char address[64];
};

/* One disk of each name; its writes wait on the loop's thread, if they may. */
static struct disk {
	atomic_bool held;    /* writes that block do not end */
	atomic_uint blocked; /* of them wait now */
	atomic_uint begun;   /* writes that blocked, so far */
} disk_x, disk_y;

struct disk_dev {
	struct blockdev dev;
	struct disk *disk;
};

static void disk_read(struct blockdev *dev, struct op *op, void *data,
		      uint32_t length, uint64_t offset)
{
	(void)offset;
	memset(data, 0, length);
	loop_complete(dev->loop, op, 0);
}

static void disk_write(struct blockdev *dev, struct op *op, const void *data,
		       uint32_t length, uint64_t offset, unsigned flags)
{
	struct disk *disk = container_of(dev, struct disk_dev, dev)->disk;

	(void)data;
	(void)length;
	(void)offset;
	(void)flags;
	if (loop_block_begin(dev->loop)) {
		disk->begun++;
		disk->blocked++;
		while (disk->held)
			usleep(1000);
		disk->blocked--;
		loop_block_end(dev->loop);
	}
	loop_complete(dev->loop, op, 0);
}

static void disk_flush(struct blockdev *dev, struct op *op)
{
	loop_complete(dev->loop, op, 0);
}

static void disk_close(struct blockdev *dev)
{
	free(container_of(dev, struct disk_dev, dev));
}

static const struct blockdev_ops disk_ops = {
	.read = disk_read,
	.write = disk_write,
	.flush = disk_flush,
	.close = disk_close,
};

static int disk_open(void *context, struct loop *loop, bool read_only,
		     struct blockdev **ret, struct error *err)
{
	struct disk_dev *d = calloc(1, sizeof(*d));

	(void)err;
	assert_non_null(d);
	d->disk = context;
	d->dev = (struct blockdev){
		.ops = &disk_ops,
		.loop = loop,
		.size = SIZE,
		.block_size = 512,
		.preferred_size = BLOCK,
		.read_only = read_only,
	};
	*ret = &d->dev;
	return 0;
}

static int export_set(struct fixture *f, const char *name, uint64_t epoch,
		      struct disk *disk)
{
	static const char *const anybody = "any";
	const struct target_export spec = {
		.name = name,
		.epoch = epoch,
		.initiators = &anybody,
		.n_initiators = 1,
		.open = disk_open,
		.context = disk,
	};

	return target_export_set(f->target, &spec, NULL);
}

static int setup(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	const struct target_options options = {.loops = 2};

	memset(f, 0, sizeof(*f));
	disk_x.held = disk_y.held = false;
	disk_x.begun = disk_y.begun = 0;
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/blocked-test.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->address, sizeof(f->address), "unix:%.31s/s", f->dir);
	if (target_new(&options, &f->target, NULL) < 0 ||
	    target_listen_nbd(f->target, f->address, NULL, NULL) < 0)
		return -1;
	*state = f;
	return export_set(f, "x", 5, &disk_x) < 0 ||
			       export_set(f, "y", 5, &disk_y) < 0
		       ? -1
		       : 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	disk_x.held = disk_y.held = false;
	target_free(f->target);
	return rmdir(f->dir);
}

static int begin(struct fixture *f, const char *name)
{
	int fd = client_dial(f->address);

	assert_true(client_begin(fd, name, NULL));
	return fd;
}

static void ask_write(int fd, uint64_t cookie, uint64_t offset)
{
	static const char data[BLOCK];

	client_ask(fd, NBD_CMD_WRITE, cookie, offset, BLOCK);
	client_put(fd, data, sizeof(data));
}

static uint32_t write_at(int fd, uint64_t offset)
{
	ask_write(fd, offset, offset);
	return client_answer(fd, offset);
}

/* Returns a connection to x whose thread waits for the disk. */
static int block_x(struct fixture *f)
{
	int fd = begin(f, "x@5");

	disk_x.held = true;
	ask_write(fd, 1, 0);
	while (!disk_x.blocked)
		usleep(1000);
	return fd;
}

static void the_first_connection_may_wait_for_its_disk(void **state)
{
	struct fixture *f = *state;
	int fd = begin(f, "x@5");

	for (uint64_t at = 0; at < SIZE; at += BLOCK)
		assert_int_equal(write_at(fd, at), 0);
	assert_int_equal(disk_x.begun, SIZE / BLOCK);
	fd_close(fd);
}

static void others_are_served_while_a_disk_does_not_answer(void **state)
{
	struct fixture *f = *state;
	int fd = block_x(f), fds[OTHERS];

	for (int i = 0; i < OTHERS; i++) {
		fds[i] = begin(f, "y@5");
		assert_int_equal(write_at(fds[i], BLOCK), 0);
	}
	/* The thread that accepts waits for no disk. */
	assert_int_equal(disk_y.begun, 0);
	assert_int_equal(disk_x.begun, 1);
	disk_x.held = false;
	assert_int_equal(client_answer(fd, 1), 0);
	for (int i = 0; i < OTHERS; i++) {
		assert_int_equal(write_at(fds[i], BLOCK), 0);
		fd_close(fds[i]);
	}
	fd_close(fd);
}

static void two_connections_of_a_thread_wait_for_no_disk(void **state)
{
	struct fixture *f = *state;
	int fds[4];

	for (int i = 0; i < 4; i++)
		fds[i] = begin(f, i % 2 ? "x@5" : "y@5");
	disk_x.held = disk_y.held = true;
	for (int i = 0; i < 4; i++)
		assert_int_equal(write_at(fds[i], 0), 0);
	assert_int_equal(disk_x.begun + disk_y.begun, 0);
	for (int i = 0; i < 4; i++)
		fd_close(fds[i]);
}

static void an_export_grows_while_a_disk_does_not_answer(void **state)
{
	struct fixture *f = *state;
	int fd = block_x(f), other = begin(f, "y@5");

	assert_int_equal(write_at(other, SIZE), NBD_ENOSPC);
	target_export_grow(f->target, "y", 2 * SIZE);
	assert_int_equal(write_at(other, SIZE), 0);
	/* The one that waits is told before it takes the next request. */
	target_export_grow(f->target, "x", 2 * SIZE);
	ask_write(fd, 2, SIZE);
	disk_x.held = false;
	assert_int_equal(client_answer(fd, 1), 0);
	assert_int_equal(client_answer(fd, 2), 0);
	fd_close(other);
	fd_close(fd);
}

struct successor {
	struct fixture *f;
	atomic_bool set, done;
};

static void *successor_main(void *context)
{
	struct successor *successor = context;
	int fd;

	assert_int_equal(export_set(successor->f, "x", 6, &disk_x), 0);
	successor->set = true;
	fd = begin(successor->f, "x@6");
	assert_int_equal(write_at(fd, BLOCK), 0);
	successor->done = true;
	fd_close(fd);
	return NULL;
}

/* As with any write that is at the disk: the one before may still change it. */
static void a_higher_epoch_waits_for_the_blocked_write(void **state)
{
	struct fixture *f = *state;
	struct successor successor = {.f = f};
	int fd = block_x(f);
	pthread_t thread;

	assert_int_equal(
		pthread_create(&thread, NULL, successor_main, &successor), 0);
	usleep(200000);
	assert_false(successor.set);
	disk_x.held = false;
	pthread_join(thread, NULL);
	assert_true(successor.done);
	while (!client_closed(fd))
		; /* the reply of its write may come first */
	fd_close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(the_first_connection_may_wait_for_its_disk),
		TEST(others_are_served_while_a_disk_does_not_answer),
		TEST(two_connections_of_a_thread_wait_for_no_disk),
		TEST(an_export_grows_while_a_disk_does_not_answer),
		TEST(a_higher_epoch_waits_for_the_blocked_write),
	};

	return cmocka_run_group_tests_name("target_blocked", tests, NULL, NULL);
}
