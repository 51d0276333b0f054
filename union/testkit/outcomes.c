/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random file system calls in the current directory, with their outcomes on
 * standard output: two file systems that behave alike print the same.
 *
 *	outcomes SEED COUNT [UID]
 *
 * With UID, one call in four is made as that user and group. Numbers that
 * differ by right (inode numbers, times, sizes of directories) are checked for
 * the rules they must obey, not printed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DEPTH     3
#define NAMES     5
#define PATH_SIZE 64

static uint64_t state;

static unsigned pick(unsigned below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % below;
}

static const char *random_path(char *buf)
{
	unsigned i, depth = 1 + pick(DEPTH);
	size_t n = 0;

	for (i = 0; i < depth; i++)
		n += (size_t)snprintf(buf + n, PATH_SIZE - n, "%s%c",
				      i ? "/" : "", 'a' + (int)pick(NAMES));
	return buf;
}

static void result(const char *call, const char *one, const char *two, long r)
{
	printf("%s %s %s: %ld %s\n", call, one, two, r < 0 ? -1 : r,
	       r < 0 ? strerrorname_np(errno) : "");
}

static void show_stat(const char *path)
{
	struct stat st;
	int r = lstat(path, &st);

	result("lstat", path, "", r);
	if (r < 0)
		return;
	printf("  mode %o links %lu owner %u:%u device %u:%u", st.st_mode,
	       (unsigned long)st.st_nlink, st.st_uid, st.st_gid,
	       major(st.st_rdev), minor(st.st_rdev));
	if (!S_ISDIR(st.st_mode))
		printf(" size %lld", (long long)st.st_size);
	putchar('\n');
	if (st.st_ctim.tv_sec < st.st_mtim.tv_sec - 1 &&
	    st.st_mtim.tv_sec < 1000000000)
		puts("  changed before it was modified");
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void show_dir(const char *path)
{
	char *names[NAMES * 4 + 8], where[PATH_SIZE * 5];
	const struct dirent *entry;
	size_t i, n = 0;
	struct stat st;
	DIR *dir = opendir(path);

	result("opendir", path, "", dir ? 0 : -1);
	while (dir && n < array_size(names) && (entry = readdir(dir))) {
		(void)snprintf(where, sizeof(where), "%s/%s", path,
			       entry->d_name);
		if (strcmp(entry->d_name, "..") != 0 &&
		    lstat(where, &st) == 0 &&
		    (st.st_ino != entry->d_ino ||
		     (entry->d_type != DT_UNKNOWN &&
		      DTTOIF(entry->d_type) != (int)(st.st_mode & S_IFMT))))
			printf("  %s: listed as %llx, is %llx\n", where,
			       (unsigned long long)entry->d_ino,
			       (unsigned long long)st.st_ino);
		if (strcmp(path, ".") != 0 ||
		    strcmp(entry->d_name, "lost+found") != 0)
			names[n++] = strdup(entry->d_name);
	}
	if (dir)
		(void)closedir(dir);
	qsort(names, n, sizeof(names[0]), compare_names);
	for (i = 0; i < n; i++) {
		printf("  %s\n", names[i]);
		free(names[i]);
	}
}

static void write_file(const char *path)
{
	static const int flags[] = {O_CREAT, O_CREAT | O_EXCL,
				    O_CREAT | O_TRUNC, O_APPEND,
				    O_CREAT | O_APPEND};
	char data[5000];
	size_t length = pick(sizeof(data));
	off_t offset = pick(20000);
	int how = flags[pick(array_size(flags))];
	int fd = open(path, O_RDWR | how | O_NOFOLLOW, 0666 - 022 * pick(2));

	memset(data, 'a' + (int)pick(26), sizeof(data));
	result("open", path, how & O_EXCL ? "new" : "", fd < 0 ? -1 : 0);
	if (fd < 0)
		return;
	result("pwrite", path, "", pwrite(fd, data, length, offset));
	show_stat(path);
	close(fd);
}

static void read_file(const char *path)
{
	char data[8192];
	uint32_t sum = 2166136261u;
	ssize_t n = 0, i;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);

	result("open", path, "to read", fd < 0 ? -1 : 0);
	while (fd >= 0 && (n = read(fd, data, sizeof(data))) > 0)
		for (i = 0; i < n; i++)
			sum = (sum ^ (uint8_t)data[i]) * 16777619u;
	if (fd < 0)
		return;
	result("read", path, "", n);
	printf("  data %08x\n", sum);
	close(fd);
}

static void rename_path(const char *from)
{
	static const unsigned flags[] = {0, 0, 0, 0, RENAME_NOREPLACE};
	char to[PATH_SIZE];
	unsigned how = flags[pick(array_size(flags))];

	random_path(to);
	result(how ? "rename-noreplace" : "rename", from, to,
	       renameat2(AT_FDCWD, from, AT_FDCWD, to, how));
	show_stat(to);
}

static void link_path(const char *from)
{
	char to[PATH_SIZE];
	struct stat one, two;

	random_path(to);
	result("link", from, to, link(from, to));
	if (lstat(from, &one) == 0 && lstat(to, &two) == 0 &&
	    (one.st_ino == two.st_ino) !=
		    (one.st_nlink > 1 && one.st_ino == two.st_ino))
		puts("  one inode with one link");
	show_stat(to);
}

static void set_xattr(const char *path)
{
	char value[100];
	size_t length = pick(sizeof(value));

	memset(value, 'a' + (int)pick(26), sizeof(value));
	result("setxattr", path, "",
	       lsetxattr(path, "user.test", value, length,
			 (int)pick(3) /* any, CREATE, REPLACE */));
}

static void get_xattr(const char *path)
{
	char value[200] = "";

	result("getxattr", path, "",
	       lgetxattr(path, "user.test", value, sizeof(value) - 1));
	printf("  %s\n", value);
	result("removexattr", path, "",
	       pick(2) ? lremovexattr(path, "user.test") : 0);
}

static void change_times(const char *path)
{
	struct timespec times[2] = {{.tv_sec = pick(1000000)},
				    {.tv_sec = pick(1000000)}};
	struct stat st;
	int r = utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);

	result("utimensat", path, "", r);
	if (r == 0 && lstat(path, &st) == 0)
		printf("  %lld %lld\n", (long long)st.st_atim.tv_sec,
		       (long long)st.st_mtim.tv_sec);
}

/* The time of a directory moves when its names do, and only then. */
static void check_time(const char *path)
{
	struct timespec times[2] = {{.tv_sec = 5}, {.tv_sec = 5}};
	char inside[PATH_SIZE + 8];
	struct stat st;

	if (utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	(void)snprintf(inside, sizeof(inside), "%s/timed", path);
	result("mkdir", inside, "", mkdir(inside, 0755));
	if (lstat(path, &st) == 0)
		printf("  modified %s\n",
		       st.st_mtim.tv_sec == 5 ? "no" : "yes");
	(void)rmdir(inside);
}

static void one_call(void)
{
	char path[PATH_SIZE], link_text[PATH_SIZE] = "";

	random_path(path);
	switch (pick(21)) {
	case 0:
	case 1:
	case 2: result("mkdir", path, "", mkdir(path, 0777)); break;
	case 3: result("rmdir", path, "", rmdir(path)); break;
	case 4:
	case 5:
	case 6: write_file(path); break;
	case 7: read_file(path); break;
	case 8: result("unlink", path, "", unlink(path)); break;
	case 9:
	case 10:
	case 11: rename_path(path); break;
	case 12: link_path(path); break;
	case 13: result("symlink", path, "", symlink("b/c", path)); break;
	case 14:
		result("readlink", path, "",
		       readlink(path, link_text, sizeof(link_text) - 1));
		printf("  %s\n", link_text);
		break;
	case 15:
		result("chmod", path, "", chmod(path, pick(010000) | 0500));
		show_stat(path);
		break;
	case 16:
		result("lchown", path, "",
		       lchown(path, pick(3) * 1000, pick(3) * 1000));
		show_stat(path);
		break;
	case 17:
		result("truncate", path, "", truncate(path, pick(30000)));
		show_stat(path);
		break;
	case 18: set_xattr(path); break;
	case 19: get_xattr(path); break;
	default:
		if (pick(4) == 0)
			result("mkfifo", path, "",
			       mknod(path, S_IFIFO | 0644, 0));
		else if (pick(2))
			change_times(path);
		else
			check_time(path);
	}
	show_stat(path);
	if (pick(4) == 0)
		show_dir(pick(3) ? path : ".");
}

static void become(unsigned long id)
{
	/* This thread's; the real call, not one that changes all threads. */
	(void)setfsgid((gid_t)id);
	(void)setfsuid((uid_t)id);
}

int main(int argc, char **argv)
{
	unsigned long i, count, user;

	if (argc < 3) {
		fputs("outcomes SEED COUNT [UID]\n", stderr);
		return 2;
	}
	state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
	count = strtoul(argv[2], NULL, 10);
	user = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	umask(022);
	for (i = 0; i < count; i++) {
		bool other = pick(4) == 0 && user;

		printf("%lu%s ", i, other ? " as user" : "");
		if (other)
			become(user);
		one_call();
		if (other)
			become(0);
	}
	return 0;
}
