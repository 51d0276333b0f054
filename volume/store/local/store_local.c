/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of one machine: a SQLite file. Every call is one transaction;
 * a version is the value of a counter that each write raises.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "volume/store/local/store_local.h"

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

/* Check that the row is there, at @version (NULL: any). */
static int row_version_check(struct local *local, const char *kind,
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
		return error_set(
			err, ESTALE,
			"%s '%s' was changed by another process (version %s, not "
			"%s)",
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
	r = row_version_check(local, kind, name, version, err);
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
	r = row_version_check(local, kind, name, version, err);
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
static int row_read(sqlite3_stmt *s, struct store_object *ret,
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
			r = row_read(s, ret, err);
	}
	(void)pthread_mutex_unlock(&local->lock);
	return r;
}

/* Read the rows of @s, of which there is one more than @max if that is so. */
static int rows_read(struct local *local, sqlite3_stmt *s, size_t max,
		     struct store_page *ret, struct error *err)
{
	int r;

	while ((r = local_step(local, s, err)) > 0) {
		if (ret->count == max) {
			ret->more = true;
			return 0;
		}
		r = row_read(s, &ret->objects[ret->count], err);
		if (r < 0)
			break;
		ret->count++;
	}
	return r;
}

static int local_list(struct store *store, const char *kind,
		      struct record_place *place, size_t max,
		      struct store_page *ret, struct error *err)
{
	struct local *local = local_of(store);
	struct store_page page = {
		.objects = calloc(max, sizeof(*page.objects))};
	int r;

	if (!page.objects)
		return error_set(err, ENOMEM, "out of memory");
	(void)pthread_mutex_lock(&local->lock);
	{
		auto_statement sqlite3_stmt *s = NULL;

		r = local_prepare(local, &s, err,
				  "SELECT name, version, json FROM objects"
				  " WHERE kind = ? AND name > ?"
				  " ORDER BY name LIMIT ?",
				  "tti", kind, place->after, (int64_t)max + 1);
		if (r == 0)
			r = rows_read(local, s, max, &page, err);
	}
	(void)pthread_mutex_unlock(&local->lock);
	if (r < 0) {
		store_page_done(&page);
		return r;
	}
	if (page.count > 0)
		memcpy(place->after, page.objects[page.count - 1].name,
		       sizeof(place->after));
	*ret = page;
	return 0;
}

/* ---- open and close ---- */

static void local_close(struct store *store)
{
	struct local *local = local_of(store);

	local_left_done(local);
	(void)sqlite3_close(local->db);
	(void)pthread_mutex_destroy(&local->lock);
	free(local);
}

static int local_open(const char *where, struct store **ret, struct error *err)
{
	struct local *local;
	int r;

	if (strlen(where) >= sizeof(local->path) - 16 || !where[0])
		return error_set(err, EINVAL,
				 "the store's path is empty or too long");
	r = local_file_make(where, err);
	if (r < 0)
		return r;
	local = calloc(1, sizeof(*local));
	if (!local)
		return error_set(err, ENOMEM, "out of memory");
	local->store.ops = &store_local_ops;
	(void)pthread_mutex_init(&local->lock, NULL);
	local_left_init(local);
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
