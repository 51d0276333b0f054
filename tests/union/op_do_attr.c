/* SPDX-License-Identifier: Apache-2.0 */
/* Owners, modes, times. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6 */
#endif

static void do_chmod(const struct op *op, const char *path, int fd)
{
	switch (op->way % 4) {
	case 0: say_result(fchmod(fd, op->mode)); break;
	case 1:
		say_result(syscall(SYS_fchmodat2, AT_FDCWD, path, op->mode,
				   AT_SYMLINK_NOFOLLOW));
		break;
	default: say_result(chmod(path, op->mode)); break;
	}
}

/*
 * Tell whether a chown can be told from the kernel's request before a write. A
 * chown to nobody and no group, by another user, cannot, where the file is open
 * for writing.
 */
static bool is_told_from_a_write(const struct op *op, const char *path, int fd)
{
	struct stat st;
	int r = op->way % 4 == 0   ? fstat(fd, &st)
		: op->way % 4 == 1 ? lstat(path, &st)
				   : stat(path, &st);

	return op->uid >= 0 || op->gid >= 0 || geteuid() == 0 || r < 0 ||
	       st.st_uid == geteuid();
}

static void do_chown(const struct op *op, const char *path, int fd)
{
	uid_t uid = (uid_t)op->uid;
	gid_t gid = (gid_t)op->gid;

	if (!is_told_from_a_write(op, path, fd))
		return;
	switch (op->way % 4) {
	case 0: say_result(fchown(fd, uid, gid)); break;
	case 1: say_result(lchown(path, uid, gid)); break;
	default: say_result(chown(path, uid, gid)); break;
	}
}

static void do_utimens(const struct op *op, const char *path, int fd)
{
	struct timespec times[2];
	int i;

	for (i = 0; i < 2; i++) {
		times[i].tv_sec = op->seconds[i];
		times[i].tv_nsec = op->nanoseconds[i];
	}
	switch (op->way % 4) {
	case 0: say_result(futimens(fd, times)); break;
	case 1:
		say_result(
			utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW));
		break;
	case 2: say_result(utimensat(AT_FDCWD, path, NULL, 0)); break;
	default: say_result(utimensat(AT_FDCWD, path, times, 0)); break;
	}
}

/* Which the kernel asks a union for since Linux 6.6. */
static unsigned birth_mask(void)
{
	unsigned major = 0, minor = 0;
	struct utsname name;

	if (uname(&name) < 0 ||
	    sscanf(name.release, "%u.%u", &major, &minor) != 2)
		return 0;
	return major > 6 || (major == 6 && minor >= 6) ? STATX_BTIME : 0;
}

static void do_stat(const struct op *op, const char *path)
{
	unsigned mask = STATX_BASIC_STATS | birth_mask();
	static const int flags[] = {AT_SYMLINK_NOFOLLOW, 0,
				    AT_STATX_FORCE_SYNC};
	struct statx x;
	struct stat st;
	int r;

	if (op->way % 3) {
		r = fstatat(AT_FDCWD, path, &st,
			    op->way & 1 ? 0 : AT_SYMLINK_NOFOLLOW);
		say_result(r);
		if (r == 0)
			say_stat(&st);
		return;
	}
	r = statx(AT_FDCWD, path, flags[(unsigned)op->slot % array_size(flags)],
		  mask, &x);
	say_result(r);
	if (r == 0)
		say(" mode=%o links=%lu owner=%u:%u mask=%x", x.stx_mode,
		    op_links(x.stx_mode, x.stx_nlink), x.stx_uid, x.stx_gid,
		    x.stx_mask & mask);
}

/* Are two names one file? */
static void do_same(const char *path, const char *path2, int fd)
{
	struct stat a, b, c;
	int r = lstat(path, &a), r2 = lstat(path2, &b), r3 = fstat(fd, &c);

	say(" %d %d %d", r, r2, r3);
	if (r == 0 && r2 == 0)
		say(" %s", a.st_ino == b.st_ino ? "same" : "two");
	if (r == 0 && r3 == 0)
		say(" %s", a.st_ino == c.st_ino ? "open" : "other");
	if (r == 0 && r2 == 0 && a.st_dev != b.st_dev)
		say(" on two devices");
}

void op_do_attr(const struct op *op, int *fds)
{
	static const int access_flags[] = {0, AT_EACCESS, AT_SYMLINK_NOFOLLOW};
	char buf[OP_FULL_PATH_MAX], buf2[OP_FULL_PATH_MAX];
	const char *path = op_path(op->path, buf);
	const char *path2 = op_path(op->path2, buf2);
	int fd = fds[op->slot];

	switch (op->kind) {
	case OP_CHMOD: do_chmod(op, path, fd); break;
	case OP_CHOWN: do_chown(op, path, fd); break;
	case OP_UTIMENS: do_utimens(op, path, fd); break;
	case OP_ACCESS:
		say_result(faccessat(AT_FDCWD, path, op->flags & 7,
				     access_flags[(unsigned)op->way % 3]));
		break;
	case OP_STAT: do_stat(op, path); break;
	default: do_same(path, path2, fd); break;
	}
}
