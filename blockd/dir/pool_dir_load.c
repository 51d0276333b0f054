/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/dir/pool_dir_load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "blockd/pool/copies_record.h"
#include "blockd/pool/record_text.h"

struct names {
	char **items; /* owned, sorted */
	size_t count;
	size_t size;
};

struct loading {
	int fd;
	const char *pool_id;
	const struct pool_visitor *visitor;
	struct names names;
};

const char *pool_dir_file(char *buf, const char *name, const char *suffix)
{
	(void)snprintf(buf, POOL_DIR_FILE_SIZE, "%s%s", name, suffix);
	return buf;
}

int pool_dir_erase(int extents_fd, const char *name, const char *suffix,
		   struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	int r = file_remove(extents_fd,
			    pool_dir_file(file, name, POOL_DIR_DATA), err);

	if (r < 0)
		return r;
	return file_remove(extents_fd, pool_dir_file(file, name, suffix), err);
}

/* ---- the list of files, taken before any of them changes ---- */

static void names_free(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	free(names->items);
	*names = (struct names){0};
}

static int names_add(struct names *names, const char *name)
{
	char *copy;

	if (names->count == names->size) {
		size_t size = names->size ? names->size * 2 : 64;
		char **items = realloc(names->items, size * sizeof(*items));

		if (!items)
			return -ENOMEM;
		names->items = items;
		names->size = size;
	}
	copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	names->items[names->count++] = copy;
	return 0;
}

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool names_have(const struct names *names, const char *name)
{
	return names->count && bsearch(&name, names->items, names->count,
				       sizeof(*names->items), name_compare);
}

static int names_read(int dirfd, struct names *names)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = -errno;
		fd_close(fd);
		return r;
	}
	for (;;) {
		errno = 0;
		entry = readdir(dir);
		if (!entry)
			r = -errno;
		else if (strcmp(entry->d_name, ".") != 0 &&
			 strcmp(entry->d_name, "..") != 0)
			r = names_add(names, entry->d_name);
		if (!entry || r < 0)
			break;
	}
	(void)closedir(dir); /* was only read */
	if (r == 0 && names->count)
		qsort(names->items, names->count, sizeof(*names->items),
		      name_compare);
	return r;
}

/* ---- one extent ---- */

__attribute__((format(printf, 2, 3))) static void note(const struct loading *l,
						       const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	l->visitor->note(l->visitor->context, text);
}

static void loading_log_damage(const struct loading *l, const char *name,
			       const char *damage, uint64_t bytes)
{
	struct pool_found found = {
		.name = name,
		.damage = damage,
		.bytes = bytes,
	};

	l->visitor->extent(l->visitor->context, &found);
}

/* Length of the data file; 0 when there is none. */
static uint64_t loading_data_bytes(const struct loading *l, const char *name)
{
	char file[POOL_DIR_FILE_SIZE];
	struct stat st;

	if (fstatat(l->fd, pool_dir_file(file, name, POOL_DIR_DATA), &st,
		    AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return (uint64_t)st.st_size;
}

static int read_record(const struct loading *l, const char *name,
		       struct extent_record *ret, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	auto_free char *data = NULL;
	size_t length;
	int r = file_read(l->fd, pool_dir_file(file, name, POOL_DIR_RECORD),
			  RECORD_TEXT_MAX, &data, &length, err);

	if (r < 0)
		return r;
	r = extent_record_decode(data, length, ret, err);
	if (r < 0)
		return error_prefix(err, r, "its record %s is damaged: ", file);
	if (strcmp(ret->name, name) != 0)
		r = error_set(err, EBADMSG,
			      "its record %s is the record of '%s'", file,
			      ret->name);
	else if (strcmp(ret->pool_id, l->pool_id) != 0)
		r = error_set(err, EBADMSG,
			      "its record %s is of another pool (id %s)", file,
			      ret->pool_id);
	if (r < 0)
		extent_record_done(ret);
	return r;
}

/* Cut back what a grow left that was not acknowledged. */
static int cut_back(const struct loading *l, const char *file, uint64_t size,
		    struct error *err)
{
	auto_close int fd = openat(l->fd, file,
				   O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fsync(fd) < 0)
		return error_set(err, errno, "truncate '%s': %s", file,
				 strerror(errno));
	note(l, "undid an unfinished resize of '%s'", file);
	return 0;
}

/* The data file fits the record, or is made to. */
static int check_data(const struct loading *l,
		      const struct extent_record *record, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	struct stat st;

	if (fstatat(l->fd, pool_dir_file(file, record->name, POOL_DIR_DATA),
		    &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set(err, errno, "its data file %s: %s", file,
				 strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, EBADMSG,
				 "its data file %s is no regular file", file);
	if ((uint64_t)st.st_size < record->size)
		return error_set(err, EBADMSG,
				 "its data file %s has %" PRIu64
				 " bytes, its record says %" PRIu64,
				 file, (uint64_t)st.st_size, record->size);
	if ((uint64_t)st.st_size > record->size)
		return cut_back(l, file, record->size, err);
	return 0;
}

static void tell_extent(const struct loading *l,
			const struct extent_record *record)
{
	struct pool_found found = {.name = record->name, .record = record};
	struct error why = {0};

	if (check_data(l, record, &why) < 0) {
		uint64_t bytes = loading_data_bytes(l, record->name);

		loading_log_damage(l, record->name, error_text(&why),
				   bytes > record->size ? bytes : record->size);
		return;
	}
	l->visitor->extent(l->visitor->context, &found);
}

static int load_record(const struct loading *l, const char *name,
		       struct error *err)
{
	struct extent_record record;
	struct error why = {0};
	int r = read_record(l, name, &record, &why);

	if (r < 0) {
		loading_log_damage(l, name, error_text(&why),
				   loading_data_bytes(l, name));
		return 0;
	}
	if (record.state == EXTENT_OK) {
		tell_extent(l, &record);
	} else {
		r = pool_dir_erase(l->fd, name, POOL_DIR_RECORD, err);
		if (r == 0)
			note(l, "undid the unfinished create of extent '%s'",
			     name);
	}
	extent_record_done(&record);
	return r;
}

static bool loading_has_file(const struct loading *l, const char *name,
			     const char *suffix)
{
	char file[POOL_DIR_FILE_SIZE];

	return names_have(&l->names, pool_dir_file(file, name, suffix));
}

/* NAME.deleting: no delete of ours leaves a record of that name beside it. */
static int load_doomed(const struct loading *l, const char *name,
		       struct error *err)
{
	int r;

	if (loading_has_file(l, name, POOL_DIR_RECORD)) {
		note(l,
		     "%s" POOL_DIR_DOOMED " is there beside a record of "
		     "that name and is left alone",
		     name);
		return 0;
	}
	r = pool_dir_erase(l->fd, name, POOL_DIR_DOOMED, err);
	if (r == 0)
		note(l, "finished the delete of extent '%s'", name);
	return r;
}

/* ---- copies and reverts that were cut short ---- */

/* NAME of NAME.suffix into @ret (EXTENT_NAME_SIZE bytes), if it is one. */
static bool split(const char *file, const char *suffix, char *ret)
{
	size_t length = strlen(file), tail = strlen(suffix);

	if (length <= tail || length - tail >= EXTENT_NAME_SIZE ||
	    strcmp(file + length - tail, suffix) != 0)
		return false;
	memcpy(ret, file, length - tail);
	ret[length - tail] = '\0';
	return name_check("extent", ret, NULL) == 0;
}

/* NAME is one of a group that is there: its record gets its place. */
static int take_copy(const struct loading *l, const char *name,
		     struct error *err)
{
	char from[POOL_DIR_FILE_SIZE], to[POOL_DIR_FILE_SIZE];

	(void)pool_dir_file(from, name, POOL_DIR_COPYING);
	(void)pool_dir_file(to, name, POOL_DIR_RECORD);
	if (renameat(l->fd, from, l->fd, to) < 0 && errno != ENOENT)
		return error_set(err, errno, "rename '%s': %s", from,
				 strerror(errno));
	return 0;
}

static int take_copies(const struct loading *l,
		       const struct copies_record *list, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < list->n; i++)
		r = take_copy(l, list->names[i], err);
	if (r == 0 && fsync(l->fd) < 0)
		r = error_set(err, errno, "sync the directory of extents: %s",
			      strerror(errno));
	return r;
}

static int load_list(const struct loading *l, const char *name,
		     struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	struct copies_record list = {.n = 0};
	auto_free char *text = NULL;
	size_t length;
	int r = file_read(l->fd, pool_dir_file(file, name, POOL_DIR_LIST),
			  RECORD_TEXT_MAX, &text, &length, err);

	if (r == 0)
		r = copies_record_decode(text, length, &list, err);
	if (r == 0)
		r = take_copies(l, &list, err);
	copies_record_done(&list);
	if (r < 0)
		return error_prefix(err, r, "the list %s: ", file);
	note(l, "finished making '%s' and those of its instant", name);
	return file_remove(l->fd, file, err);
}

static int load_copying(const struct loading *l, const char *name,
			struct error *err)
{
	int r;

	if (loading_has_file(l, name, POOL_DIR_RECORD)) {
		note(l,
		     "%s" POOL_DIR_COPYING " is there beside a record of "
		     "that name and is left alone",
		     name);
		return 0;
	}
	r = pool_dir_erase(l->fd, name, POOL_DIR_COPYING, err);
	if (r == 0)
		note(l, "undid the unfinished copy '%s'", name);
	return r;
}

int pool_dir_finish_revert(int extents_fd, const char *name, struct error *err)
{
	static const char *const steps[][2] = {
		{POOL_DIR_REVERTED, POOL_DIR_DATA},
		{POOL_DIR_REVERT, POOL_DIR_RECORD},
	};
	char from[POOL_DIR_FILE_SIZE], to[POOL_DIR_FILE_SIZE];

	for (size_t i = 0; i < array_size(steps); i++) {
		(void)pool_dir_file(from, name, steps[i][0]);
		(void)pool_dir_file(to, name, steps[i][1]);
		if (renameat(extents_fd, from, extents_fd, to) < 0 &&
		    errno != ENOENT)
			return error_set(err, errno, "rename '%s': %s", from,
					 strerror(errno));
		if (fsync(extents_fd) < 0)
			return error_set(err, errno,
					 "sync the directory of '%s': %s", to,
					 strerror(errno));
	}
	return 0;
}

/*
 * Finish or undo, first of all, the changes of several steps that a crash cut
 * short.
 */
static int finish_steps(const struct loading *l, bool *ret_any,
			struct error *err)
{
	char name[EXTENT_NAME_SIZE];
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->names.count; i++) {
		const char *file = l->names.items[i];

		if (split(file, POOL_DIR_LIST, name)) {
			r = load_list(l, name, err);
		} else if (split(file, POOL_DIR_REVERT, name)) {
			r = pool_dir_finish_revert(l->fd, name, err);
			if (r == 0)
				note(l, "finished the revert of extent '%s'",
				     name);
		} else {
			continue;
		}
		*ret_any = true;
	}
	return r;
}

/* ---- every file ---- */

static int load_file(const struct loading *l, const char *file,
		     struct error *err)
{
	char name[EXTENT_NAME_SIZE];
	char quoted[128];

	if (strncmp(file, FILE_TEMPORARY_PREFIX,
		    strlen(FILE_TEMPORARY_PREFIX)) == 0)
		return file_remove(l->fd, file, err);
	if (split(file, POOL_DIR_RECORD, name))
		return load_record(l, name, err);
	if (split(file, POOL_DIR_DOOMED, name))
		return load_doomed(l, name, err);
	if (split(file, POOL_DIR_COPYING, name))
		return load_copying(l, name, err);
	if (split(file, POOL_DIR_REVERTED, name)) {
		note(l, "undid an unfinished revert of extent '%s'", name);
		return file_remove(l->fd, file, err);
	}
	if (!split(file, POOL_DIR_DATA, name)) {
		note(l, "a file that is not ours is in extents/: %s",
		     log_quote(quoted, sizeof(quoted), file,
			       (unsigned)strlen(file)));
		return 0;
	}
	if (!loading_has_file(l, name, POOL_DIR_RECORD) &&
	    !loading_has_file(l, name, POOL_DIR_DOOMED) &&
	    !loading_has_file(l, name, POOL_DIR_COPYING))
		loading_log_damage(l, name, "its data file has no record",
				   loading_data_bytes(l, name));
	return 0;
}

static int read_files(struct loading *l, struct error *err)
{
	int r = names_read(l->fd, &l->names);

	if (r < 0)
		return error_set(err, -r, "read the directory of extents: %s",
				 strerror(-r));
	return 0;
}

int pool_dir_load(int extents_fd, const char *pool_id,
		  const struct pool_visitor *visitor, struct error *err)
{
	struct loading l = {
		.fd = extents_fd,
		.pool_id = pool_id,
		.visitor = visitor,
	};
	bool any = false;
	int r = read_files(&l, err);

	if (r == 0)
		r = finish_steps(&l, &any, err);
	if (r == 0 && any) {
		names_free(&l.names);
		r = read_files(&l, err);
	}
	for (size_t i = 0; r == 0 && i < l.names.count; i++)
		r = load_file(&l, l.names.items[i], err);
	names_free(&l.names);
	return r;
}
