/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* linux/memfd.h; since Linux 6.3 */
#endif

#define READ_FIRST 4096 /* bytes; /proc tells a size of 0 */

int fd_write_all(int fd, const void *data, size_t length)
{
	const char *at = data;

	while (length) {
		ssize_t n = write(fd, at, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		length -= (size_t)n;
	}
	return 0;
}

/* Up to @max + 1 bytes: one more than allowed shows that it is too large. */
static int read_up_to(int fd, size_t max, size_t expected, char **ret_data,
		      size_t *ret_length)
{
	size_t room = expected < READ_FIRST ? READ_FIRST : expected + 1;
	auto_free char *data = NULL;
	size_t length = 0;

	for (;;) {
		size_t limit = room < max + 1 ? room : max + 1;
		char *grown = realloc(data, limit + 1);
		ssize_t n;

		if (!grown)
			return -ENOMEM;
		data = grown;
		while (length < limit) {
			n = read(fd, data + length, limit - length);
			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				return -errno;
			if (n == 0) {
				data[length] = '\0';
				*ret_data = take_ptr(data);
				*ret_length = length;
				return 0;
			}
			length += (size_t)n;
		}
		if (length > max)
			return -EFBIG;
		room *= 2;
	}
}

int file_read(int dirfd, const char *name, size_t max, char **ret_data,
	      size_t *ret_length, struct error *err)
{
	/* Not blocking, so that a FIFO is refused instead of waited for. */
	auto_close int fd = openat(dirfd, name,
				   O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int r;

	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", name,
				 strerror(errno));
	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "stat '%s': %s", name,
				 strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, S_ISDIR(st.st_mode) ? EISDIR : EINVAL,
				 "read '%s': not a regular file", name);
	r = (uint64_t)st.st_size > max ? -EFBIG
				       : read_up_to(fd, max, (size_t)st.st_size,
						    ret_data, ret_length);
	if (r == -EFBIG)
		return error_set(err, EFBIG, "read '%s': larger than %zu bytes",
				 name, max);
	if (r < 0)
		return error_set(err, -r, "read '%s': %s", name, strerror(-r));
	return 0;
}

/*
 * Open the directory that holds @name and find the last part of it. The
 * directory is opened anew even when @dirfd is it: an O_PATH descriptor
 * cannot be synced.
 */
static int parent_open(int dirfd, const char *name, const char **ret_last,
		       struct error *err)
{
	const char *slash = strrchr(name, '/');
	auto_free char *parent = NULL;
	int fd;

	if (!slash)
		parent = strdup(".");
	else if (slash == name)
		parent = strdup("/");
	else
		parent = strndup(name, (size_t)(slash - name));
	if (!parent)
		return error_set(err, ENOMEM, "out of memory");
	fd = openat(dirfd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "open directory '%s': %s", parent,
				 strerror(errno));
	*ret_last = slash ? slash + 1 : name;
	return fd;
}

#define TEMPORARY_SIZE (sizeof(FILE_TEMPORARY_PREFIX) + 16)

static int temporary_create(int dirfd, char *ret_name)
{
	for (;;) {
		uint64_t number;
		int fd;

		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			return -errno;
		(void)snprintf(ret_name, TEMPORARY_SIZE,
			       FILE_TEMPORARY_PREFIX "%016" PRIx64,
			       number); /* always fits */
		fd = openat(dirfd, ret_name,
			    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			return -errno;
	}
}

static int temporary_fill(int fd, const void *data, size_t length, mode_t mode)
{
	int r = fd_write_all(fd, data, length);

	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int file_replace(int dirfd, const char *name, const void *data, size_t length,
		 mode_t mode, struct error *err)
{
	char temporary[TEMPORARY_SIZE];
	auto_close int parent = -1;
	const char *last = name;
	int fd, r;

	parent = parent_open(dirfd, name, &last, err);
	if (parent < 0)
		return parent;
	fd = temporary_create(parent, temporary);
	if (fd < 0)
		return error_set(err, -fd, "write '%s': %s", name,
				 strerror(-fd));
	r = temporary_fill(fd, data, length, mode);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && renameat(parent, temporary, parent, last) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(parent, temporary, 0); /* r is what matters */
		return error_set(err, -r, "write '%s': %s", name, strerror(-r));
	}
	if (fsync(parent) < 0)
		return error_set(err, errno, "sync the directory of '%s': %s",
				 name, strerror(errno));
	return 0;
}

int file_remove(int dirfd, const char *name, struct error *err)
{
	auto_close int parent = -1;
	const char *last = name;

	parent = parent_open(dirfd, name, &last, err);
	if (parent == -ENOENT)
		return 0;
	if (parent < 0)
		return parent;
	if (unlinkat(parent, last, 0) < 0 && errno != ENOENT)
		return error_set(err, errno, "remove '%s': %s", name,
				 strerror(errno));
	/* Also when it was gone: that removal may not be durable yet. */
	if (fsync(parent) < 0)
		return error_set(err, errno, "sync the directory of '%s': %s",
				 name, strerror(errno));
	return 0;
}

static int dir_make_one(const char *path, mode_t mode, struct error *err)
{
	struct stat st;
	int code;

	if (mkdir(path, mode) == 0)
		return 0;
	code = errno;
	/* EROFS and EACCES may come before EEXIST: what counts is whether
	 * it is there. */
	if (stat(path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return 0;
		code = ENOTDIR;
	}
	return error_set(err, code, "make directory '%s': %s", path,
			 strerror(code));
}

int dir_make(const char *path, mode_t mode, struct error *err)
{
	auto_free char *copy = strdup(path);
	char *at;

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	for (at = copy + 1; copy[0] && (at = strchr(at, '/')); at++) {
		int r;

		*at = '\0';
		r = dir_make_one(copy, mode, err);
		if (r < 0)
			return r;
		*at = '/';
	}
	return dir_make_one(copy, mode, err);
}

int file_memfd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create(name, MFD_CLOEXEC) : fd;
}

const char *file_find_program(const char *name, char *buf)
{
	ssize_t n = readlink("/proc/self/exe", buf, PATH_MAX - 1);
	char *slash;

	if (n <= 0)
		return name;
	buf[n] = '\0';
	slash = strrchr(buf, '/');
	if (!slash || slash + 1 + strlen(name) >= buf + PATH_MAX)
		return name;
	strcpy(slash + 1, name);
	return access(buf, X_OK) == 0 ? buf : name;
}
