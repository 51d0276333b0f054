/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/ino_preserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_work.h"
#include "union/branch/intent.h"
#include "union/sys/empty_dir.h"
#include "union/sys/inode_number.h"

#define MARK "numbers"

static bool note_read(int fd, unsigned *ret_place, unsigned *ret_turn)
{
	char text[32] = "", end = 0;
	unsigned place, turn;

	if (read(fd, text, sizeof(text) - 1) < 0 ||
	    sscanf(text, "%3u %3u%c", &place, &turn, &end) != 3 ||
	    end != '\n' || place >= BRANCH_MAX || turn > INODE_TURN_MAX)
		return false;
	*ret_place = place;
	*ret_turn = turn;
	return true;
}

static void look_for_place(struct branch *branch)
{
	auto_close int fd = openat(branch->root_fd,
				   BRANCH_WORK_DIR "/" INO_PLACE_FILE,
				   O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	unsigned place = branch->id, turn = 0;

	if (fd >= 0 && !note_read(fd, &place, &turn))
		log_warning("branch '%s': its note of a place makes no sense: "
			    "files there have the inode numbers of branch %u",
			    branch->path, branch->id);
	atomic_store(&branch->place, place);
	atomic_store(&branch->turn, turn);
}

void ino_preserve_look(struct branch *branch)
{
	struct stat st;

	atomic_store(&branch->has_numbers,
		     fstatat(branch->root_fd, BRANCH_WORK_DIR "/" MARK, &st,
			     AT_SYMLINK_NOFOLLOW) == 0);
	look_for_place(branch);
}

int ino_preserve_mark(struct branch *branch)
{
	auto_close int work = -1, fd = -1;
	int r;

	if (atomic_load(&branch->has_numbers))
		return 0;
	work = branch_work_dir(branch);
	if (work < 0)
		return work;
	fd = openat(work, MARK, O_CREAT | O_WRONLY | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	r = fd < 0 ? -errno : intent_sync_dir(work);
	if (r == 0)
		atomic_store(&branch->has_numbers, true);
	return r;
}

int ino_preserve_ask(const struct branch *branch, int dirfd, const char *name,
		     uint64_t ino, uint64_t *ret)
{
	int r = inode_number_read(dirfd, name, ret);

	if (r != -ENODATA)
		return r;
	*ret = branch_number(branch, ino);
	return 0;
}

void ino_preserve_name(uint64_t number, char *ret)
{
	(void)snprintf(ret, INO_PRESERVE_NAME_MAX, "moved-%016llx",
		       (unsigned long long)number); /* fits */
}

bool ino_preserve_is_stub(const struct branch *branch, uint64_t number,
			  const struct handle *handle)
{
	auto_close int work = branch_work_dir(branch);
	char stub[INO_PRESERVE_NAME_MAX];
	struct handle found;

	ino_preserve_name(number, stub);
	return work >= 0 && handle_get(work, stub, &found) == 0 &&
	       handle_equal(&found, handle);
}

/*
 * Find the branch that gave @number; NULL: none that is there. A branch of a
 * later turn gave only numbers of that turn.
 */
static struct branch *branch_of_number(const struct branch_table *table,
				       uint64_t number)
{
	const unsigned place = inode_number_branch(number);
	const unsigned turn = (unsigned)(number >> INODE_TURN_SHIFT) &
			      INODE_TURN_MAX;
	struct branch *first = NULL;
	unsigned i, count = table->count;

	for (i = 0; i < count; i++) {
		struct branch *branch = table->items[i];

		if (branch->place != place || branch->flags & BRANCH_GONE)
			continue;
		if (branch->turn == turn)
			return branch;
		if (!branch->turn)
			first = branch; /* of a number that has these bits */
	}
	return first;
}

/* Remove the stub that keeps @number, if its branch can be asked. */
static void remove_stub(const struct branch_table *table, uint64_t number,
			int flags)
{
	const struct branch *first = branch_of_number(table, number);
	auto_close int work = -1;
	char name[INO_PRESERVE_NAME_MAX];

	if (!first || !branch_usable(first->id) || first->flags & BRANCH_RO)
		return;
	ino_preserve_name(number, name);
	work = branch_work_dir(first);
	/* A stub that stays only keeps a number that nobody uses. */
	if (work >= 0)
		(void)unlinkat(work, name, flags);
}

void ino_preserve_end(const struct branch_table *table, unsigned branch, int fd)
{
	uint64_t number;

	if (atomic_load(&table->items[branch]->has_numbers) &&
	    inode_number_read(fd, "", &number) == 0)
		remove_stub(table, number, 0);
}

void ino_preserve_end_dir(const struct branch_table *table, int fd)
{
	uint64_t number;

	if (inode_number_read(fd, "", &number) == 0)
		remove_stub(table, number, AT_REMOVEDIR);
}

/* Look into it before and after: others may change the branch, too. */
static int make_stub(const struct branch *branch, int dirfd, const char *name,
		     uint64_t number)
{
	auto_close int work = branch_work_dir(branch);
	char kept[INO_PRESERVE_NAME_MAX];
	int r = work < 0 ? work : empty_dir_check(dirfd, name);

	if (r < 0)
		return r;
	ino_preserve_name(number, kept);
	if (renameat2(dirfd, name, work, kept, RENAME_NOREPLACE) < 0)
		return -errno;
	r = empty_dir_check(work, kept);
	if (r < 0 && renameat2(work, kept, dirfd, name, RENAME_NOREPLACE) < 0)
		return -errno;
	return r;
}

int ino_preserve_remove_copy(const struct branch *branch, int dirfd,
			     const char *name, uint64_t number)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	/* Without a stub the number may be given again, no more. */
	if (branch_number(branch, st.st_ino) == number &&
	    make_stub(branch, dirfd, name, number) == 0)
		return 0;
	if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
		return errno == EEXIST ? -ENOTEMPTY : -errno;
	return 0;
}
