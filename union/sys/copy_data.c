/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/copy_data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PIECE (1u << 20)

struct copying {
	int from, to;
	bool by_hand; /* the kernel does not copy from one to the other */
	char *data;   /* PIECE bytes, once by hand */
	const struct copy_pace *pace;
};

static int write_all(int fd, const char *data, size_t length, off_t at)
{
	ssize_t n;

	while (length) {
		n = pwrite(fd, data, length, at);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			at += n;
			length -= (size_t)n;
		}
	}
	return 0;
}

static ssize_t piece_by_hand(struct copying *c, off_t at, size_t length)
{
	ssize_t n;
	int r;

	if (!c->data)
		c->data = malloc(PIECE);
	if (!c->data)
		return -ENOMEM;
	n = pread(c->from, c->data, length, at);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	r = write_all(c->to, c->data, (size_t)n, at);
	return r < 0 ? r : n;
}

static bool is_copy_refusal(int error)
{
	return error == EXDEV || error == EOPNOTSUPP || error == ENOSYS ||
	       error == EINVAL;
}

/* Copy a piece. Bytes copied, 0 at the end of the file, or -errno. */
static ssize_t copy_piece(struct copying *c, off_t at, size_t length)
{
	off_t to = at, from = at;
	ssize_t n;

	if (!c->by_hand) {
		n = copy_file_range(c->from, &from, c->to, &to, length, 0);
		if (n >= 0)
			return n;
		if (!is_copy_refusal(errno))
			return -errno;
		c->by_hand = true;
	}
	return piece_by_hand(c, at, length);
}

static int copy_segment(struct copying *c, off_t at, off_t end)
{
	ssize_t n = 1;
	int r = 0;

	while (at < end && n > 0 && r == 0) {
		size_t length = end - at < PIECE ? (size_t)(end - at) : PIECE;

		n = copy_piece(c, at, length);
		if (n < 0)
			return (int)n;
		at += n;
		if (n && c->pace)
			r = c->pace->step(c->pace->context, (uint64_t)n);
	}
	return r;
}

/* Copy a hole, also where data was when it was copied before. */
static int copy_hole(struct copying *c, off_t at, off_t end)
{
	struct stat st;

	if (fstat(c->to, &st) < 0)
		return -errno;
	if (end > st.st_size)
		end = st.st_size;
	if (at >= end)
		return 0;
	if (fallocate(c->to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
		      end - at) == 0)
		return 0;
	return errno == EOPNOTSUPP ? copy_segment(c, at, end) : -errno;
}

static int copy_all(struct copying *c, off_t at, off_t end, bool fresh)
{
	off_t data, hole;
	int r = 0;

	while (at < end && r == 0) {
		data = lseek(c->from, at, SEEK_DATA);
		if (data < 0 && errno != ENXIO)
			return -errno;
		if (data < 0 || data > end) /* ENXIO: no more of it */
			data = end;
		if (data > at && !fresh)
			r = copy_hole(c, at, data);
		if (r < 0 || data == end)
			return r;
		hole = lseek(c->from, data, SEEK_HOLE);
		if (hole < 0)
			return errno == ENXIO ? 0 : -errno; /* truncated */
		if (hole > end)
			hole = end;
		r = copy_segment(c, data, hole);
		at = hole;
	}
	return r;
}

int copy_data(int from, int to, uint64_t at, uint64_t end, bool fresh,
	      const struct copy_pace *pace)
{
	struct copying c = {.from = from, .to = to, .pace = pace};
	struct stat st;
	int r;

	if (fstat(from, &st) < 0)
		return -errno;
	if (end > (uint64_t)st.st_size)
		end = (uint64_t)st.st_size;
	r = at < end ? copy_all(&c, (off_t)at, (off_t)end, fresh) : 0;
	free(c.data);
	return r;
}
