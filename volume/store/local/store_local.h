/* SPDX-License-Identifier: Apache-2.0 */
/* The store of one machine, inside. */
#ifndef VOLUME_STORE_LOCAL_H
#define VOLUME_STORE_LOCAL_H

#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/uuid_name.h"
#include "volume/store/store.h"

struct local {
	struct store store;
	pthread_mutex_t lock; /* one transaction at a time on @db */
	sqlite3 *db;
	pid_t pid; /* this process, as it owns leases */
	unsigned long long start_ticks;
	char boot_id[UUID_TEXT_SIZE];
	char path[PATH_MAX];
	/* Leases that could not be given back yet; under a lock of their own.
	 */
	pthread_mutex_t left_lock;
	pthread_cond_t left_changed;
	struct local_left *left;
	pthread_t giver;
	bool giving; /* the thread was started */
	bool closing;
};

static inline struct local *local_of(struct store *store)
{
	return container_of(store, struct local, store);
}

static inline void local_cleanup_statement(sqlite3_stmt **statement)
{
	(void)sqlite3_finalize(*statement); /* step told of the error */
}
#define auto_statement auto_cleanup(local_cleanup_statement)

/* ---- store_local_sql.c: SQLite in our words ---- */

/* Return the error of SQLite's @rc, in @doing something with the file. */
int local_failed(struct local *local, int rc, const char *doing,
		 struct error *err);
/* Statements without results. */
int local_run(struct local *local, const char *sql, struct error *err);
/* The one number that a query finds; -1 when it fails. */
int64_t local_number(sqlite3 *db, const char *sql);
/* @types: one letter for each argument, t (const char *) or i (int64_t). */
int local_prepare(struct local *local, sqlite3_stmt **ret, struct error *err,
		  const char *sql, const char *types, ...);
/* 1: a row; 0: no more; or a negative errno. */
int local_step(struct local *local, sqlite3_stmt *statement, struct error *err);

/* Take the file's write lock, so that all reads stay true. */
int local_begin(struct local *local, struct error *err);
/* Commit when @r is 0, else undo; returns @r or why it was not committed. */
int local_end(struct local *local, int r, struct error *err);

/* ---- store_local_open.c ---- */

/* Make the file, and its folder, when it is not there. */
int local_file_make(const char *path, struct error *err);
/*
 * Open the file of @local->path, bring it up to date. -EUCLEAN: not ours;
 * -EPROTONOSUPPORT: a newer version's.
 */
int local_setup(struct local *local, struct error *err);

/* ---- store_local_lease.c: members of store_local_ops ---- */

int local_lease(struct store *store, const char *kind, const char *name,
		const char *doing, struct error *err);
int local_holds(struct store *store, const char *kind, const char *name,
		struct error *err);
void local_release(struct store *store, const char *kind, const char *name);
/* Of the leases that could not be given back; before the file is closed. */
void local_left_init(struct local *local);
void local_left_done(struct local *local);
int local_beat(struct store *store, const char *name, struct error *err);
int local_beat_end(struct store *store, const char *name, struct error *err);
int local_beats(struct store *store, struct store_beat **ret, size_t *ret_count,
		struct error *err);

/* ---- store_local_watch.c ---- */

int local_watch(struct store *store, const char *kind, int stop_fd,
		store_watcher watcher, void *context, struct error *err);

extern const struct store_ops store_local_ops;

#endif
