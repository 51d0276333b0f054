/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/store/raw_medium.h"

#include <errno.h>
#include <unistd.h>

static struct raw_file_medium *file_of(struct raw_medium *medium)
{
	return (struct raw_file_medium *)medium;
}

static int file_read(struct raw_medium *medium, void *data, size_t length,
		     uint64_t offset)
{
	uint8_t *at = data;

	while (length > 0) {
		ssize_t n = pread(file_of(medium)->fd, at, length,
				  (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO; /* past the end */
		at += n;
		offset += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

static int file_write(struct raw_medium *medium, const void *data,
		      size_t length, uint64_t offset)
{
	const uint8_t *at = data;

	while (length > 0) {
		ssize_t n = pwrite(file_of(medium)->fd, at, length,
				   (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		offset += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

static int file_flush(struct raw_medium *medium)
{
	return fdatasync(file_of(medium)->fd) < 0 ? -errno : 0;
}

void raw_file_medium_init(struct raw_file_medium *file, int fd, uint64_t size)
{
	static const struct raw_medium_ops ops = {
		.read = file_read,
		.write = file_write,
		.flush = file_flush,
	};

	file->medium = (struct raw_medium){.ops = &ops, .size = size};
	file->fd = fd;
}
