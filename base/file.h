/* SPDX-License-Identifier: Apache-2.0 */
/* Small files: whole reads, and replacements that survive a power loss. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/*
 * Read the whole of a regular file, with a NUL after it that @ret_length does
 * not count. Returned owned. @name is relative to @dirfd (AT_FDCWD: the current
 * directory) and may have directories in it, here and below.
 * -EFBIG when it is larger than @max bytes; -EISDIR, -EINVAL when it is no
 * regular file.
 */
int file_read(int dirfd, const char *name, size_t max, char **ret_data,
	      size_t *ret_length, struct error *err);

/*
 * Replace @name atomically: write a temporary file beside it, fsync, rename,
 * fsync the directory. After 0 the new content survives power loss. After an
 * error the old content is still whole, or the new one when only the last fsync
 * failed. @mode is set exactly, whatever the umask. Temporary names start with
 * FILE_TEMPORARY_PREFIX. A crash may leave one behind. The only writer of that
 * directory may remove it.
 */
int file_replace(int dirfd, const char *name, const void *data, size_t length,
		 mode_t mode, struct error *err);
#define FILE_TEMPORARY_PREFIX ".tmp-"

/* Unlink and fsync the directory. -ENOENT is 0. */
int file_remove(int dirfd, const char *name, struct error *err);

/* mkdir -p: each missing parent with @mode (less the umask). */
int dir_make(const char *path, mode_t mode, struct error *err);

/* Write all of it, or a negative errno. */
int fd_write_all(int fd, const void *data, size_t length);

/*
 * Make an empty memfd, named @name where the kernel shows it; owned. It cannot
 * be executed, as vm.memfd_noexec may demand. -1 with errno.
 */
int file_memfd(const char *name);

/*
 * Find another program of ours: beside the running one, else by PATH. Returns
 * @buf (PATH_MAX bytes) with a path, or @name.
 */
const char *file_find_program(const char *name, char *buf);

#endif
