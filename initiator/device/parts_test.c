/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

static struct parts *parts_of(unsigned n, unsigned width)
{
	struct parts *parts = calloc(1, sizeof(*parts));
	char name[32];

	assert_non_null(parts);
	parts->n = n;
	if (width)
		parts->stripe = (struct stripe){width, 65536};
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "v-%u@4", i);
		assert_int_equal(parts_set(parts, i, "[fd00::1]:10809", name,
					   UINT64_C(64) << 20, NULL),
				 0);
	}
	return parts;
}

static void survives_the_way_through_a_file(void **state)
{
	auto_free struct parts *parts = parts_of(256, 2), *back = NULL;
	char dir[] = "/tmp/parts.XXXXXX";
	char path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(
		parts_keep_incarnation(&parts->items[7], "incarnation=1", NULL),
		0);
	(void)snprintf(path, sizeof(path), "%s/a.parts", dir);
	assert_int_equal(parts_load(AT_FDCWD, path, &back, NULL), -ENOENT);
	assert_int_equal(parts_save(AT_FDCWD, path, parts, NULL), 0);
	assert_int_equal(parts_load(AT_FDCWD, path, &back, NULL), 0);
	assert_memory_equal(back, parts, sizeof(*parts));
	(void)remove(path);
	(void)remove(dir);
}

static void parts_keep_their_incarnation_at_another_address(void **state)
{
	auto_free struct parts *before = parts_of(2, 0), *now = parts_of(3, 0);
	struct part *part = &before->items[0];
	char longest[PARTS_WORD_SIZE + 1] = "";

	(void)state;
	memset(longest, 'x', PARTS_WORD_SIZE);
	/* what the file can't keep is not kept */
	assert_int_equal(parts_keep_incarnation(part, longest, NULL), 0);
	assert_int_equal(parts_keep_incarnation(part, "a b", NULL), 0);
	assert_string_equal(part->incarnation, "");
	assert_int_equal(parts_keep_incarnation(part, "a", NULL), 0);
	assert_int_equal(parts_keep_incarnation(part, "a", NULL), 0);
	assert_int_equal(parts_keep_incarnation(part, "b", NULL), -ESTALE);
	assert_int_equal(parts_keep_incarnation(part, "", NULL), -ESTALE);
	(void)strcpy(now->items[0].address, "unix:/elsewhere");
	assert_int_equal(parts_take_place(before, now, NULL), 0);
	assert_string_equal(now->items[0].incarnation, "a");
	assert_string_equal(now->items[0].address, "unix:/elsewhere");
	assert_string_equal(now->items[2].incarnation, "");
	/* another export, or the same of another epoch */
	(void)strcpy(now->items[1].export_name, "v-1@5");
	assert_int_equal(parts_take_place(before, now, NULL), -EINVAL);
}

static void refuses_damaged_files(void **state)
{
	static const char *const bad[] = {
		"",
		"version=2\nstripe=0 0\npart=4096 a b\n",
		"version=1\nstripe=0 0\n",
		"version=1\nstripe=0 0\npart=4096 a\n",
		"version=1\nstripe=0 0\npart=4096 a b c d\n",
		"version=1\nstripe=0 0\npart=4096 a b \n",
		"version=1\nstripe=0 0\npart= a b\n",
		"version=1\nstripe=0 0\npart=-1 a b\n",
		"version=1\nstripe=0 0\npart=0 a b\n",
		"version=1\nstripe=0 0\npart=99999999999999999999 a b\n",
		"version=1\nstripe=0\npart=4096 a b\n",
		"version=1\nstripe=2 4096\npart=4096 a b\n",
		"version=1\nstripe=2 4096\npart=4096 a b\npart=8192 a c\n",
		"version=1\nstripe=2 5000\npart=4096 a b\npart=4096 a c\n",
		"version=1\nother=1\npart=4096 a b\n",
		"version=1\nstripe=0 0\npart=4096 a b\nrest\n",
	};
	struct parts *parts = malloc(sizeof(*parts));

	(void)state;
	assert_non_null(parts);
	for (size_t i = 0; i < array_size(bad); i++)
		assert_int_equal(
			parts_decode(bad[i], strlen(bad[i]), parts, NULL),
			-EINVAL);
	assert_int_equal(parts_set(parts, 0, "a", "", 1, NULL), -EINVAL);
	parts->n = 1;
	assert_int_equal(parts_set(parts, 0, "unix:/a b", "c", 1, NULL), 0);
	assert_int_equal(parts_save(AT_FDCWD, "/none/a", parts, NULL), -EINVAL);
	free(parts);
}

static void knows_growth_from_another_device(void **state)
{
	auto_free struct parts *before = parts_of(2, 0), *now = parts_of(3, 0);
	auto_free struct parts *set = parts_of(2, 2), *sets = parts_of(4, 2);

	(void)state;
	assert_int_equal(parts_check_grown(before, now, NULL), 0);
	assert_int_equal(parts_check_grown(now, before, NULL), -EINVAL);
	now->items[1].size += 4096; /* the last one of before */
	assert_int_equal(parts_check_grown(before, now, NULL), 0);
	now->items[0].size += 4096;
	assert_int_equal(parts_check_grown(before, now, NULL), -EINVAL);
	now->items[0].size -= 8192;
	assert_int_equal(parts_check_grown(before, now, NULL), -EINVAL);
	now->items[0].size += 4096;
	(void)strcpy(now->items[0].export_name, "w-0@4");
	assert_int_equal(parts_check_grown(before, now, NULL), -EINVAL);
	assert_int_equal(parts_check_grown(set, sets, NULL), 0);
	assert_int_equal(parts_check_grown(before, set, NULL), -EINVAL);
	sets->items[1].size += 65536;
	assert_int_equal(parts_check_grown(set, sets, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(survives_the_way_through_a_file),
		cmocka_unit_test(
			parts_keep_their_incarnation_at_another_address),
		cmocka_unit_test(refuses_damaged_files),
		cmocka_unit_test(knows_growth_from_another_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
