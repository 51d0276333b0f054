/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/state/request.h"
#include "union/view/unseen.h"

#include <cmocka.h>

static struct request request;
static struct unionfs fs;
static struct branch branch;
static struct node *node;
static char top[32], path[64];

/* Make a known file on a branch, which the kernel passes through. */
static int setup(void **state)
{
	struct node_found found = {.branch = 0};
	int fd;

	(void)state;
	fs = (struct unionfs){.timeout = 100, .told_of_writes = true};
	(void)snprintf(top, sizeof(top), "/tmp/unseen-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/file", top);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, 4096) < 0)
		return -1;
	branch = (struct branch){.root_fd = -1};
	branch.root_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fs.branches.items[0] = &branch;
	fs.branches.count = 1;
	if (handle_get(fd, "", &found.handle) < 0 ||
	    node_table_init(&fs.nodes, 1, NULL) < 0 ||
	    node_intern(&fs.nodes, S_IFREG, 7, &found, 1, &node) < 0)
		return -1;
	node->passthrough = true;
	request.pid = 1;
	return close(fd);
}

static int done(void **state)
{
	(void)state;
	node_forget(&fs.nodes, node->id, 1);
	node_table_done(&fs.nodes);
	(void)close(branch.root_fd);
	return unlink(path) < 0 || rmdir(top) < 0 ? -1 : 0;
}

static void is_told(uint32_t pid)
{
	request.pid = pid;
	assert_false(unseen_may_change(&fs, &request, node));
}

static bool opens(uint32_t pid, bool reads)
{
	request.pid = pid;
	node_file(node)->writers++;
	return unseen_begins(&fs, &request, node, reads);
}

static void closes(void)
{
	node_file(node)->writers--;
}

static void nobody_is_told_to_forget_what_was_said_to_who_opens(void **state)
{
	(void)state;
	assert_false(opens(1, true)); /* nothing was said to anybody */
	assert_true(unseen_may_change(&fs, &request, node));
	assert_false(opens(2, true)); /* it has begun before */
	closes();
	closes();
	is_told(1);
	is_told(1);
	assert_false(opens(1, true));
	closes();
	is_told(1);
	assert_true(opens(2, true));
	closes();
	is_told(1);
	is_told(2);
	assert_true(opens(2, true));
	closes();
	is_told(0); /* of another namespace: it may be anybody */
	assert_true(opens(0, true));
	closes();
	is_told(1);
	assert_false(opens(2, false)); /* a mere writer maps nothing */
	assert_false(unseen_may_change(&fs, &request, node));
}

static void a_mapping_that_outlives_its_file_is_seen(void **state)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	(void)state;
	assert_true(fd >= 0 && at != MAP_FAILED);
	assert_int_equal(close(fd), 0);
	(void)opens(1, true);
	closes();
	assert_true(unseen_may_change(&fs, &request, node));
	assert_true(unseen_may_change(&fs, &request, node));
	assert_int_equal(munmap(at, 4096), 0);
	assert_false(unseen_may_change(&fs, &request, node));
}

static void an_answer_is_kept_after_as_many_that_were_alike(void **state)
{
	struct stat st = {.st_size = 1}, other = {.st_size = 2};
	unsigned i, tries = 0;

	(void)state;
	(void)opens(1, true);
	/* Try again if other processes delayed the questions. */
	do {
		assert_true(unseen_keep(&fs, node, &other) == 0);
		for (i = 0; i < UNSEEN_ALIKE; i++)
			assert_true(unseen_keep(&fs, node, &st) == 0);
		assert_true(tries++ < 1000);
	} while (unseen_keep(&fs, node, &st) == 0);
	/* A kept answer was asked for: a process may have mapped the file. */
	assert_true(unseen_keep(&fs, node, &st) == 0);
	fs.told_of_writes = false;
	for (i = 0; i < 3 * UNSEEN_ALIKE; i++) {
		assert_true(unseen_keep(&fs, node, &st) == 0);
		assert_true(unseen_keep_size(&fs, node, &st) == 0);
	}
}

static void nothing_is_kept_where_the_kernel_misses_writes(void **state)
{
	(void)state;
	fs.told_of_writes = false;
	assert_true(unseen_keep_new(&fs) == 0);
	is_told(1);
	assert_true(opens(1, false)); /* the first that writes */
	assert_true(unseen_may_change(&fs, &request, node));
	assert_false(opens(2, false));
	closes();
	closes();
	assert_false(unseen_may_change(&fs, &request, node));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, done)
	const struct CMUnitTest tests[] = {
		T(nobody_is_told_to_forget_what_was_said_to_who_opens),
		T(a_mapping_that_outlives_its_file_is_seen),
		T(an_answer_is_kept_after_as_many_that_were_alike),
		T(nothing_is_kept_where_the_kernel_misses_writes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
