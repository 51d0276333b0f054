/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of one machine, watched: its counter, which every write raises,
 * is looked at while somebody watches.
 */
#include <errno.h>
#include <poll.h>

#include "volume/store/local/store_local.h"
#include "volume/store/watch_diff.h"

#define LOOK_MS 250 /* between two looks; one is some 20 us */

static int counter_read(struct local *local, int64_t *ret, struct error *err)
{
	sqlite3_stmt *s = NULL;
	int r;

	(void)pthread_mutex_lock(&local->lock);
	r = local_prepare(local, &s, err, "SELECT version FROM counter", "");
	if (r == 0)
		r = local_step(local, s, err);
	if (r > 0)
		*ret = sqlite3_column_int64(s, 0);
	(void)sqlite3_finalize(s); /* step told of the error */
	(void)pthread_mutex_unlock(&local->lock);
	return r < 0 ? r : 0;
}

static int tell_object(void *known, const struct store_object *object,
		       struct error *err)
{
	return watch_diff_set(known, object, err);
}

static int local_watch_look(struct store *store, const char *kind,
			    struct watch_diff *known, int64_t *told,
			    struct error *err)
{
	int64_t now = -1;
	int r = counter_read(local_of(store), &now, err);

	/* Before the list, which may be newer, and never is older. */
	if (r < 0 || now == *told)
		return r;
	watch_diff_begin(known);
	r = store_walk(store, kind, NULL, tell_object, known, err);
	if (r == 0)
		r = watch_diff_end(known);
	*told = now;
	return r;
}

int local_watch(struct store *store, const char *kind, int stop_fd,
		store_watcher watcher, void *context, struct error *err)
{
	struct watch_diff known = {.watcher = watcher, .context = context};
	struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
	int64_t told = -1;
	int r;

	do
		r = local_watch_look(store, kind, &known, &told, err);
	while (r == 0 && poll(&stop, 1, LOOK_MS) <= 0);
	watch_diff_done(&known);
	return r;
}
