/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "blockd/dir/pool_dir_internal.h"
#include "blockd/dir/pool_dir_load.h"
#include "blockd/pool/copies_record.h"

/* Copies being made; @copies[0] gives the group its name. */
struct group {
	struct pool *pool;
	int fd; /* extents/ */
	const struct pool_copy *copies;
	size_t n;
};

static int sync_dir(const struct group *g, struct error *err)
{
	if (fsync(g->fd) < 0)
		return pool_dir_fail(g->pool, "sync", "", err);
	return 0;
}

static int rename_record(const struct group *g, const char *name,
			 const char *from, const char *to, struct error *err)
{
	char a[POOL_DIR_FILE_SIZE], b[POOL_DIR_FILE_SIZE];

	if (renameat(g->fd, pool_dir_file(a, name, from), g->fd,
		     pool_dir_file(b, name, to)) < 0)
		return pool_dir_fail(g->pool, "rename", a, err);
	return 0;
}

/* ---- what load() undoes ---- */

/* NAME.copying: durable once the directory is. */
static int write_record(const struct group *g,
			const struct extent_record *record, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	auto_free char *data = NULL;
	auto_close int fd = -1;
	size_t length;
	int r = extent_record_encode(record, &data, &length, err);

	if (r < 0)
		return r;
	fd = openat(g->fd, pool_dir_file(file, record->name, POOL_DIR_COPYING),
		    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	if (fd < 0)
		return pool_dir_fail(g->pool, "make", file, err);
	r = fd_write_all(fd, data, length);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r < 0) {
		errno = -r;
		return pool_dir_fail(g->pool, "write", file, err);
	}
	return 0;
}

static int copies_group_prepare(const struct group *g, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < g->n; i++)
		r = write_record(g, g->copies[i].record, err);
	return r < 0 ? r : sync_dir(g, err);
}

static int copy_contents(const struct group *g,
			 struct pool_dir_progress *progress, struct error *err)
{
	char from[POOL_DIR_FILE_SIZE], to[POOL_DIR_FILE_SIZE];
	int r = 0;

	for (size_t i = 0; r == 0 && i < g->n; i++) {
		const struct extent_record *record = g->copies[i].record;

		(void)pool_dir_file(from, g->copies[i].from, POOL_DIR_DATA);
		(void)pool_dir_file(to, record->name, POOL_DIR_DATA);
		r = pool_dir_content_copy(
			g->pool, from, to, record->size,
			record->thick && record->kind == EXTENT_KIND_EXTENT,
			progress, err);
	}
	return r < 0 ? r : sync_dir(g, err);
}

/* What can't be undone now is undone by the next load. */
static void copies_group_undo(const struct group *g)
{
	for (size_t i = 0; i < g->n; i++)
		(void)pool_dir_erase(g->fd, g->copies[i].record->name,
				     POOL_DIR_COPYING, NULL);
}

/* ---- the step from none to all ---- */

static int write_list(const struct group *g, const char *file,
		      struct error *err)
{
	struct copies_record list = {.names = calloc(g->n, EXTENT_NAME_SIZE),
				     .n = g->n};
	auto_free char *text = NULL;
	size_t length;
	int r;

	if (!list.names)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < g->n; i++)
		memcpy(list.names[i], g->copies[i].record->name,
		       EXTENT_NAME_SIZE);
	r = copies_record_encode(&list, &text, &length, err);
	copies_record_done(&list);
	return r < 0 ? r : file_replace(g->fd, file, text, length, 0600, err);
}

/* The list is there: back to where copies_group_undo() can begin. */
static int copies_group_take_back(const struct group *g, const char *file,
				  size_t renamed)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < renamed; i++)
		r = rename_record(g, g->copies[i].record->name, POOL_DIR_RECORD,
				  POOL_DIR_COPYING, NULL);
	if (r == 0)
		r = sync_dir(g, NULL);
	return r < 0 ? r : file_remove(g->fd, file, NULL);
}

/*
 * One is there with its rename. For several a list says that all are: after a
 * crash load() goes on with the renames.
 */
static int commit(const struct group *g, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	size_t renamed = 0;
	int r = 0;

	(void)pool_dir_file(file, g->copies[0].record->name, POOL_DIR_LIST);
	if (g->n > 1)
		r = write_list(g, file, err);
	for (; r == 0 && renamed < g->n; renamed++) {
		r = rename_record(g, g->copies[renamed].record->name,
				  POOL_DIR_COPYING, POOL_DIR_RECORD, err);
		if (r < 0)
			break;
	}
	if (r == 0)
		r = sync_dir(g, err);
	if (r == 0) {
		/* All are there; a list that stays is of no consequence. */
		if (g->n > 1)
			(void)file_remove(g->fd, file, NULL);
		return 0;
	}
	if (copies_group_take_back(g, file, renamed) == 0)
		copies_group_undo(g);
	return r;
}

static uint64_t bytes_of(const struct group *g)
{
	uint64_t sum = 0;
	struct stat st;

	for (size_t i = 0; i < g->n; i++) {
		char file[POOL_DIR_FILE_SIZE];

		if (fstatat(g->fd,
			    pool_dir_file(file, g->copies[i].from,
					  POOL_DIR_DATA),
			    &st, AT_SYMLINK_NOFOLLOW) == 0)
			sum += (uint64_t)st.st_size;
	}
	return sum;
}

int pool_dir_copy(struct pool *pool, const struct pool_copy *copies, size_t n,
		  pool_copied copied, void *context, struct error *err)
{
	struct group g = {
		.pool = pool,
		.fd = pool_dir_of(pool)->extents_fd,
		.copies = copies,
		.n = n,
	};
	struct pool_dir_progress progress = {
		.copied = copied,
		.context = context,
		.total = bytes_of(&g),
	};
	int r;

	if (n == 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		r = pool_dir_check_unused(pool, copies[i].record->name, err);
		if (r < 0)
			return r; /* theirs: not to be undone */
	}
	r = copies_group_prepare(&g, err);
	if (r == 0)
		r = copy_contents(&g, &progress, err);
	if (r < 0) {
		copies_group_undo(&g);
		return r;
	}
	return commit(&g, err);
}

/* ---- revert ---- */

int pool_dir_revert(struct pool *pool, const struct extent_record *record,
		    const char *from, struct error *err)
{
	struct group g = {.pool = pool, .fd = pool_dir_of(pool)->extents_fd};
	char source[POOL_DIR_FILE_SIZE], made[POOL_DIR_FILE_SIZE];
	struct pool_dir_progress progress = {0};
	int r;

	(void)pool_dir_file(source, from, POOL_DIR_DATA);
	(void)pool_dir_file(made, record->name, POOL_DIR_REVERTED);
	/* Of an earlier attempt that could not tidy up. */
	r = file_remove(g.fd, made, err);
	if (r == 0)
		r = pool_dir_content_copy(pool, source, made, record->size,
					  record->thick, &progress, err);
	if (r < 0)
		return r;
	/* From here on load() finishes it. */
	r = sync_dir(&g, err);
	if (r == 0)
		r = pool_dir_save(pool, record, POOL_DIR_REVERT, err);
	if (r < 0) {
		(void)file_remove(g.fd, made, NULL);
		return r;
	}
	return pool_dir_finish_revert(g.fd, record->name, err);
}
