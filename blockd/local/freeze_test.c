/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of mountinfo, and answers; tests/system/blockd_snapshot.sh freezes for
 * real. */
#include "blockd/local/freeze.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"

static const char *place_in(const char *line)
{
	static char copy[256];

	memcpy(copy, line, strlen(line) + 1);
	return freeze_mount_of_line(copy, makedev(7, 3));
}

static void finds_where_a_device_is_mounted(void **state)
{
	(void)state;
	assert_string_equal(place_in("36 35 7:3 / /mnt rw,noatime shared:1 - "
				     "ext4 /dev/loop3 rw\n"),
			    "/mnt");
	assert_string_equal(place_in("36 35 7:3 /sub / rw - xfs x rw\n"), "/");
	assert_string_equal(place_in("36 35 7:3 / /a\\040b\\134c\\011 rw\n"),
			    "/a b\\c\t");
	assert_string_equal(place_in("36 35 7:3 / /mnt"), "/mnt");
}

static void takes_no_other_line_for_one(void **state)
{
	static const char *const lines[] = {
		"36 35 7:4 / /mnt rw\n",
		"36 35 8:3 / /mnt rw\n",
		"36 35 7:3\n",
		"36 35 7:3 /\n",
		"36 35 7:3 / mnt\n",
		"36 35 7:3 / \n",
		"",
		"\n",
		"x 35 7:3 / /mnt\n",
	};

	(void)state;
	for (size_t i = 0; i < array_size(lines); i++)
		assert_null(place_in(lines[i]));
}

/* The kernel writes three digits; anything else is what it says. */
static void leaves_what_is_no_escape(void **state)
{
	(void)state;
	assert_string_equal(place_in("1 2 7:3 / /a\\ x\n"), "/a\\");
	assert_string_equal(place_in("1 2 7:3 / /a\\04\n"), "/a\\04");
	assert_string_equal(place_in("1 2 7:3 / /a\\0488"), "/a\\0488");
	assert_string_equal(place_in("1 2 7:3 / /a\\777"), "/a\\777");
}

/* trib-freeze may end before it has read how long it may hold. */
static void an_answer_outlives_its_process(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(freeze_answer(ends[0], 0), -EAGAIN);
	assert_int_equal(send(ends[0], "6500", 4, 0), 4);
	assert_int_equal(send(ends[1], "16", 2, 0), 2);
	(void)close(ends[1]);
	assert_int_equal(freeze_answer(ends[0], 0), EBUSY);
	assert_int_equal(freeze_answer(ends[0], 0), -EPIPE);
	(void)close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_where_a_device_is_mounted),
		cmocka_unit_test(takes_no_other_line_for_one),
		cmocka_unit_test(leaves_what_is_no_escape),
		cmocka_unit_test(an_answer_outlives_its_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
