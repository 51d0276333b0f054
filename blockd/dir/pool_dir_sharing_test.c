/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a dir pool says its extents and snapshots have in common, with and
 * without reflinks, as the file system below $TMPDIR has it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "blockd/testkit/pool_dir_kit.h"

/* Send written data on its way to the medium, else a piece has no place. */
static void sync_all(struct pool_dir_kit *k)
{
	auto_close int fd = open(k->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(syncfs(fd), 0);
}

/* @snapshots: names, separated by spaces. */
static int ask(struct pool_dir_kit *k, const char *snapshots,
	       struct pool_sharing *ret)
{
	char copy[64], *rest = copy;
	const char *names[8];
	size_t n = 0;

	(void)snprintf(copy, sizeof(copy), "%s", snapshots);

	for (char *name; (name = strsep(&rest, " "));)
		if (*name)
			names[n++] = name;
	return k->pool->ops->sharing(k->pool, names, n, ret, NULL);
}

/* Written data is told of a moment later; other changes are at once. */
static void is(struct pool_dir_kit *k, const char *snapshots, uint64_t shared,
	       uint64_t reclaimable)
{
	struct pool_sharing sharing = {0};

	for (int i = 0; i < 300; i++) {
		sync_all(k);
		assert_int_equal(ask(k, snapshots, &sharing), 0);
		if (sharing.shared == shared &&
		    sharing.reclaimable == reclaimable)
			return;
		(void)usleep(100000);
	}
	fail_msg("with '%s': %llu are shared, not %llu; %llu only snapshots', "
		 "not %llu",
		 snapshots, (unsigned long long)sharing.shared,
		 (unsigned long long)shared,
		 (unsigned long long)sharing.reclaimable,
		 (unsigned long long)reclaimable);
}

static void erase(struct pool_dir_kit *k, const char *name)
{
	assert_int_equal(k->pool->ops->begin_delete(k->pool, name, NULL), 0);
	assert_int_equal(k->pool->ops->erase(k->pool, name, NULL), 0);
}

static void copy(struct pool_dir_kit *k, const char *from, const char *to)
{
	assert_int_equal(pool_dir_kit_copy_to(k, from, to, SIZE, NULL), 0);
}

static void counts_what_several_have_once(void **state)
{
	struct pool_dir_kit *k = *state;

	pool_dir_kit_create(k, "x", SIZE);
	pool_dir_kit_put(k, "x", 'x', 0, 3 * MIB);
	is(k, "", 0, 0);
	copy(k, "x", "s1");
	is(k, "s1", 3 * MIB, 0);
	copy(k, "x", "s2");
	copy(k, "s1", "c");
	is(k, "s1 s2", 3 * MIB, 0);
	/* The second MiB is the snapshots' and the clone's now. */
	pool_dir_kit_put(k, "x", 'y', MIB, MIB);
	is(k, "s1 s2", 3 * MIB, 0);
	/* The clone's, too: what only snapshots have. */
	pool_dir_kit_put(k, "c", 'z', MIB, MIB);
	is(k, "s1 s2", 3 * MIB, MIB);
	erase(k, "s2");
	is(k, "s1", 2 * MIB, MIB);
	erase(k, "x");
	is(k, "s1", 2 * MIB, MIB);
	erase(k, "c");
	is(k, "s1", 0, 3 * MIB);
	erase(k, "s1");
	is(k, "", 0, 0);
}

static void a_revert_shares_again(void **state)
{
	struct pool_dir_kit *k = *state;

	pool_dir_kit_create(k, "x", SIZE);
	pool_dir_kit_put(k, "x", 'x', 0, 2 * MIB);
	copy(k, "x", "s");
	pool_dir_kit_put(k, "x", 'y', 0, 2 * MIB);
	is(k, "s", 0, 2 * MIB);
	assert_int_equal(pool_dir_kit_revert_to(k, "x", "s", SIZE), 0);
	is(k, "s", 2 * MIB, 0);
}

static void what_was_copied_is_a_snapshots_alone(void **state)
{
	struct pool_dir_kit *k = *state;

	pool_dir_kit_create(k, "x", SIZE);
	pool_dir_kit_put(k, "x", 'x', 0, 2 * MIB);
	copy(k, "x", "s");
	is(k, "s", 0, pool_dir_kit_allocated(k, "s"));
	is(k, "", 0, 0);
}

/* New files are compressed from here on; false: its file system can't. */
static bool compress(struct pool_dir_kit *k)
{
	char path[300];
	int flags = FS_COMPR_FL;
	auto_close int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/extents", k->dir);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

/*
 * As on Btrfs: the length of a piece says nothing of the space that it takes.
 */
static void does_not_guess_what_is_compressed(void **state)
{
	struct pool_dir_kit *k = *state;
	struct pool_sharing sharing;

	if (!compress(k))
		skip();
	pool_dir_kit_create(k, "x", SIZE);
	pool_dir_kit_put(k, "x", 'x', 0, SIZE);
	sync_all(k);
	assert_int_equal(ask(k, "", &sharing), -EOPNOTSUPP);
}

static bool has_reflinks(void)
{
	struct pool_dir_kit *k;
	void *state;
	bool has;

	(void)pool_dir_kit_setup(&state);
	k = state;
	has = pool_dir_kit_reflinks(k);
	(void)pool_dir_kit_teardown(&state);
	return has;
}

int main(void)
{
#define T(name)                                                   \
	cmocka_unit_test_setup_teardown(name, pool_dir_kit_setup, \
					pool_dir_kit_teardown)
	const struct CMUnitTest sharing[] = {
		T(counts_what_several_have_once),
		T(a_revert_shares_again),
		T(does_not_guess_what_is_compressed),
	};
	const struct CMUnitTest copying[] = {
		T(what_was_copied_is_a_snapshots_alone),
	};

	return has_reflinks() ? cmocka_run_group_tests(sharing, NULL, NULL)
			      : cmocka_run_group_tests(copying, NULL, NULL);
}
