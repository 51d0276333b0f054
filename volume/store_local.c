/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of one machine: a SQLite file. Every call is one transaction;
 * a version is the value of a counter that each write raises.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "volume/store_local.h"

#define SCHEMA_VERSION  2
#define APPLICATION_ID  0x54524942 /* "TRIB"; SQLite file format 1.3.17 */
#define BUSY_TIMEOUT_MS 15000

static const char schema[] =
	"CREATE TABLE objects (kind TEXT NOT NULL, name TEXT NOT NULL,"
	" version INTEGER NOT NULL, json TEXT NOT NULL,"
	" PRIMARY KEY (kind, name)) WITHOUT ROWID;"
	"CREATE TABLE leases (kind TEXT NOT NULL, name TEXT NOT NULL,"
	" pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL,"
	" boot_id TEXT NOT NULL, doing TEXT NOT NULL,"
	" since INTEGER NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID;"
	"CREATE TABLE counter (version INTEGER NOT NULL);"
	"INSERT INTO counter VALUES (0);";

/* What version 2 adds. */
static const char schema_2[] =
	"CREATE TABLE beats (name TEXT NOT NULL PRIMARY KEY,"
	" boot_id TEXT NOT NULL, boot_s INTEGER NOT NULL) WITHOUT ROWID;";

/* ---- SQLite in our words ---- */

static int failed(struct local *local, int rc, const char *doing,
		  struct error *err)
{
	int code = EIO;

	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED: code = ETIMEDOUT; break;
	case SQLITE_FULL: code = ENOSPC; break;
	case SQLITE_NOMEM: code = ENOMEM; break;
	case SQLITE_PERM:
	case SQLITE_READONLY:
	case SQLITE_AUTH: code = EACCES; break;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB: code = EUCLEAN; break;
	default: break;
	}
	return error_set(
		err, code, "%s in the store %s: %s", doing, local->path,
		local->db ? sqlite3_errmsg(local->db) : sqlite3_errstr(rc));
}

static int run(struct local *local, const char *sql, struct error *err)
{
	int rc = sqlite3_exec(local->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : failed(local, rc, "writing", err);
}

int local_prepare(struct local *local, sqlite3_stmt **ret, struct error *err,
		  const char *sql, const char *types, ...)
{
	int rc = sqlite3_prepare_v2(local->db, sql, -1, ret, NULL);
	va_list ap;

	va_start(ap, types);
	for (int i = 1; *types && rc == SQLITE_OK; i++, types++) {
		if (*types == 't')
			rc = sqlite3_bind_text(*ret, i, va_arg(ap, char *), -1,
					       SQLITE_TRANSIENT);
		else
			rc = sqlite3_bind_int64(*ret, i, va_arg(ap, int64_t));
	}
	va_end(ap);
	return rc == SQLITE_OK ? 0 : failed(local, rc, "reading", err);
}

int local_step(struct local *local, sqlite3_stmt *statement, struct error *err)
{
	int rc = sqlite3_step(statement);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : failed(local, rc, "working", err);
}

static int64_t number_of(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	int64_t value = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
	    sqlite3_step(statement) == SQLITE_ROW)
		value = sqlite3_column_int64(statement, 0);
	(void)sqlite3_finalize(statement);
	return value;
}

int local_begin(struct local *local, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&local->lock);
	r = run(local, "BEGIN IMMEDIATE", err);
	if (r < 0)
		(void)pthread_mutex_unlock(&local->lock);
	return r;
}

int local_end(struct local *local, int r, struct error *err)
{
	if (r == 0)
		r = run(local, "COMMIT", err);
	if (r < 0)
		(void)sqlite3_exec(local->db, "ROLLBACK", NULL, NULL, NULL);
	(void)pthread_mutex_unlock(&local->lock);
	return r;
}

/* ---- objects ---- */

static int next_version(struct local *local, int64_t *ret, struct error *err)
{
	auto_statement sqlite3_stmt *s = NULL;
	int r = local_prepare(local, &s, err,
			      "UPDATE counter SET version = version + 1"
			      " RETURNING version",
			      "");

	if (r == 0)
		r = local_step(local, s, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, EUCLEAN, "the store %s has no counter",
				 local->path);
	*ret = sqlite3_column_int64(s, 0);
	r = local_step(local, s, err); /* to its end: then it is done */
	return r < 0 ? r : 0;
}

/* The version of an object; -ENOENT. */
static int version_get(struct local *local, const char *kind, const char *name,
		       int64_t *ret, struct error *err)
{
	auto_statement sqlite3_stmt *s = NULL;
	int r = local_prepare(local, &s, err,
			      "SELECT version FROM objects"
			      " WHERE kind = ? AND name = ?",
			      "tt", kind, name);

	if (r == 0)
		r = local_step(local, s, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ENOENT, "there is no %s '%s'", kind,
				 name);
	*ret = sqlite3_column_int64(s, 0);
	return 0;
}

/* It is there, at @version (NULL: any). */
static int version_check(struct local *local, const char *kind,
			 const char *name, const char *version,
			 struct error *err)
{
	char text[RECORD_VERSION_SIZE];
	int64_t now = 0;
	int r = version_get(local, kind, name, &now, err);

	if (r < 0 || !version)
		return r;
	(void)snprintf(text, sizeof(text), "%" PRId64, now);
	if (strcmp(text, version) != 0)
		return error_set(err, ESTALE,
				 "%s '%s' was changed by somebody else "
				 "(version %s, not %s)",
				 kind, name, text, version);
	return 0;
}

static int write_object(struct local *local, const char *sql, const char *kind,
			const char *name, const char *json, char *ret_version,
			struct error *err)
{
	auto_statement sqlite3_stmt *s = NULL;
	int64_t version = 0;
	int r = next_version(local, &version, err);

	if (r == 0)
		r = local_prepare(local, &s, err, sql, "ittt", version, json,
				  kind, name);
	if (r == 0)
		r = local_step(local, s, err);
	if (r == 0 && ret_version)
		(void)snprintf(ret_version, RECORD_VERSION_SIZE, "%" PRId64,
			       version);
	return r;
}

static int local_create(struct store *store, const char *kind, const char *name,
			const char *json, char *ret_version, struct error *err)
{
	struct local *local = local_of(store);
	char version[RECORD_VERSION_SIZE];
	int64_t now;
	int r = local_begin(local, err);

	if (r < 0)
		return r;
	r = version_get(local, kind, name, &now, err);
	if (r == 0)
		r = error_set(err, EEXIST, "%s '%s' is there already", kind,
			      name);
	else if (r == -ENOENT)
		r = write_object(local,
				 "INSERT INTO objects"
				 " (version, json, kind, name)"
				 " VALUES (?, ?, ?, ?)",
				 kind, name, json, version, err);
	r = local_end(local, r, err);
	if (r == 0 && ret_version)
		memcpy(ret_version, version, sizeof(version));
	return r;
}

static int local_swap(struct store *store, const char *kind, const char *name,
		      const char *version, const char *json, char *ret_version,
		      struct error *err)
{
	struct local *local = local_of(store);
	char new_version[RECORD_VERSION_SIZE];
	int r = local_begin(local, err);

	if (r < 0)
		return r;
	r = version_check(local, kind, name, version, err);
	if (r == 0)
		r = write_object(local,
				 "UPDATE objects SET version = ?, json = ?"
				 " WHERE kind = ? AND name = ?",
				 kind, name, json, new_version, err);
	r = local_end(local, r, err);
	if (r == 0 && ret_version)
		memcpy(ret_version, new_version, sizeof(new_version));
	return r;
}

static int local_remove(struct store *store, const char *kind, const char *name,
			const char *version, struct error *err)
{
	struct local *local = local_of(store);
	int64_t removed;
	int r = local_begin(local, err);

	if (r < 0)
		return r;
	r = version_check(local, kind, name, version, err);
	if (r == 0)
		r = next_version(local, &removed, err); /* for watchers */
	if (r == 0) {
		auto_statement sqlite3_stmt *s = NULL;

		r = local_prepare(
			local, &s, err,
			"DELETE FROM objects WHERE kind = ? AND name = ?", "tt",
			kind, name);
		if (r == 0)
			r = local_step(local, s, err);
	}
	return local_end(local, r, err);
}

/* From a row of (name, version, json). */
static int object_read(sqlite3_stmt *s, struct store_object *ret,
		       struct error *err)
{
	const char *name = (const char *)sqlite3_column_text(s, 0);
	const char *json = (const char *)sqlite3_column_text(s, 2);

	if (!name || !json || strlen(name) >= sizeof(ret->name))
		return error_set(err, EUCLEAN, "a damaged row in the store");
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	(void)snprintf(ret->version, sizeof(ret->version), "%" PRId64,
		       (int64_t)sqlite3_column_int64(s, 1));
	ret->json = strdup(json);
	if (!ret->json)
		return error_set(err, ENOMEM, "out of memory");
	ret->length = strlen(json);
	return 0;
}

static int local_get(struct store *store, const char *kind, const char *name,
		     struct store_object *ret, struct error *err)
{
	struct local *local = local_of(store);
	int r;

	(void)pthread_mutex_lock(&local->lock);
	{
		auto_statement sqlite3_stmt *s = NULL;

		r = local_prepare(local, &s, err,
				  "SELECT name, version, json FROM objects"
				  " WHERE kind = ? AND name = ?",
				  "tt", kind, name);
		if (r == 0)
			r = local_step(local, s, err);
		if (r == 0)
			r = error_set(err, ENOENT, "there is no %s '%s'", kind,
				      name);
		else if (r > 0)
			r = object_read(s, ret, err);
	}
	(void)pthread_mutex_unlock(&local->lock);
	return r;
}

/* Read every row of @s. The array grows by doubling. */
static int objects_read(struct local *local, sqlite3_stmt *s,
			struct store_object **ret, size_t *ret_count,
			struct error *err)
{
	struct store_object *items = NULL, *more;
	size_t count = 0, room = 0;
	int r;

	while ((r = local_step(local, s, err)) > 0) {
		if (count == room) {
			room = room ? 2 * room : 16;
			more = reallocarray(items, room, sizeof(*items));
			if (!more) {
				r = error_set(err, ENOMEM, "out of memory");
				break;
			}
			items = more;
		}
		r = object_read(s, &items[count], err);
		if (r < 0)
			break;
		count++;
	}
	if (r < 0) {
		store_objects_free(items, count);
		return r;
	}
	*ret = items;
	*ret_count = count;
	return 0;
}

int local_list(struct store *store, const char *kind, struct store_object **ret,
	       size_t *ret_count, struct error *err)
{
	struct local *local = local_of(store);
	int r;

	(void)pthread_mutex_lock(&local->lock);
	{
		auto_statement sqlite3_stmt *s = NULL;

		r = local_prepare(local, &s, err,
				  "SELECT name, version, json FROM objects"
				  " WHERE kind = ? ORDER BY name",
				  "t", kind);
		if (r == 0)
			r = objects_read(local, s, ret, ret_count, err);
	}
	(void)pthread_mutex_unlock(&local->lock);
	return r;
}

/* ---- open and close ---- */

static void local_close(struct store *store)
{
	struct local *local = local_of(store);

	(void)sqlite3_close(local->db);
	(void)pthread_mutex_destroy(&local->lock);
	free(local);
}

/* "/a/b" for "/a/b/c"; "." for "c". */
static void parent_of(const char *path, char *ret)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		(void)strcpy(ret, ".");
	else if (slash == path)
		(void)strcpy(ret, "/");
	else
		(void)snprintf(ret, PATH_MAX, "%.*s", (int)(slash - path),
			       path);
}

/*
 * Make the file with mode 0600. It appears by link(2), after our descriptor
 * is closed: closing one on a file that SQLite has open in this process
 * would drop SQLite's locks on it.
 */
static int file_make(const char *path, struct error *err)
{
	char parent[PATH_MAX], temporary[PATH_MAX];
	auto_close int dir = -1;
	int fd, r;

	if (access(path, F_OK) == 0)
		return 0;
	parent_of(path, parent);
	r = dir_make(parent, 0700, err);
	if (r < 0)
		return r;
	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >=
	    (int)sizeof(temporary))
		return error_set(err, ENAMETOOLONG, "store '%s': name too long",
				 path);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "make store '%s': %s", path,
				 strerror(errno));
	(void)close(fd); /* nothing was written */
	r = 0;
	if (link(temporary, path) < 0 && errno != EEXIST)
		r = error_set(err, errno, "make store '%s': %s", path,
			      strerror(errno));
	(void)unlink(temporary);
	dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && (dir < 0 || fsync(dir) < 0))
		r = error_set(err, errno, "sync '%s': %s", parent,
			      strerror(errno));
	return r;
}

/* SQLite gives up on this switch at once when another process makes it. */
static int set_wal(struct local *local, struct error *err)
{
	const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
	int64_t give_up = clock_ms() + BUSY_TIMEOUT_MS;
	int rc;

	for (;;) {
		rc = sqlite3_exec(local->db, "PRAGMA journal_mode = WAL", NULL,
				  NULL, NULL);
		if ((rc & 0xff) != SQLITE_BUSY || clock_ms() > give_up)
			break;
		(void)nanosleep(&pause, NULL);
	}
	return rc == SQLITE_OK ? 0 : failed(local, rc, "opening", err);
}

/* Make what a file of @version lacks. */
static int schema_make(struct local *local, int64_t version, struct error *err)
{
	char sql[96];
	int r = 0;

	if (version == 0)
		r = run(local, schema, err);
	if (r == 0 && version < 2)
		r = run(local, schema_2, err);
	(void)snprintf(sql, sizeof(sql),
		       "PRAGMA application_id = %d; PRAGMA user_version = %d;",
		       APPLICATION_ID, SCHEMA_VERSION);
	return r < 0 ? r : run(local, sql, err);
}

/* Bring a new or an older file up to date; refuse what is not ours. */
static int schema_check(struct local *local, struct error *err)
{
	int64_t version = number_of(local->db, "PRAGMA user_version");
	int64_t id = number_of(local->db, "PRAGMA application_id");
	bool empty = version == 0 && id == 0 &&
		     number_of(local->db,
			       "SELECT count(*) FROM sqlite_schema") == 0;

	if (!empty && id != APPLICATION_ID)
		return error_set(err, EUCLEAN,
				 "'%s' is a database of something else",
				 local->path);
	if (version > SCHEMA_VERSION)
		return error_set(err, EPROTONOSUPPORT,
				 "the store %s was written by a newer version "
				 "(schema %" PRId64 "; this one knows %d): "
				 "upgrade this program",
				 local->path, version, SCHEMA_VERSION);
	return version == SCHEMA_VERSION ? 0 : schema_make(local, version, err);
}

static int local_setup(struct local *local, struct error *err)
{
	int r, rc;

	rc = sqlite3_open_v2(local->path, &local->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX,
			     NULL);
	if (rc != SQLITE_OK)
		return failed(local, rc, "opening", err);
	(void)sqlite3_extended_result_codes(local->db, 1);
	(void)sqlite3_busy_timeout(local->db, BUSY_TIMEOUT_MS);
	r = run(local, "PRAGMA synchronous = FULL", err);
	/* Finds out first whether it is a database, and ours. */
	if (r == 0)
		r = local_begin(local, err);
	if (r < 0)
		return r;
	r = local_end(local, schema_check(local, err), err);
	return r < 0 ? r : set_wal(local, err);
}

static int local_open(const char *where, struct store **ret, struct error *err)
{
	struct local *local;
	int r;

	if (strlen(where) >= sizeof(local->path) - 16 || !where[0])
		return error_set(err, EINVAL,
				 "the store's path is empty or too long");
	r = file_make(where, err);
	if (r < 0)
		return r;
	local = calloc(1, sizeof(*local));
	if (!local)
		return error_set(err, ENOMEM, "out of memory");
	local->store.ops = &store_local_ops;
	(void)pthread_mutex_init(&local->lock, NULL);
	(void)strcpy(local->path, where);
	local->pid = getpid();
	r = process_start_time(local->pid, &local->start_ticks);
	if (r == 0)
		r = boot_id_read(local->boot_id);
	if (r < 0)
		error_set(err, -r, "reading /proc: %s", strerror(-r));
	else
		r = local_setup(local, err);
	if (r < 0) {
		local_close(&local->store);
		return r;
	}
	*ret = &local->store;
	return 0;
}

const struct store_ops store_local_ops = {
	.name = "local",
	.open = local_open,
	.close = local_close,
	.create = local_create,
	.get = local_get,
	.list = local_list,
	.compare_and_swap = local_swap,
	.remove = local_remove,
	.lease = local_lease,
	.holds = local_holds,
	.release = local_release,
	.beat = local_beat,
	.beat_end = local_beat_end,
	.beats = local_beats,
	.watch = local_watch,
};
