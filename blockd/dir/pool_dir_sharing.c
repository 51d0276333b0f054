/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of a dir pool have in common. A file system with reflinks
 * says of each piece of a file where it is and whether other files have it,
 * too; so all have to be looked at. That is bounded, and done anew only after
 * so long that it costs next to nothing, or when objects have come or gone.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "blockd/dir/file_map.h"
#include "blockd/dir/pool_dir_internal.h"
#include "blockd/dir/pool_dir_load.h"

#define PIECES_MAX (256u << 10) /* looked at; of more nothing is told */
#define REST       100          /* times what counting took, before the next */
#define REST_MAX   INT64_C(60000000000) /* ns */

/* Where a piece that others have, too, begins or ends. */
struct edge {
	uint64_t place; /* bytes, on the medium */
	int users;      /* that have what follows; 1 or -1 */
	int keepers;    /* ... and are no snapshots */
};

struct count {
	const char **snapshots; /* owned, sorted; the names are borrowed */
	size_t n_snapshots;
	struct edge *edges; /* owned */
	size_t n_edges, room;
	unsigned looked;  /* at pieces */
	bool is_snapshot; /* the file that is looked at */
	struct pool_sharing sharing;
};

static void count_free(struct count *count)
{
	free(count->snapshots);
	free(count->edges);
}

/* ---- single files ---- */

static int add_edge(struct count *count, struct edge edge)
{
	if (count->n_edges == count->room) {
		size_t room = count->room ? count->room * 2 : 1024;
		struct edge *edges = realloc(count->edges,
					     room * sizeof(*edges));

		if (!edges)
			return -ENOMEM;
		count->edges = edges;
		count->room = room;
	}
	count->edges[count->n_edges++] = edge;
	return 0;
}

static int add_piece(void *context, uint64_t place, uint64_t length,
		     bool shared)
{
	struct count *count = context;
	const int keepers = !count->is_snapshot;
	int r;

	if (++count->looked > PIECES_MAX)
		return -EOPNOTSUPP;
	if (!shared) {
		count->sharing.reclaimable += keepers ? 0 : length;
		return 0;
	}
	r = add_edge(count, (struct edge){place, 1, keepers});
	if (r == 0)
		r = add_edge(count,
			     (struct edge){place + length, -1, -keepers});
	return r;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* @file of @dirfd, if it is one with data. */
static int add_file(struct count *count, int dirfd, const char *file)
{
	const size_t suffix = strlen(POOL_DIR_DATA), length = strlen(file);
	char buf[POOL_DIR_FILE_SIZE];
	const char *name = buf;
	auto_close int fd = -1;

	if (length <= suffix || length >= sizeof(buf) ||
	    strcmp(file + length - suffix, POOL_DIR_DATA) != 0)
		return 0;
	memcpy(buf, file, length - suffix);
	buf[length - suffix] = '\0';
	count->is_snapshot = count->n_snapshots &&
			     bsearch(&name, count->snapshots,
				     count->n_snapshots,
				     sizeof(*count->snapshots), compare_names);
	fd = openat(dirfd, file,
		    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno; /* it was deleted */
	return file_map_pieces(fd, add_piece, count);
}

/* ---- all of them ---- */

static int count_files(struct count *count, int extents_fd)
{
	DIR *dir = pool_dir_stream(extents_fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir)))
		r = add_file(count, dirfd(dir), entry->d_name);
	pool_dir_stream_end(&dir);
	return r;
}

static int compare_edges(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return (x->place > y->place) - (x->place < y->place);
}

static void add_up(struct count *count)
{
	struct pool_sharing *sharing = &count->sharing;
	uint64_t at = 0;
	int users = 0, keepers = 0;

	if (count->n_edges)
		qsort(count->edges, count->n_edges, sizeof(*count->edges),
		      compare_edges);
	for (size_t i = 0; i < count->n_edges; i++) {
		const struct edge *edge = &count->edges[i];

		if (users > 1)
			sharing->shared += edge->place - at;
		if (users > 0 && keepers == 0)
			sharing->reclaimable += edge->place - at;
		at = edge->place;
		users += edge->users;
		keepers += edge->keepers;
	}
}

static int pool_dir_count_all(struct pool_dir *dir,
			      const char *const *snapshots, size_t n,
			      struct pool_sharing *ret)
{
	struct count count = {.n_snapshots = n};
	int r = 0;

	count.snapshots = calloc(n + 1, sizeof(*count.snapshots));
	if (!count.snapshots)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		count.snapshots[i] = snapshots[i];
	qsort(count.snapshots, n, sizeof(*count.snapshots), compare_names);
	r = count_files(&count, dir->extents_fd);
	if (r == 0) {
		add_up(&count);
		*ret = count.sharing;
	}
	count_free(&count);
	return r;
}

/* ---- without reflinks ---- */

/* Files that were copied byte by byte have nothing in common. */
static void add_copies(struct pool_dir *dir, const char *const *snapshots,
		       size_t n, struct pool_sharing *ret)
{
	char file[POOL_DIR_FILE_SIZE];
	struct stat st;

	*ret = (struct pool_sharing){0};
	for (size_t i = 0; i < n; i++) {
		(void)pool_dir_file(file, snapshots[i], POOL_DIR_DATA);
		if (fstatat(dir->extents_fd, file, &st, AT_SYMLINK_NOFOLLOW) ==
		    0) /* else: deleted */
			ret->reclaimable += (uint64_t)st.st_blocks *
					    512; /* stat(2) */
	}
}

/* ---- the pool ---- */

/* Its lock is held. */
static void pool_dir_count_again(struct pool_dir *dir,
				 const char *const *snapshots, size_t n)
{
	struct pool_dir_counted *counted = &dir->counted;
	const unsigned changes = atomic_load(&dir->changes);
	const int64_t began = clock_ns();
	int64_t rest;

	counted->r = pool_dir_count_all(dir, snapshots, n, &counted->sharing);
	rest = (clock_ns() - began) * REST;
	counted->until = clock_ns() + (rest < REST_MAX ? rest : REST_MAX);
	counted->changes = changes;
}

int pool_dir_sharing(struct pool *pool, const char *const *snapshots, size_t n,
		     struct pool_sharing *ret, struct error *err)
{
	struct pool_dir *dir = pool_dir_of(pool);
	struct pool_dir_counted *counted = &dir->counted;
	int r;

	if (dir->method != POOL_COPY_REFLINK) {
		add_copies(dir, snapshots, n, ret);
		return 0;
	}
	(void)pthread_mutex_lock(&counted->lock);
	if (clock_ns() >= counted->until ||
	    counted->changes != atomic_load(&dir->changes))
		pool_dir_count_again(dir, snapshots, n);
	r = counted->r;
	if (r == 0)
		*ret = counted->sharing;
	(void)pthread_mutex_unlock(&counted->lock);
	if (r < 0)
		return error_set(err, -r,
				 "look where the blocks of '%s' are: %s",
				 pool->path, strerror(-r));
	return 0;
}
