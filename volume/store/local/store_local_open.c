/* SPDX-License-Identifier: Apache-2.0 */
/* store_local.h: the file, and its schema when it is opened. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "volume/store/local/store_local.h"

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

/* Additions of version 2. */
static const char schema_2[] =
	"CREATE TABLE beats (name TEXT NOT NULL PRIMARY KEY,"
	" boot_id TEXT NOT NULL, boot_s INTEGER NOT NULL) WITHOUT ROWID;";

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
int local_file_make(const char *path, struct error *err)
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
	return rc == SQLITE_OK ? 0 : local_failed(local, rc, "opening", err);
}

/* Make the tables that a file of @version lacks. */
static int schema_make(struct local *local, int64_t version, struct error *err)
{
	char sql[96];
	int r = 0;

	if (version == 0)
		r = local_run(local, schema, err);
	if (r == 0 && version < 2)
		r = local_run(local, schema_2, err);
	(void)snprintf(sql, sizeof(sql),
		       "PRAGMA application_id = %d; PRAGMA user_version = %d;",
		       APPLICATION_ID, SCHEMA_VERSION);
	return r < 0 ? r : local_run(local, sql, err);
}

/* Bring a new or an older file up to date; refuse a file that is not ours. */
static int schema_check(struct local *local, struct error *err)
{
	int64_t version = local_number(local->db, "PRAGMA user_version");
	int64_t id = local_number(local->db, "PRAGMA application_id");
	bool empty = version == 0 && id == 0 &&
		     local_number(local->db,
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

int local_setup(struct local *local, struct error *err)
{
	int r, rc;

	rc = sqlite3_open_v2(local->path, &local->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX,
			     NULL);
	if (rc != SQLITE_OK)
		return local_failed(local, rc, "opening", err);
	(void)sqlite3_extended_result_codes(local->db, 1);
	(void)sqlite3_busy_timeout(local->db, BUSY_TIMEOUT_MS);
	r = local_run(local, "PRAGMA synchronous = FULL", err);
	/* Finds out first whether it is a database, and ours. */
	if (r == 0)
		r = local_begin(local, err);
	if (r < 0)
		return r;
	r = local_end(local, schema_check(local, err), err);
	return r < 0 ? r : set_wal(local, err);
}
