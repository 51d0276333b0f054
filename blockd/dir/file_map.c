/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/dir/file_map.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"

#define BATCH 512 /* extents asked for at once */

/* Data there, but where it is says nothing about what it is. */
#define UNKNOWN                                                  \
	(FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC |        \
	 FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED |  \
	 FIEMAP_EXTENT_NOT_ALIGNED | FIEMAP_EXTENT_DATA_INLINE | \
	 FIEMAP_EXTENT_DATA_TAIL)

/* ---- the extents of a file, one after another ---- */

struct walk {
	int fd;
	uint64_t next;  /* bytes: where to ask from */
	uint64_t end;   /* bytes: ... and no further, roughly */
	unsigned flags; /* FIEMAP_FLAG_... */
	unsigned i, n;  /* of the batch */
	bool last;      /* the batch has the last one */
	struct fiemap *map;
};

static int walk_begin(struct walk *w, int fd, uint64_t start)
{
	*w = (struct walk){
		.fd = fd,
		.next = start,
		.end = FIEMAP_MAX_OFFSET,
		.flags = FIEMAP_FLAG_SYNC,
	};
	w->map = calloc(1, sizeof(*w->map) +
				   BATCH * sizeof(w->map->fm_extents[0]));
	return w->map ? 0 : -ENOMEM;
}

static void walk_end(struct walk *w)
{
	free(w->map);
}

static int walk_batch(struct walk *w)
{
	const struct fiemap_extent *last;

	memset(w->map, 0, sizeof(*w->map));
	w->map->fm_start = w->next;
	w->map->fm_length = w->end - w->next;
	w->map->fm_flags = w->flags;
	w->map->fm_extent_count = BATCH;
	if (ioctl(w->fd, FS_IOC_FIEMAP, w->map) < 0)
		return -errno;
	w->i = 0;
	w->n = w->map->fm_mapped_extents;
	if (w->n == 0) {
		w->last = true;
		return 0;
	}
	last = &w->map->fm_extents[w->n - 1];
	w->last = last->fe_flags & FIEMAP_EXTENT_LAST ||
		  last->fe_logical + last->fe_length >= w->end;
	if (last->fe_logical + last->fe_length <= w->next)
		return -EIO; /* or this would never end */
	w->next = last->fe_logical + last->fe_length;
	return 0;
}

/* 1: *ret is the next, borrowed until the next call; 0: there are no more. */
static int walk_next(struct walk *w, const struct fiemap_extent **ret)
{
	while (w->i == w->n) {
		int r = w->last ? 0 : walk_batch(w);

		if (r < 0)
			return r;
		if (w->i == w->n && w->last)
			return 0;
	}
	*ret = &w->map->fm_extents[w->i++];
	return 1;
}

uint64_t file_map_shared(int fd)
{
	const struct fiemap_extent *extent;
	uint64_t sum = 0;
	struct walk w;

	if (walk_begin(&w, fd, 0) < 0)
		return 0;
	while (walk_next(&w, &extent) > 0)
		if (extent->fe_flags & FIEMAP_EXTENT_SHARED)
			sum += extent->fe_length;
	walk_end(&w);
	return sum;
}

int file_map_pieces(int fd, file_map_piece visit, void *context)
{
	const struct fiemap_extent *extent;
	struct walk w;
	int r = walk_begin(&w, fd, 0);

	if (r < 0)
		return r;
	w.flags = 0;
	while ((r = walk_next(&w, &extent)) > 0) {
		r = extent->fe_flags & FIEMAP_EXTENT_ENCODED
			    ? -EOPNOTSUPP
			    : visit(context, extent->fe_physical,
				    extent->fe_length,
				    extent->fe_flags & FIEMAP_EXTENT_SHARED);
		if (r)
			break;
	}
	walk_end(&w);
	return r == -ENOTTY ? -EOPNOTSUPP : r;
}

/* ---- joining neighbours ---- */

struct joiner {
	uint64_t start, end; /* bytes; the same: nothing is held back */
	file_map_range visit;
	void *context;
};

static int joiner_flush(struct joiner *j)
{
	uint64_t start = j->start, length = j->end - j->start;

	j->start = j->end;
	return length ? j->visit(j->context, start, length) : 0;
}

static int joiner_add(struct joiner *j, uint64_t start, uint64_t end)
{
	int r;

	if (j->end != j->start && start == j->end) {
		j->end = end;
		return 0;
	}
	r = joiner_flush(j);
	j->start = start;
	j->end = end;
	return r;
}

/* ---- what is there ---- */

int file_map_data(int fd, uint64_t start, uint64_t size, file_map_range visit,
		  void *context, struct error *err)
{
	struct joiner joiner = {.visit = visit, .context = context};
	int r = 0;

	if (fsync(fd) < 0)
		return error_set(err, errno, "sync: %s", strerror(errno));
	while (r == 0 && start < size) {
		off_t data = lseek(fd, (off_t)start, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return error_set(err, errno, "find data: %s",
					 strerror(errno));
		if ((uint64_t)data >= size)
			break;
		start = (uint64_t)hole < size ? (uint64_t)hole : size;
		r = joiner_add(&joiner, (uint64_t)data, start);
	}
	return r ? r : joiner_flush(&joiner);
}

/* ---- what differs ---- */

enum content {
	CONTENT_ZERO,    /* a hole, or never written to */
	CONTENT_PLACE,   /* what is at that place on the medium */
	CONTENT_UNKNOWN, /* differs from everything */
};

/* A run of a file with one kind of content. */
struct run {
	uint64_t start, end; /* bytes of the file */
	enum content content;
	uint64_t place; /* bytes of the medium, of @start */
};

struct runs {
	struct walk walk;
	struct run run;   /* where we are */
	struct run ahead; /* an extent that begins after a hole */
	bool has_ahead;
	uint64_t size; /* bytes; the last run ends here */
};

static void run_set(struct run *run, const struct fiemap_extent *extent)
{
	run->start = extent->fe_logical;
	run->end = extent->fe_logical + extent->fe_length;
	run->place = extent->fe_physical;
	if (extent->fe_flags & UNKNOWN)
		run->content = CONTENT_UNKNOWN;
	else if (extent->fe_flags & FIEMAP_EXTENT_UNWRITTEN)
		run->content = CONTENT_ZERO;
	else
		run->content = CONTENT_PLACE;
}

/* Less of it at its front. */
static void run_cut(struct run *run, uint64_t start)
{
	if (run->start >= start)
		return;
	run->place += start - run->start;
	run->start = start;
}

/* The run that begins at @at, which is less than the size. */
static int runs_next(struct runs *s, uint64_t at)
{
	const struct fiemap_extent *extent;

	while (!s->has_ahead || s->ahead.end <= at) {
		int r = walk_next(&s->walk, &extent);

		if (r < 0)
			return r;
		if (r == 0) {
			s->ahead = (struct run){
				.start = s->size,
				.end = UINT64_MAX,
			};
		} else {
			run_set(&s->ahead, extent);
		}
		s->has_ahead = true;
	}
	if (s->ahead.start > at) {
		s->run = (struct run){.start = at, .end = s->ahead.start};
	} else {
		s->run = s->ahead;
		run_cut(&s->run, at);
	}
	if (s->run.end > s->size)
		s->run.end = s->size;
	return 0;
}

static bool same_content(const struct run *a, const struct run *b)
{
	if (a->content != b->content || a->content == CONTENT_UNKNOWN)
		return false;
	return a->content == CONTENT_ZERO || a->place == b->place;
}

/* Both runs begin at @at; up to where both go on. */
static int compare_runs(struct runs *a, struct runs *b, uint64_t *at,
			struct joiner *joiner)
{
	uint64_t end = a->run.end < b->run.end ? a->run.end : b->run.end;
	uint64_t start = *at;

	*at = end;
	return same_content(&a->run, &b->run) ? 0
					      : joiner_add(joiner, start, end);
}

/* Positive from a visitor is not an error of ours. */
static int differ(struct runs *a, struct runs *b, uint64_t start,
		  struct joiner *joiner, int *ret_visited)
{
	uint64_t at = start;

	while (at < a->size && *ret_visited == 0) {
		int r = runs_next(a, at);

		if (r == 0)
			r = runs_next(b, at);
		if (r < 0)
			return r;
		*ret_visited = compare_runs(a, b, &at, joiner);
	}
	if (*ret_visited == 0)
		*ret_visited = joiner_flush(joiner);
	return 0;
}

int file_map_differ(int fd, int base, uint64_t start, uint64_t size,
		    file_map_range visit, void *context, struct error *err)
{
	struct joiner joiner = {.visit = visit, .context = context};
	struct runs a = {.size = size}, b = {.size = size};
	int visited = 0, r;

	if (fsync(fd) < 0 || fsync(base) < 0)
		return error_set(err, errno, "sync: %s", strerror(errno));
	r = walk_begin(&a.walk, fd, start);
	if (r == 0)
		r = walk_begin(&b.walk, base, start);
	if (r == 0 && start < size)
		r = differ(&a, &b, start, &joiner, &visited);
	walk_end(&a.walk);
	walk_end(&b.walk);
	/* Nothing was visited yet: the very first question is refused. */
	if (r == -EOPNOTSUPP || r == -ENOTTY)
		return visit(context, start, size - start);
	if (r < 0)
		return error_set(err, -r, "find where the data is: %s",
				 strerror(-r));
	return visited;
}

/* ---- what a write would need ---- */

#define BLOCK UINT64_C(4096) /* bytes */

/* Count the allocated bytes that only this file has, from @start to @end. */
static int own_bytes(int fd, uint64_t start, uint64_t end, uint64_t *ret)
{
	const struct fiemap_extent *extent;
	struct walk w;
	int r = walk_begin(&w, fd, start);

	if (r < 0)
		return r;
	w.end = end;
	w.flags = 0;
	*ret = 0;
	while ((r = walk_next(&w, &extent)) > 0) {
		uint64_t from = extent->fe_logical;
		uint64_t to = from + extent->fe_length;

		if (from >= end)
			break;
		from = from > start ? from : start;
		to = to < end ? to : end;
		if (to > from && !(extent->fe_flags & FIEMAP_EXTENT_SHARED))
			*ret += to - from;
	}
	walk_end(&w);
	return r < 0 ? r : 0;
}

/* Where there is no FIEMAP: of what is data. Such files share nothing. */
static int file_data_bytes(int fd, uint64_t start, uint64_t end, uint64_t *ret)
{
	*ret = 0;
	while (start < end) {
		off_t data = lseek(fd, (off_t)start, SEEK_DATA), hole;
		uint64_t to;

		if (data < 0 && errno == ENXIO)
			break;
		hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		if ((uint64_t)data >= end)
			break;
		to = (uint64_t)hole < end ? (uint64_t)hole : end;
		*ret += to - (uint64_t)data;
		start = to;
	}
	return 0;
}

uint64_t file_map_missing(int fd, uint64_t offset, uint64_t length)
{
	uint64_t start = offset / BLOCK * BLOCK, has = 0;
	uint64_t end = (offset + length + BLOCK - 1) / BLOCK * BLOCK;
	int r = own_bytes(fd, start, end, &has);

	if (r == -EOPNOTSUPP || r == -ENOTTY)
		r = file_data_bytes(fd, start, end, &has);
	return r < 0 ? end - start : end - start - has;
}
