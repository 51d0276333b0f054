/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that calls on names take.
 *
 *	name_load WORK DIR COUNT [TIMES]
 *
 * WORK: create, fill (write 4 KiB), stat, absent (stat of names that there are
 * not), open (read and close), list, ls (a listing and lstat of each), unlink;
 * of COUNT files in DIR, TIMES over. Prints operations a second and how many
 * there were (names listed, for a listing).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

static int dir_fd;

static bool create_one(const char *name)
{
	int fd = openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY, 0644);

	fd_close(fd);
	return fd >= 0;
}

static bool fill_one(const char *name)
{
	static const char data[4096];
	int fd = openat(dir_fd, name, O_WRONLY);
	ssize_t n = fd < 0 ? -1 : write(fd, data, sizeof(data));

	fd_close(fd);
	return n == sizeof(data);
}

static bool stat_one(const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool absent_one(const char *name)
{
	char other[40];

	(void)snprintf(other, sizeof(other), "no-%s", name);
	return !stat_one(other) && errno == ENOENT;
}

static bool open_one(const char *name)
{
	char data[4096];
	int fd = openat(dir_fd, name, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof(data));

	fd_close(fd);
	return n >= 0;
}

static bool unlink_one(const char *name)
{
	return unlinkat(dir_fd, name, 0) == 0;
}

static long by_name(bool (*one)(const char *name), long count)
{
	char name[32];
	long i;

	for (i = 0; i < count; i++) {
		(void)snprintf(name, sizeof(name), "file-%ld", i);
		if (!one(name)) {
			perror(name);
			exit(1);
		}
	}
	return count;
}

static long listing(const char *path, bool stats)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	long n = 0;

	while (dir && (entry = readdir(dir)))
		if (!stats || stat_one(entry->d_name))
			n++;
	if (dir)
		(void)closedir(dir);
	return n - 2; /* "." and ".." */
}

static long do_work(const char *work, const char *path, long count)
{
	static const struct {
		const char *name;
		bool (*one)(const char *name);
	} works[] = {
		{"create", create_one}, {"fill", fill_one},
		{"stat", stat_one},     {"absent", absent_one},
		{"open", open_one},     {"unlink", unlink_one},
	};
	size_t i;

	if (strcmp(work, "list") == 0 || strcmp(work, "ls") == 0)
		return listing(path, work[1] == 's');
	for (i = 0; i < array_size(works); i++)
		if (strcmp(works[i].name, work) == 0)
			return by_name(works[i].one, count);
	(void)fprintf(stderr, "no work '%s'\n", work);
	exit(2);
}

int main(int argc, char **argv)
{
	struct timespec begin, end;
	long done = 0, times;
	double seconds;

	if (argc != 4 && argc != 5) {
		(void)fprintf(stderr, "name_load WORK DIR COUNT [TIMES]\n");
		return 2;
	}
	dir_fd = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0) {
		perror(argv[2]);
		return 1;
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &begin);
	for (times = argc == 5 ? atol(argv[4]) : 1; times > 0; times--)
		done += do_work(argv[1], argv[2], atol(argv[3]));
	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	seconds = (double)(end.tv_sec - begin.tv_sec) +
		  (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	printf("%.1f %ld\n", (double)done / seconds, done);
	return 0;
}
