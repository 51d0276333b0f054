/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "blockd/dir/pool_dir.h"
#include "blockd/dir/pool_dir_internal.h"
#include "blockd/pool/lock_file.h"
#include "blockd/pool/record_text.h"

void pool_dir_stream_end(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir); /* was only read */
}

DIR *pool_dir_stream(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);

	if (!dir)
		fd_close(copy);
	return dir;
}

bool pool_dir_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A subdirectory with nothing in it; unreadable counts as not. */
static bool is_empty_dir(int dirfd, const char *name)
{
	auto_close int fd = openat(
		dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	auto_cleanup(pool_dir_stream_end)
		DIR *dir = fd < 0 ? NULL : pool_dir_stream(fd);
	const struct dirent *entry;

	if (!dir)
		return false;
	while ((entry = readdir(dir)))
		if (!pool_dir_is_dots(entry->d_name))
			return false;
	return true;
}

/* May be in a directory that counts as empty. */
static bool is_harmless(int dirfd, const char *name)
{
	return pool_dir_is_dots(name) || strcmp(name, "lost+found") == 0 ||
	       strcmp(name, POOL_DIR_LOCK) == 0 ||
	       strcmp(name, POOL_DIR_SPARE) == 0 ||
	       has_prefix(name, FILE_TEMPORARY_PREFIX) ||
	       (strcmp(name, POOL_DIR_EXTENTS) == 0 &&
		is_empty_dir(dirfd, name));
}

static int inspect_files(int fd, const char *path,
			 enum pool_content *ret_content, struct error *err)
{
	auto_cleanup(pool_dir_stream_end) DIR *dir = pool_dir_stream(fd);
	const struct dirent *entry;

	if (!dir)
		return error_set(err, errno, "read directory '%s': %s", path,
				 strerror(errno));
	*ret_content = POOL_CONTENT_EMPTY;
	while ((entry = readdir(dir)))
		if (!is_harmless(fd, entry->d_name))
			*ret_content = POOL_CONTENT_OTHER;
	if (*ret_content == POOL_CONTENT_OTHER)
		(void)error_set(err, ENOTEMPTY,
				"'%s' holds other files; choose an empty "
				"directory",
				path);
	return 0;
}

int pool_dir_identity(int fd, const char *path, struct pool_record *ret,
		      struct error *err)
{
	auto_free char *data = NULL;
	size_t length;
	int r = file_read(fd, POOL_DIR_IDENTITY, RECORD_TEXT_MAX, &data,
			  &length, err);

	if (r == 0)
		r = pool_record_decode(data, length, ret, err);
	else if (r == -EFBIG)
		r = -EBADMSG;
	if (r < 0)
		(void)error_prefix(err, r, "%s/%s: ", path, POOL_DIR_IDENTITY);
	return r;
}

int pool_dir_open_at(const char *path, int *ret_fd, struct error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno, "open directory '%s': %s", path,
				 strerror(errno));
	*ret_fd = fd;
	return 0;
}

int pool_dir_inspect(const char *path, enum pool_content *ret_content,
		     struct pool_record *ret_record, struct error *err)
{
	auto_close int fd = -1;
	struct error why = {0};
	int r = pool_dir_open_at(path, &fd, err);

	if (r < 0)
		return r;
	r = pool_dir_identity(fd, path, ret_record, &why);
	if (r == -ENOENT)
		return inspect_files(fd, path, ret_content, err);
	if (r < 0 && r != -EBADMSG)
		return error_set(err, -r, "%s", why.msg);
	*ret_content = r == 0 ? POOL_CONTENT_POOL : POOL_CONTENT_DAMAGED;
	if (r < 0)
		(void)error_set(err, EBADMSG, "%s", why.msg);
	return 0;
}

char *pool_dir_above(const char *path)
{
	char *above = strdup(path);

	while (above && above[1]) {
		char *slash = strrchr(above, '/');
		char identity[PATH_MAX + sizeof(POOL_DIR_IDENTITY) + 1];

		slash[slash == above] = '\0';
		(void)snprintf(identity, sizeof(identity), "%s/%s", above,
			       POOL_DIR_IDENTITY);
		if (access(identity, F_OK) == 0)
			return above;
	}
	free(above);
	return NULL;
}

int pool_dir_lock(int fd, const char *path, int *ret_fd, struct error *err)
{
	char what[PATH_MAX + 16];

	(void)snprintf(what, sizeof(what), "pool at '%s'", path);
	return lock_file_take(fd, POOL_DIR_LOCK, what, ret_fd, err);
}

/* ---- format ---- */

static int format_locked(int fd, const char *path,
			 const struct pool_record *record, struct error *err)
{
	enum pool_content content;
	struct pool_record other;
	auto_free char *data = NULL;
	size_t length;
	int r = pool_dir_inspect(path, &content, &other, err);

	if (r < 0)
		return r;
	if (content == POOL_CONTENT_POOL)
		(void)error_set(err, ENOTEMPTY, "'%s' holds pool '%s'", path,
				other.name);
	if (content != POOL_CONTENT_EMPTY)
		return -ENOTEMPTY;
	if (fchmod(fd, 0700) < 0 ||
	    (mkdirat(fd, POOL_DIR_EXTENTS, 0700) < 0 && errno != EEXIST))
		return error_set(err, errno, "make '%s/%s': %s", path,
				 POOL_DIR_EXTENTS, strerror(errno));
	r = pool_record_encode(record, &data, &length, err);
	if (r < 0)
		return r;
	/* Last: its fsync of the directory covers the rest. */
	return file_replace(fd, POOL_DIR_IDENTITY, data, length, 0600, err);
}

int pool_dir_format(const char *path, const struct pool_record *record,
		    struct error *err)
{
	auto_close int fd = -1, lock_fd = -1;
	enum pool_content content;
	int r = pool_dir_open_at(path, &fd, err);

	/* Somebody else's directory does not even get a lock file. */
	if (r == 0)
		r = inspect_files(fd, path, &content, err);
	if (r < 0)
		return r;
	if (content == POOL_CONTENT_OTHER)
		return -ENOTEMPTY;
	r = pool_dir_lock(fd, path, &lock_fd, err);
	return r < 0 ? r : format_locked(fd, path, record, err);
}
