/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "base/wire/crc32c.h"
#include "volume/mount/branch_fs.h"

#define UUID  "6b2c2f5e-2f0a-4a55-9a0e-0a4d1f6c7b11"
#define SMALL (UINT64_C(64) << 20) /* a sparse file */

/* mkfs.xfs says what is wrong, and then how it is to be used. */
static void says_why_mkfs_failed(void **state)
{
	static const char *const types[] = {"xfs", "ext4"};
	char path[] = "/tmp/branch-fs-test-XXXXXX";
	auto_close int fd = mkstemp(path);
	struct error err = {0};

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SMALL), 0);
	for (size_t i = 0; i < array_size(types); i++) {
		const char *uuid = i ? "none" : UUID;

		assert_int_equal(
			branch_fs_make(path, types[i], uuid, true, -1, &err),
			-EIO);
		assert_non_null(strstr(err.msg, types[i]));
		assert_non_null(strstr(err.msg, i ? "UUID: none" : "larger"));
		assert_null(strstr(err.msg, "<value>"));
	}
	assert_int_equal(unlink(path), 0);
}

#define LARGE (UINT64_C(320) << 20) /* XFS takes no less than 300 MiB */

struct place {
	char path[32];
	int fd;
};

static void place_make(struct place *place, uint64_t size)
{
	strcpy(place->path, "/tmp/branch-fs-test-XXXXXX");
	place->fd = mkstemp(place->path);
	assert_true(place->fd >= 0);
	assert_int_equal(ftruncate(place->fd, (off_t)size), 0);
}

static void place_done(struct place *place)
{
	assert_int_equal(unlink(place->path), 0);
	assert_int_equal(close(place->fd), 0);
}

/* Its exit code; -1: killed. */
static int run(const char *const *argv)
{
	struct process_result result;
	int r = process_run(argv, NULL, -1, -1, &result, NULL), code;

	assert_int_equal(r, 0);
	code = result.exit_code;
	process_result_done(&result);
	return code;
}

static uint32_t sum(const struct place *place)
{
	char block[4096];
	uint32_t crc = 0;

	for (off_t at = 0; at < (off_t)SMALL; at += (off_t)sizeof(block)) {
		assert_int_equal(pread(place->fd, block, sizeof(block), at),
				 sizeof(block));
		crc = crc32c(crc, block, sizeof(block));
	}
	return crc;
}

/* Contents that libblkid knows stay, also when a file system is asked for. */
static void never_makes_one_where_something_is(void **state)
{
	static const struct {
		const char *command; /* sh -c, $0: the file */
		const char *says;
	} made[] = {
		{"mkfs.ext4 -q -F \"$0\"", "holds ext4"},
		{"mkswap -q \"$0\"", "holds swap"},
		/* One partition of type 0x83, from sector 2048. */
		{"{ printf '\\0\\0\\0\\0\\203\\0\\0\\0\\0\\10\\0\\0\\0\\20\\0\\0';"
		 " head -c 48 /dev/zero; printf '\\125\\252'; } |"
		 " dd of=\"$0\" bs=1 seek=446 conv=notrunc",
		 "dos partitions"},
		/* LUKS 1: magic and version; a UUID at 168 */
		{"printf 'LUKS\\272\\276\\0\\1' | dd of=\"$0\" conv=notrunc",
		 "holds crypto_LUKS"},
	};

	(void)state;
	for (size_t i = 0; i < array_size(made); i++) {
		struct error err = {0};
		struct place place;
		const char *const argv[] = {"/bin/sh", "-c", made[i].command,
					    place.path, NULL};
		uint32_t before;

		place_make(&place, SMALL);
		assert_int_equal(run(argv), 0);
		before = sum(&place);
		assert_int_equal(branch_fs_make(place.path, "ext4", UUID, true,
						-1, &err),
				 -EUCLEAN);
		if (!strstr(err.msg, made[i].says))
			fail_msg("%s: %s", made[i].says, err.msg);
		assert_int_equal(sum(&place), before);
		place_done(&place);
	}
}

static void damage(const struct place *place)
{
	char block[4096];

	/* The group descriptors, and the inodes behind them. */
	memset(block, 0xa5, sizeof(block));
	for (off_t at = 4096; at < 200 * 4096; at += (off_t)sizeof(block))
		assert_int_equal(pwrite(place->fd, block, sizeof(block), at),
				 sizeof(block));
}

/* Its own is left as it is, and made again only if it never was mounted. */
static void keeps_its_own_unless_it_never_held_anything(void **state)
{
	struct error err = {0};
	struct place place;
	uint32_t before;

	(void)state;
	place_make(&place, SMALL);
	assert_int_equal(
		branch_fs_make(place.path, "ext4", UUID, true, -1, &err), 0);
	before = sum(&place);
	assert_int_equal(
		branch_fs_make(place.path, "ext4", UUID, false, -1, &err), 0);
	assert_int_equal(sum(&place), before);
	damage(&place);
	assert_int_equal(
		branch_fs_make(place.path, "ext4", UUID, false, -1, &err), 0);
	assert_int_equal(
		run((const char *const[]){"e2fsck", "-fn", place.path, NULL}),
		0);

	/* s_mtime; the checksum of the superblock goes with it. */
	assert_int_equal(
		run((const char *const[]){"debugfs", "-w", "-R",
					  "ssv mtime now", place.path, NULL}),
		0);
	damage(&place);
	before = sum(&place);
	assert_int_equal(
		branch_fs_make(place.path, "ext4", UUID, false, -1, &err),
		-EUCLEAN);
	assert_int_equal(sum(&place), before);
	place_done(&place);
}

/* mkfs killed at its Nth write, then run again. */
static void make_after_kill(const char *type, unsigned n, bool *ret_killed)
{
	char inject[64], uuid[64];
	struct error err = {0};
	struct branch_probe probe;
	struct place place;
	const char *const ext4[] = {"strace", "-qq",  "-o",        "/dev/null",
				    "-e",     inject, "mkfs.ext4", "-q",
				    "-F",     "-U",   UUID,        place.path,
				    NULL};
	const char *const xfs[] = {"strace",    "-qq",      "-f",   "-o",
				   "/dev/null", "-e",       inject, "mkfs.xfs",
				   "-q",        "-f",       "-K",   "-m",
				   uuid,        place.path, NULL};

	(void)snprintf(uuid, sizeof(uuid), "uuid=%s", UUID);
	(void)snprintf(inject, sizeof(inject),
		       "inject=pwrite64:signal=KILL:when=%u", n);
	place_make(&place, LARGE);
	*ret_killed = run(strcmp(type, "xfs") == 0 ? xfs : ext4) != 0;
	if (branch_fs_make(place.path, type, UUID, false, -1, &err) < 0)
		fail_msg("%s, killed at write %u: %s", type, n, err.msg);
	assert_int_equal(branch_fs_probe(place.path, &probe, NULL), 0);
	assert_string_equal(probe.uuid, UUID);
	assert_int_equal(run(strcmp(type, "xfs") == 0
				     ? (const char *const[]){"xfs_repair", "-n",
							     place.path, NULL}
				     : (const char *const[]){"e2fsck", "-fn",
							     place.path, NULL}),
			 0);
	place_done(&place);
}

static void goes_on_wherever_mkfs_was_killed(void **state)
{
	static const char *const types[] = {"xfs", "ext4"};

	(void)state;
	for (size_t i = 0; i < array_size(types); i++) {
		bool killed = true;

		for (unsigned n = 1; killed; n += n < 4 ? 1 : 9)
			make_after_kill(types[i], n, &killed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_why_mkfs_failed),
		cmocka_unit_test(never_makes_one_where_something_is),
		cmocka_unit_test(keeps_its_own_unless_it_never_held_anything),
		cmocka_unit_test(goes_on_wherever_mkfs_was_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
