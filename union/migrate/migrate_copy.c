/* SPDX-License-Identifier: Apache-2.0 */
/* The copy of a file that moves. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_work.h"
#include "union/branch/ino_preserve.h"
#include "union/migrate/migration.h"
#include "union/sys/attrs.h"
#include "union/sys/inode_number.h"
#include "union/view/btime.h"

#define PASSES   16           /* over parts that change meanwhile */
#define LAST     (4u << 20)   /* bytes that are copied while others wait */
#define LAST_MAX (256u << 20) /* of a file written as fast as it is copied */

static int make_special(const struct migration *m, int work)
{
	char target[PATH_MAX];
	ssize_t n;
	int r;

	if (S_ISLNK(m->st.st_mode)) {
		n = readlinkat(m->old_fd, "", target, sizeof(target) - 1);
		if (n < 0)
			return -errno;
		target[n] = '\0';
		r = symlinkat(target, work, m->r.temporary);
	} else {
		r = mknodat(work, m->r.temporary,
			    (m->st.st_mode & S_IFMT) | 0600, m->st.st_rdev);
	}
	if (r < 0)
		return -errno;
	r = openat(work, m->r.temporary, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

int migration_make_copy(struct migration *m)
{
	auto_close int work = -1;
	int fd, r = ino_preserve_mark(m->move->to);

	if (r < 0)
		return r;
	work = branch_work_dir(m->move->to);
	if (work < 0)
		return work;
	relocate_temporary(m->r.temporary);
	fd = S_ISREG(m->st.st_mode)
		     ? openat(work, m->r.temporary,
			      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
		     : make_special(m, work);
	if (fd < 0)
		return S_ISREG(m->st.st_mode) ? -errno : fd;
	m->copy_fd = fd;
	return handle_get(fd, "", &m->r.copy);
}

/* Copy all changed parts once more. */
static int copy_changes(struct migration *m, const struct copy_pace *pace)
{
	struct dirty_list *list = &m->fs->dirty;
	uint64_t at = 0, end = 0;
	int r = 0;

	while (r == 0 && end != UINT64_MAX &&
	       dirty_ranges_take(list, m->dirty, end, &at, &end))
		r = copy_data(m->old_fd, m->copy_fd, at, end, false, pace);
	return r;
}

int migration_copy_content(struct migration *m)
{
	struct dirty_list *list = &m->fs->dirty;
	uint64_t left, before = UINT64_MAX;
	int i, r;

	if (!S_ISREG(m->st.st_mode))
		return 0;
	dirty_ranges_begin(list, m->dirty, m->move->from->id, &m->move->file,
			   (uint64_t)m->st.st_size);
	/* From here on the kernel passes it through to nobody. */
	(void)migration_find_node(m);
	r = migration_check_pinned(m);
	if (r == 0)
		r = copy_data(m->old_fd, m->copy_fd, 0, UINT64_MAX, true,
			      m->move->pace);
	for (i = 0; r == 0; i++) {
		if (fdatasync(m->copy_fd) < 0)
			return -errno;
		left = dirty_ranges_count(list, m->dirty) * m->dirty->part;
		if (left <= LAST)
			break;
		if (i == PASSES || left > before / 2)
			return left <= LAST_MAX ? 0 : -EBUSY;
		before = left;
		r = copy_changes(m, m->move->pace);
	}
	return r;
}

/* Find the st_ino, which stays. */
static int find_number(struct migration *m)
{
	int r = 0;

	if (m->node)
		m->r.number = m->node->ino;
	else
		r = ino_preserve_read(m->move->from, m->old_fd, "",
				      m->st.st_ino, &m->r.number);
	m->r.keeps = m->r.number == branch_number(m->move->from, m->st.st_ino);
	return r;
}

/* Keep the time of birth. Without room for it that of the copy counts. */
static void keep_file_birth(const struct migration *m)
{
	struct timespec birth;

	if (btime_read(m->old_fd, &birth) == 0)
		(void)btime_write(m->copy_fd, &birth);
}

int migration_finish_copy(struct migration *m)
{
	bool regular = S_ISREG(m->st.st_mode);
	struct timespec accessed = m->st.st_atim;
	int r = regular ? copy_changes(m, NULL) : 0;

	if (r == 0 && fstat(m->old_fd, &m->st) < 0)
		r = -errno;
	if (S_ISLNK(m->st.st_mode)) /* by the server: see make_special() */
		m->st.st_atim = accessed;
	if (r == 0 && regular && ftruncate(m->copy_fd, m->st.st_size) < 0)
		r = -errno;
	if (r == 0)
		r = attrs_copy(m->old_fd, &m->st, m->copy_fd);
	if (r == 0)
		r = find_number(m);
	if (r == 0)
		keep_file_birth(m);
	if (r == 0)
		r = inode_number_write(m->copy_fd, m->r.number);
	if (r == 0 &&
	    utimensat(m->copy_fd, "",
		      (struct timespec[]){m->st.st_atim, m->st.st_mtim},
		      AT_EMPTY_PATH) < 0)
		r = -errno;
	if (r == 0 && regular && fsync(m->copy_fd) < 0)
		r = -errno;
	return r;
}
