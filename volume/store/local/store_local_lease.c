/* SPDX-License-Identifier: Apache-2.0 */
/* The store of one machine: leases of processes, heartbeats of nodes. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/process.h"
#include "volume/store/local/store_local.h"

/* ---- leases ---- */

/* -EAGAIN when a process that is alive has the lease; 0 when it is free. */
static int lease_check(struct local *local, const char *kind, const char *name,
		       struct error *err)
{
	auto_statement sqlite3_stmt *s = NULL;
	const char *boot_id;
	pid_t pid;
	int r = local_prepare(local, &s, err,
			      "SELECT pid, start_ticks, boot_id, doing, since"
			      " FROM leases WHERE kind = ? AND name = ?",
			      "tt", kind, name);

	if (r == 0)
		r = local_step(local, s, err);
	if (r <= 0)
		return r;
	pid = (pid_t)sqlite3_column_int64(s, 0);
	boot_id = (const char *)sqlite3_column_text(s, 2);
	if (!boot_id || strcmp(boot_id, local->boot_id) != 0 ||
	    !process_alive(pid, (unsigned long long)sqlite3_column_int64(s, 1)))
		return 0;
	return error_set(err, EAGAIN,
			 "busy: process %d has been %s '%s' for %" PRId64
			 " s; try again later",
			 pid, (const char *)sqlite3_column_text(s, 3), name,
			 clock_wall_s() - (int64_t)sqlite3_column_int64(s, 4));
}

static int lease_write(struct local *local, const char *kind, const char *name,
		       const char *doing, struct error *err)
{
	auto_statement sqlite3_stmt *s = NULL;
	int r = local_prepare(local, &s, err,
			      "INSERT OR REPLACE INTO leases (kind, name, pid,"
			      " start_ticks, boot_id, doing, since)"
			      " VALUES (?, ?, ?, ?, ?, ?, ?)",
			      "ttiitti", kind, name, (int64_t)local->pid,
			      (int64_t)local->start_ticks, local->boot_id,
			      doing, clock_wall_s());

	return r < 0 ? r : local_step(local, s, err);
}

int local_lease(struct store *store, const char *kind, const char *name,
		const char *doing, struct error *err)
{
	struct local *local = local_of(store);
	int r = local_begin(local, err);

	if (r < 0)
		return r;
	r = lease_check(local, kind, name, err);
	if (r == 0)
		r = lease_write(local, kind, name, doing, err);
	return local_end(local, r, err);
}

int local_holds(struct store *store, const char *kind, const char *name,
		struct error *err)
{
	struct local *local = local_of(store);
	int r;

	(void)pthread_mutex_lock(&local->lock);
	{
		auto_statement sqlite3_stmt *s = NULL;

		r = local_prepare(
			local, &s, err,
			"SELECT 1 FROM leases WHERE kind = ? AND name = ?"
			" AND pid = ? AND start_ticks = ? AND boot_id = ?",
			"ttiit", kind, name, (int64_t)local->pid,
			(int64_t)local->start_ticks, local->boot_id);
		if (r == 0)
			r = local_step(local, s, err);
	}
	(void)pthread_mutex_unlock(&local->lock);
	if (r != 0)
		return r < 0 ? r : 0;
	return error_set(err, ESTALE, "the lease on '%s' is not ours", name);
}

static int release_now(struct local *local, const char *kind, const char *name)
{
	sqlite3_stmt *s = NULL;
	int r = local_begin(local, NULL);

	if (r < 0)
		return r;
	r = local_prepare(local, &s, NULL,
			  "DELETE FROM leases WHERE kind = ? AND name = ?"
			  " AND pid = ? AND start_ticks = ? AND boot_id = ?",
			  "ttiit", kind, name, (int64_t)local->pid,
			  (int64_t)local->start_ticks, local->boot_id);
	if (r == 0)
		r = local_step(local, s, NULL);
	(void)sqlite3_finalize(s);
	return local_end(local, r, NULL);
}

/* ---- leases that could not be given back ---- */

#define GIVE_BACK_MS 500

struct local_left {
	struct local_left *next;
	char *kind, *name; /* owned, behind it */
};

static struct local_left *left_new(const char *kind, const char *name)
{
	size_t n = strlen(kind) + 1;
	struct local_left *left = calloc(1,
					 sizeof(*left) + n + strlen(name) + 1);

	if (!left)
		return NULL;
	left->kind = strcpy((char *)(left + 1), kind);
	left->name = strcpy(left->kind + n, name);
	return left;
}

/* Under left_lock, which is let go meanwhile. True: nothing is left. */
static bool give_back_once(struct local *local)
{
	struct local_left *one = local->left;
	int r;

	if (!one)
		return true;
	local->left = one->next;
	(void)pthread_mutex_unlock(&local->left_lock);
	r = release_now(local, one->kind, one->name);
	(void)pthread_mutex_lock(&local->left_lock);
	if (r == 0) {
		free(one);
		return give_back_once(local);
	}
	one->next = local->left;
	local->left = one;
	return false;
}

static void *give_back(void *local_)
{
	struct local *local = local_;
	struct timespec until;

	(void)pthread_mutex_lock(&local->left_lock);
	while (!local->closing) {
		if (give_back_once(local)) {
			(void)pthread_cond_wait(&local->left_changed,
						&local->left_lock);
			continue;
		}
		(void)clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += GIVE_BACK_MS * 1000000L;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		(void)pthread_cond_timedwait(&local->left_changed,
					     &local->left_lock, &until);
	}
	(void)pthread_mutex_unlock(&local->left_lock);
	return NULL;
}

void local_left_init(struct local *local)
{
	(void)pthread_mutex_init(&local->left_lock, NULL);
	(void)pthread_cond_init(&local->left_changed, NULL);
}

void local_left_done(struct local *local)
{
	struct local_left *next;

	(void)pthread_mutex_lock(&local->left_lock);
	local->closing = true;
	(void)pthread_cond_broadcast(&local->left_changed);
	(void)pthread_mutex_unlock(&local->left_lock);
	if (local->giving)
		(void)pthread_join(local->giver, NULL);
	/* The leases themselves end with this process. */
	for (struct local_left *left = local->left; left; left = next) {
		next = left->next;
		free(left);
	}
	(void)pthread_cond_destroy(&local->left_changed);
	(void)pthread_mutex_destroy(&local->left_lock);
}

/*
 * Give a lease back. As long as this process lives, nobody else can have a
 * lease that it keeps: giving back is tried again until it is done. Without
 * memory, or a thread, the lease ends with this process.
 */
void local_release(struct store *store, const char *kind, const char *name)
{
	struct local *local = local_of(store);
	struct local_left *left;

	if (release_now(local, kind, name) == 0)
		return;
	left = left_new(kind, name);
	if (!left)
		return;
	(void)pthread_mutex_lock(&local->left_lock);
	left->next = local->left;
	local->left = left;
	if (!local->giving)
		local->giving = pthread_create(&local->giver, NULL, give_back,
					       local) == 0;
	(void)pthread_cond_broadcast(&local->left_changed);
	(void)pthread_mutex_unlock(&local->left_lock);
}

/* ---- heartbeats ---- */

/* Of a clock that nobody sets, and that goes on while the machine sleeps. */
static int64_t boot_s(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now); /* always there */
	return now.tv_sec;
}

int local_beat(struct store *store, const char *name, struct error *err)
{
	struct local *local = local_of(store);
	sqlite3_stmt *s = NULL;
	int r = local_begin(local, err);

	if (r < 0)
		return r;
	r = local_prepare(local, &s, err,
			  "INSERT OR REPLACE INTO beats (name, boot_id, boot_s)"
			  " VALUES (?, ?, ?)",
			  "tti", name, local->boot_id, boot_s());
	if (r == 0)
		r = local_step(local, s, err);
	(void)sqlite3_finalize(s); /* step told of the error */
	return local_end(local, r, err);
}

int local_beat_end(struct store *store, const char *name, struct error *err)
{
	struct local *local = local_of(store);
	sqlite3_stmt *s = NULL;
	int r = local_begin(local, err);

	if (r < 0)
		return r;
	r = local_prepare(local, &s, err, "DELETE FROM beats WHERE name = ?",
			  "t", name);
	if (r == 0)
		r = local_step(local, s, err);
	(void)sqlite3_finalize(s); /* step told of the error */
	return local_end(local, r, err);
}

/* Since a beat; one of an earlier boot is at least as old as this one. */
static int64_t age_of(const struct local *local, const char *boot_id,
		      int64_t at_s)
{
	int64_t now = boot_s();

	if (strcmp(boot_id, local->boot_id) != 0)
		return now + STORE_BEAT_LOST_S;
	return now > at_s ? now - at_s : 0;
}

static int beats_read(struct local *local, sqlite3_stmt *s,
		      struct store_beat **ret, size_t *ret_count,
		      struct error *err)
{
	struct store_beat *items = NULL, *more;
	size_t count = 0;
	int r;

	while ((r = local_step(local, s, err)) > 0) {
		const char *name = (const char *)sqlite3_column_text(s, 0);
		const char *boot_id = (const char *)sqlite3_column_text(s, 1);

		more = reallocarray(items, count + 1, sizeof(*items));
		if (!more) {
			r = error_set(err, ENOMEM, "out of memory");
			break;
		}
		items = more;
		if (!name || !boot_id || strlen(name) >= sizeof(more->name))
			continue; /* no row of ours */
		(void)strcpy(items[count].name, name);
		items[count++].age_s = age_of(local, boot_id,
					      sqlite3_column_int64(s, 2));
	}
	if (r < 0) {
		free(items);
		return r;
	}
	*ret = items;
	*ret_count = count;
	return 0;
}

int local_beats(struct store *store, struct store_beat **ret, size_t *ret_count,
		struct error *err)
{
	struct local *local = local_of(store);
	sqlite3_stmt *s = NULL;
	int r;

	(void)pthread_mutex_lock(&local->lock);
	r = local_prepare(local, &s, err,
			  "SELECT name, boot_id, boot_s FROM beats", "");
	if (r == 0)
		r = beats_read(local, s, ret, ret_count, err);
	(void)sqlite3_finalize(s); /* step told of the error */
	(void)pthread_mutex_unlock(&local->lock);
	return r;
}
