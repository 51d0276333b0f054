/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/view/merge.h"

#include <cmocka.h>

static void a_name_appears_once_as_its_first_branch_has_it(void **state)
{
	struct merge *merge = merge_new(false);
	struct merge_entry entry;

	(void)state;
	assert_int_equal(merge_add(merge, "x", 1, DT_REG, 11), 0);
	assert_int_equal(merge_add(merge, "x", 2, DT_DIR, 22), 0);
	assert_int_equal(merge_add(merge, "y", 2, DT_DIR, 23), 0);
	assert_int_equal(merge_count(merge), 2);
	merge_get(merge, 0, &entry);
	assert_string_equal(entry.name, "x");
	assert_int_equal(entry.branch, 1);
	assert_int_equal(entry.type, DT_REG);
	assert_int_equal(entry.ino, 11);
	assert_int_equal(merge_count_dirs(merge), 1);
	merge_free(merge);
}

static void a_place_in_the_list_is_for_ever(void **state)
{
	struct merge *merge = merge_new(false);
	struct merge_entry entry;
	char name[32];
	unsigned i;

	(void)state;
	for (i = 0; i < 100000; i++) {
		(void)snprintf(name, sizeof(name), "entry-%u", i);
		assert_int_equal(merge_add(merge, name, i % 3, DT_REG, i), 0);
		assert_int_equal(merge_add(merge, name, 9, DT_REG, i), 0);
	}
	assert_int_equal(merge_count(merge), 100000);
	for (i = 0; i < 100000; i++) {
		(void)snprintf(name, sizeof(name), "entry-%u", i);
		merge_get(merge, i, &entry);
		assert_string_equal(entry.name, name);
		assert_int_equal(entry.ino, i);
	}
	merge_free(merge);
}

static struct merge *some(unsigned count, unsigned but)
{
	struct merge *merge = merge_new(false);
	char name[32];
	unsigned i;

	assert_int_equal(merge_add(merge, ".", 0, DT_DIR, 1), 0);
	assert_int_equal(merge_add(merge, "..", 0, DT_DIR, 1), 0);
	for (i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), "entry-%u", i);
		if (i % 3 != but)
			assert_int_equal(merge_add(merge, name, 0, DT_REG, i),
					 0);
	}
	return merge;
}

static void an_offset_is_right_in_every_list(void **state)
{
	struct merge *all = some(30000, 3), *less = some(30000, 1);
	struct merge_entry one, other = {.name = ""};
	size_t i, place = 0;
	int64_t last = 0;

	(void)state;
	assert_int_equal(merge_sort(all), 0);
	assert_int_equal(merge_sort(less), 0);
	assert_int_equal(merge_place(less, 0), 0);
	for (i = 0; i < merge_count(all); i++) {
		merge_get(all, i, &one);
		assert_true(one.next > last);
		last = one.next;
		if (place < merge_count(less))
			merge_get(less, place, &other);
		if (place < merge_count(less) &&
		    strcmp(one.name, other.name) == 0) {
			assert_int_equal(one.next, other.next);
			place++;
		} else {
			assert_int_equal(one.ino % 3, 1);
		}
		/* Also behind one that is not there. */
		assert_int_equal(merge_place(less, one.next), place);
	}
	assert_int_equal(place, merge_count(less));
	merge_free(all);
	merge_free(less);
}

static void what_is_added_late_comes_last(void **state)
{
	struct merge *merge = some(1000, 3);
	struct merge_entry entry;

	(void)state;
	assert_int_equal(merge_sort(merge), 0);
	assert_int_equal(merge_add(merge, "entry-7", 1, DT_REG, 1), 0);
	assert_int_equal(merge_add(merge, "late", 1, DT_REG, 7), 0);
	assert_int_equal(merge_count(merge), 1003);
	merge_get(merge, 1001, &entry);
	assert_int_equal(merge_place(merge, entry.next), 1002);
	merge_get(merge, 1002, &entry);
	assert_string_equal(entry.name, "late");
	assert_int_equal(merge_place(merge, entry.next), 1003);
	merge_free(merge);
}

static void dots_are_no_subdirectories(void **state)
{
	struct merge *merge = merge_new(false);

	(void)state;
	assert_int_equal(merge_add(merge, ".", 0, DT_DIR, 1), 0);
	assert_int_equal(merge_add(merge, "..", 0, DT_DIR, 1), 0);
	assert_int_equal(merge_add(merge, "...", 0, DT_DIR, 1), 0);
	assert_int_equal(merge_count_dirs(merge), 1);
	merge_free(merge);
}

static size_t count_read(const char *path, bool root)
{
	struct merge *merge = merge_new(root);
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t n;

	assert_true(fd >= 0);
	assert_int_equal(merge_read(merge, fd, 0, SUBMOUNT_NOWHERE), 0);
	n = merge_count(merge);
	merge_free(merge);
	return n;
}

static void the_work_directory_is_hidden_in_the_root_only(void **state)
{
	char path[] = "/tmp/trib-merge-XXXXXX", work[64];

	(void)state;
	assert_non_null(mkdtemp(path));
	(void)snprintf(work, sizeof(work), "%s/.tributary", path);
	assert_int_equal(mkdir(work, 0700), 0);
	assert_int_equal(count_read(path, false), 3);
	assert_int_equal(count_read(path, true), 2);
	assert_int_equal(rmdir(work), 0);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_name_appears_once_as_its_first_branch_has_it),
		cmocka_unit_test(a_place_in_the_list_is_for_ever),
		cmocka_unit_test(an_offset_is_right_in_every_list),
		cmocka_unit_test(what_is_added_late_comes_last),
		cmocka_unit_test(dots_are_no_subdirectories),
		cmocka_unit_test(the_work_directory_is_hidden_in_the_root_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
