/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system of a kind that nobody knows, over a directory: it takes some
 * names for one. Until it is unmounted.
 *
 *   folding_fs WAY DIRECTORY MOUNTPOINT
 *
 * WAY: "case" (a letter in either case), "wide" (the same of one that is not
 * ASCII), "composed" (a letter of one or two characters), "dots" (those at the
 * end), or "none".
 */
#define FUSE_USE_VERSION 314

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"

static const char *way;
static int top = -1;

static void replace(char *path, const char *from, const char *to)
{
	char rest[PATH_MAX], *at;

	while ((at = strstr(path, from))) {
		(void)snprintf(rest, sizeof(rest), "%s", at + strlen(from));
		(void)sprintf(at, "%s%s", to, rest); /* no longer than it was */
	}
}

/* The name that it has on the directory, below it; returns @ret. */
static const char *fold(const char *path, char ret[PATH_MAX])
{
	size_t n;

	(void)snprintf(ret, PATH_MAX, "%s", path[1] ? path + 1 : ".");
	n = strlen(ret);
	if (strcmp(way, "case") == 0)
		for (char *c = ret; *c; c++)
			*c = (char)tolower(*c);
	else if (strcmp(way, "wide") == 0)
		replace(ret, "\xc3\x84", "\xc3\xa4");
	else if (strcmp(way, "composed") == 0)
		replace(ret, "A\xcc\x88", "\xc3\x84");
	else if (strcmp(way, "dots") == 0)
		while (n > 1 && ret[n - 1] == '.')
			ret[--n] = '\0';
	return ret;
}

static int result(int r)
{
	return r < 0 ? -errno : 0;
}

static int folding_getattr(const char *path, struct stat *st,
			   struct fuse_file_info *info)
{
	char real[PATH_MAX];

	(void)info;
	return result(fstatat(top, fold(path, real), st, AT_SYMLINK_NOFOLLOW));
}

static int folding_mkdir(const char *path, mode_t mode)
{
	char real[PATH_MAX];

	return result(mkdirat(top, fold(path, real), mode));
}

static int folding_rmdir(const char *path)
{
	char real[PATH_MAX];

	return result(unlinkat(top, fold(path, real), AT_REMOVEDIR));
}

static int folding_unlink(const char *path)
{
	char real[PATH_MAX];

	return result(unlinkat(top, fold(path, real), 0));
}

static int folding_chmod(const char *path, mode_t mode,
			 struct fuse_file_info *info)
{
	char real[PATH_MAX];

	(void)info;
	return result(fchmodat(top, fold(path, real), mode, 0));
}

static int folding_chown(const char *path, uid_t uid, gid_t gid,
			 struct fuse_file_info *info)
{
	char real[PATH_MAX];

	(void)info;
	return result(
		fchownat(top, fold(path, real), uid, gid, AT_SYMLINK_NOFOLLOW));
}

static int folding_utimens(const char *path, const struct timespec times[2],
			   struct fuse_file_info *info)
{
	char real[PATH_MAX];

	(void)info;
	return result(
		utimensat(top, fold(path, real), times, AT_SYMLINK_NOFOLLOW));
}

static int folding_create(const char *path, mode_t mode,
			  struct fuse_file_info *info)
{
	char real[PATH_MAX];
	int fd = openat(top, fold(path, real), O_RDWR | O_CREAT | O_CLOEXEC,
			mode);

	info->fh = (uint64_t)fd;
	return result(fd);
}

static int folding_open(const char *path, struct fuse_file_info *info)
{
	char real[PATH_MAX];
	int fd = openat(top, fold(path, real), info->flags | O_CLOEXEC);

	info->fh = (uint64_t)fd;
	return result(fd);
}

static int folding_read(const char *path, char *data, size_t size, off_t offset,
			struct fuse_file_info *info)
{
	ssize_t n = pread((int)info->fh, data, size, offset);

	(void)path;
	return n < 0 ? -errno : (int)n;
}

static int folding_write(const char *path, const char *data, size_t size,
			 off_t offset, struct fuse_file_info *info)
{
	ssize_t n = pwrite((int)info->fh, data, size, offset);

	(void)path;
	return n < 0 ? -errno : (int)n;
}

static int folding_release(const char *path, struct fuse_file_info *info)
{
	(void)path;
	return result(close((int)info->fh));
}

static int folding_statfs(const char *path, struct statvfs *st)
{
	(void)path;
	return result(fstatvfs(top, st));
}

static int folding_readdir(const char *path, void *list, fuse_fill_dir_t fill,
			   off_t offset, struct fuse_file_info *info,
			   enum fuse_readdir_flags flags)
{
	char real[PATH_MAX];
	DIR *dir = fdopendir(openat(top, fold(path, real),
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	const struct dirent *entry;

	(void)offset;
	(void)info;
	(void)flags;
	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (fill(list, entry->d_name, NULL, 0, 0) != 0)
			break;
	(void)closedir(dir);
	return 0;
}

static void *folding_init(struct fuse_conn_info *connection,
			  struct fuse_config *config)
{
	(void)connection;
	config->use_ino = 1;
	return NULL;
}

int main(int argc, char **argv)
{
	static const struct fuse_operations operations = {
		.init = folding_init,
		.getattr = folding_getattr,
		.mkdir = folding_mkdir,
		.rmdir = folding_rmdir,
		.unlink = folding_unlink,
		.chmod = folding_chmod,
		.chown = folding_chown,
		.utimens = folding_utimens,
		.create = folding_create,
		.open = folding_open,
		.read = folding_read,
		.write = folding_write,
		.release = folding_release,
		.statfs = folding_statfs,
		.readdir = folding_readdir,
	};
	char *args[] = {argv[0], "-f", "-s", argc == 4 ? argv[3] : NULL, NULL};

	if (argc != 4) {
		(void)fprintf(stderr, "usage: folding_fs WAY DIRECTORY "
				      "MOUNTPOINT\n");
		return 2;
	}
	way = argv[1];
	top = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0) {
		perror(argv[2]);
		return 1;
	}
	return fuse_main(array_size(args) - 1, args, &operations, NULL);
}
