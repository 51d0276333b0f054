/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "union/node/names_change.h"
#include "union/view/preserve_mtime.h"

#include <cmocka.h>

/* An old directory of branch 3 that is known. */
static struct unionfs fs;
static struct node *node;
static char path[32];
static int fd;

static int setup(void **state)
{
	const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 2000}};
	struct node_found found = {.branch = 3};

	(void)state;
	strcpy(path, "/tmp/quietly-XXXXXX");
	assert_non_null(mkdtemp(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, old), 0);
	assert_int_equal(handle_get(fd, "", &found.handle), 0);
	assert_int_equal(node_table_init(&fs.nodes, 1, NULL), 0);
	assert_int_equal(node_intern(&fs.nodes, S_IFDIR, 7, &found, 1, &node),
			 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	node_forget(&fs.nodes, node->id, 1);
	node_table_done(&fs.nodes);
	(void)close(fd);
	return rmdir(path);
}

/* Set the present times, as a new name does. */
static void change(void)
{
	assert_int_equal(mkdirat(fd, "new", 0700), 0);
	assert_int_equal(unlinkat(fd, "new", AT_REMOVEDIR), 0);
}

static struct stat stat_now(void)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	st.st_ctim = preserve_ctime_shown(&fs.nodes, node_copy_on(node, 3),
					  &st);
	return st;
}

static void assert_as_before(const struct stat *before)
{
	const struct stat st = stat_now();

	assert_int_equal(st.st_mtim.tv_sec, before->st_mtim.tv_sec);
	assert_int_equal(st.st_mtim.tv_nsec, before->st_mtim.tv_nsec);
	assert_int_equal(st.st_ctim.tv_sec, before->st_ctim.tv_sec);
	assert_int_equal(st.st_ctim.tv_nsec, before->st_ctim.tv_nsec);
}

static void nothing_is_seen_of_a_change(void **state)
{
	const struct stat before = stat_now();
	struct preserve_mtime quietly;

	(void)state;
	assert_int_equal(preserve_mtime_begin(&fs, 3, fd, &quietly), 0);
	change();
	preserve_mtime_end(&fs, fd, &quietly);
	assert_as_before(&before);
}

static void nothing_is_seen_of_two_at_once_whoever_ends_first(void **state)
{
	const struct stat before = stat_now();
	struct preserve_mtime two[2];
	unsigned first;

	(void)state;
	for (first = 0; first < 2; first++) {
		assert_int_equal(preserve_mtime_begin(&fs, 3, fd, &two[0]), 0);
		change();
		assert_int_equal(preserve_mtime_begin(&fs, 3, fd, &two[1]), 0);
		change();
		preserve_mtime_end(&fs, fd, &two[first]);
		change();
		preserve_mtime_end(&fs, fd, &two[!first]);
		assert_as_before(&before);
	}
}

#define THREADS 4
#define ROUNDS  100

/* Change it as thread @context, with a name of its own. */
static void *change_again_and_again(void *context)
{
	const char name[] = {(char)('a' + *(const int *)context), '\0'};
	struct preserve_mtime quietly;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		if (preserve_mtime_begin(&fs, 3, fd, &quietly) < 0 ||
		    mkdirat(fd, name, 0700) < 0)
			return (void *)"it could not be changed";
		if (i % 3)
			(void)sched_yield(); /* the other thread may come next
					      */
		preserve_mtime_end(&fs, fd, &quietly);
		if (unlinkat(fd, name, AT_REMOVEDIR) < 0)
			return (void *)"what was made is not there";
	}
	return NULL;
}

static void nothing_is_seen_of_many(void **state)
{
	struct stat before = stat_now();
	pthread_t threads[THREADS];
	int i, numbers[THREADS];
	struct preserve_mtime whole;
	void *failed;

	(void)state;
	assert_int_equal(preserve_mtime_begin(&fs, 3, fd, &whole), 0);
	for (i = 0; i < THREADS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL,
						change_again_and_again,
						&numbers[i]),
				 0);
	}
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], &failed), 0);
		assert_null(failed);
	}
	preserve_mtime_end(&fs, fd, &whole);
	assert_as_before(&before);
}

static void what_a_user_changes_is_seen(void **state)
{
	struct preserve_mtime two[2];

	(void)state;
	assert_int_equal(preserve_mtime_begin(&fs, 3, fd, &two[0]), 0);
	names_change_begin(node);
	change();
	names_change_end(node, true);
	/* The second change finds the user's time, not that of before. */
	assert_int_equal(preserve_mtime_begin(&fs, 3, fd, &two[1]), 0);
	assert_true(two[1].times[1].tv_sec > 2000);
	preserve_mtime_end(&fs, fd, &two[1]);
	preserve_mtime_end(&fs, fd, &two[0]);
	assert_true(stat_now().st_mtim.tv_sec > 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_seen_of_a_change,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			nothing_is_seen_of_two_at_once_whoever_ends_first,
			setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_seen_of_many, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_a_user_changes_is_seen,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
