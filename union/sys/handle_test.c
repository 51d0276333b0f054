/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/sys/handle.h"

#include <cmocka.h>

static struct handle handle_of(int32_t type, uint32_t length,
			       const uint32_t *words)
{
	struct handle handle = {.type = type, .length = length};

	memcpy(handle.data, words, length);
	return handle;
}

/* 0: it is not known. */
static uint64_t ino_of(int32_t type, uint32_t length, const uint32_t *words)
{
	struct handle handle = handle_of(type, length, words);
	uint64_t ino = 0;

	return handle_ino(&handle, &ino) ? ino : 0;
}

static void knows_where_each_file_system_has_the_number(void **state)
{
	const uint32_t words[] = {5, 6, 7, 8, 9};
	uint64_t first;

	(void)state;
	memcpy(&first, words, sizeof(first));
	assert_int_equal(ino_of(1, 8, words), 5); /* ext4, XFS */
	assert_int_equal(ino_of(1, 12, words), 6 | UINT64_C(7) << 32);
	assert_int_equal(ino_of(0x81, 12, words), first); /* XFS */
	assert_int_equal(ino_of(0x4d, 20, words), first); /* Btrfs */
	assert_int_equal(ino_of(2, 16, words), 0);
	assert_int_equal(ino_of(0x81, 20, words), 0);
}

static bool same_tree(const uint64_t *a, const uint64_t *b, int type)
{
	struct handle one = {.length = 20, .type = type}, other = one;

	memcpy(one.data, a, 16);
	memcpy(other.data, b, 16);
	return handle_same_tree(&one, &other) && handle_same_tree(&other, &one);
}

static void subvolumes_of_btrfs_are_told_apart(void **state)
{
	const uint64_t root[] = {256, 5}, file[] = {300, 5}, other[] = {256, 6};
	const uint64_t placeholder[] = {2, 5};

	(void)state;
	assert_true(same_tree(root, file, 0x4d));
	assert_false(same_tree(root, other, 0x4d));
	assert_false(same_tree(root, placeholder, 0x4d));
	assert_true(same_tree(root, other, 0x81)); /* no Btrfs */
}

static void check_in(const char *dir)
{
	auto_close int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct handle handle;
	struct stat st;
	uint64_t ino;

	if (fd < 0 || handle_get(fd, "", &handle) < 0 ||
	    !handle_ino(&handle, &ino))
		return; /* of a kind that is not known */
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(ino, st.st_ino);
}

static void it_is_the_number_that_stat_tells(void **state)
{
	(void)state;
	check_in("/tmp");
	check_in("/dev/shm");
	check_in(".");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_where_each_file_system_has_the_number),
		cmocka_unit_test(subvolumes_of_btrfs_are_told_apart),
		cmocka_unit_test(it_is_the_number_that_stat_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
