/* SPDX-License-Identifier: Apache-2.0 */
/* Of the ring without /dev/fuse: what the kernel refuses. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/uring.h"
#include "union/uring_cpus.h"
#include "union/uring_ring.h"

#include <cmocka.h>

static atomic_uint begun, ended, most;

static bool begin(void *context)
{
	(void)context;
	if (atomic_fetch_add(&begun, 1) < atomic_load(&most))
		return true;
	atomic_fetch_sub(&begun, 1);
	return false;
}

static void end(void *context)
{
	(void)context;
	atomic_fetch_add(&ended, 1);
}

static int set_up(void)
{
	return 0;
}

static int cannot_set_up(void)
{
	return -EPERM;
}

static void serve(void *context, void *data, size_t length)
{
	(void)context;
	(void)data;
	(void)length;
	abort(); /* nothing is asked */
}

/* A file that knows no commands. */
static struct uring_server server_of(int fd)
{
	atomic_store(&begun, 0);
	atomic_store(&ended, 0);
	atomic_store(&most, UINT32_MAX);
	return (struct uring_server){.fd = fd,
				     .begin = begin,
				     .setup = set_up,
				     .serve = serve,
				     .end = end};
}

static void wait_for_threads(void)
{
	int64_t limit = clock_ms() + 30000;

	while (atomic_load(&ended) < atomic_load(&begun) && clock_ms() < limit)
		(void)usleep(1000);
	assert_int_equal(atomic_load(&ended), atomic_load(&begun));
}

static int open_file(void)
{
	int fd = memfd_create("none", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* A machine that forbids io_uring cannot run these. */
static void need_rings(int fd)
{
	struct uring_ring ring;
	int r = uring_ring_init(&ring, fd);

	if (r < 0)
		skip();
	uring_ring_done(&ring);
}

/* By a file that knows no commands; @fd: open until uring_free(). */
static struct uring *start(int fd, unsigned threads)
{
	const struct uring_server server = server_of(fd);
	struct error err = {0};
	struct uring *uring;

	need_rings(fd);
	assert_int_equal(uring_start(&server, threads, &uring, &err), 0);
	return uring;
}

static void an_entry_that_is_refused_means_dev_fuse(void **state)
{
	auto_close int fd = open_file();
	struct uring *uring = start(fd, 3);

	(void)state;
	assert_true(atomic_load(&begun) >= 2);
	assert_true(uring_fits(uring, 1 << 20));
	assert_false(uring_fits(uring, (1 << 20) + 1));
	assert_false(uring_is_on(uring));
	uring_begin(uring, true);
	wait_for_threads();
	assert_false(uring_is_on(uring));
	assert_false(uring_fits(uring, 1));
	uring_more(uring); /* none */
	assert_int_equal(uring_answer(uring, 7, -EIO), -ENOENT);
	wait_for_threads();
	uring_free(uring);
}

static void threads_end_when_it_is_not_wanted(void **state)
{
	auto_close int fd = open_file();
	struct uring *uring = start(fd, 1);

	(void)state;
	uring_begin(uring, false);
	wait_for_threads();
	uring_begin(uring, true); /* too late */
	assert_false(uring_is_on(uring));
	uring_free(uring);
}

static void it_is_off_when_a_thread_cannot_be_prepared(void **state)
{
	auto_close int fd = open_file();
	struct uring_server server = server_of(fd);
	struct error err = {0};
	struct uring *uring;

	(void)state;
	server.setup = cannot_set_up;
	assert_int_equal(uring_start(&server, 2, &uring, &err), -EPERM);
	wait_for_threads();
	assert_false(uring_fits(uring, 1));
	uring_free(uring);

	server = server_of(fd);
	atomic_store(&most, 1); /* the second one is too many */
	need_rings(fd);
	assert_int_equal(uring_start(&server, 2, &uring, &err), -EAGAIN);
	wait_for_threads();
	assert_false(uring_fits(uring, 1));
	uring_begin(uring, true);
	assert_false(uring_is_on(uring));
	uring_free(uring);
	uring_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_entry_that_is_refused_means_dev_fuse),
		cmocka_unit_test(threads_end_when_it_is_not_wanted),
		cmocka_unit_test(it_is_off_when_a_thread_cannot_be_prepared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
