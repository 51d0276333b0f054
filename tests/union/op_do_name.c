/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come and go. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

static void do_symlink(const struct op *op, const char *path)
{
	static const char *const targets[] = {"a",    "b/c",     "../a", "/d/e",
					      "..",   "nowhere", "",     "h0",
					      "./a/", "e"};
	char target[PATH_MAX + 1];
	size_t length = op->seed % 2 ? PATH_MAX - 1 : PATH_MAX;

	if (op->way) {
		say_result(
			symlink(targets[op->seed % array_size(targets)], path));
		return;
	}
	op_fill(1, target, length);
	for (size_t i = 0; i < length; i++)
		target[i] = (char)('a' + (target[i] & 15));
	target[length] = '\0';
	say_result(symlink(target, path));
}

static void do_readlink(const struct op *op, const char *path)
{
	char target[PATH_MAX];
	size_t size = op->way ? sizeof(target) : 3;
	ssize_t n = readlink(path, target, size);

	say_result(n);
	if (n > 0)
		say(" %llx", (unsigned long long)op_sum(target, (size_t)n));
}

static void do_mknod(const struct op *op, const char *path)
{
	static const unsigned types[] = {S_IFIFO, S_IFREG, S_IFSOCK,
					 S_IFCHR, S_IFBLK, S_IFDIR};
	unsigned type = types[op->seed % array_size(types)];

	say_result(mknod(path, type | (op->mode & 07777), makedev(1, 3)));
}

static void do_link(const struct op *op, const char *from, const char *to)
{
	static const int flags[] = {0, 0, 0, AT_SYMLINK_FOLLOW, 1 << 20};

	say_result(linkat(AT_FDCWD, from, AT_FDCWD, to,
			  flags[(unsigned)op->way % array_size(flags)]));
}

/* An open file, maybe without a name, gets one. */
static void do_link_open(int fd, const char *to)
{
	say_result(linkat(fd, "", AT_FDCWD, to, AT_EMPTY_PATH));
}

void op_do_name(const struct op *op, int *fds)
{
	char buf[OP_FULL_PATH_MAX], buf2[OP_FULL_PATH_MAX];
	const char *path = op_path(op->path, buf);
	const char *path2 = op_path(op->path2, buf2);

	(void)umask(op->seed % 3 ? 022 : 0);
	switch (op->kind) {
	case OP_MKDIR: say_result(mkdir(path, op->mode)); break;
	case OP_RMDIR: say_result(rmdir(path)); break;
	case OP_UNLINK:
		say_result(unlinkat(AT_FDCWD, path, op->way ? 0 : 77));
		break;
	case OP_RENAME:
		say_result(renameat2(AT_FDCWD, path, AT_FDCWD, path2,
				     (unsigned)op->flags));
		break;
	case OP_LINK: do_link(op, path, path2); break;
	case OP_LINK_OPEN: do_link_open(fds[op->slot], path2); break;
	case OP_SYMLINK: do_symlink(op, path); break;
	case OP_READLINK: do_readlink(op, path); break;
	default: do_mknod(op, path); break;
	}
	(void)umask(022);
}
