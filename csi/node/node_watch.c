/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node/node_watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "csi/call/capability.h"
#include "csi/node/bind_mount.h"
#include "csi/node/node_ensure_staged.h"
#include "volume/mount/union_process.h"

#define SUFFIX         ".volume" /* node_state.h */
#define SETTLE_MS      200       /* changes that come together are one */
#define RETRY_FIRST_MS 2000
#define RETRIES_MAX    6 /* each after twice the time of the one before */
#define STACK_BYTES    (512u << 10)

/* A volume that is staged here. */
struct item {
	char name[RECORD_NAME_SIZE];
	char path[PATH_MAX]; /* where */
	uint64_t mount;      /* its id, statx(2); 0: none */
	int process;         /* a pidfd of its union; -1: none */
	unsigned retries;
	int64_t retry_at_ms; /* 0: none */
	bool found;          /* by the scan that runs */
};

struct node_watch {
	struct csi *csi;
	pthread_t thread;
	int wake;  /* an eventfd */
	int table; /* mountinfo */
	atomic_bool stopping;
	struct item **items; /* owned */
	size_t n_items;
	struct pollfd *fds; /* owned; wake, table, then one an item */
};

/* ---- items ---- */

/* The mount that is on top at @path, without a question to its server. */
static uint64_t mount_id(const char *path)
{
	struct statx sx;

	if (statx(AT_FDCWD, path,
		  AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_MNT_ID, &sx) < 0)
		return 0;
	return sx.stx_mnt_id;
}

static void item_free(struct item *item)
{
	fd_close(item->process);
	free(item);
}

/* Read the item's mount and process as they are now. */
static void item_refresh(struct item *item)
{
	struct mount_info info;
	pid_t pid = 0;

	fd_close(item->process);
	item->process = -1;
	item->mount = mount_id(item->path);
	if (bind_mount_find(item->path, &info, NULL) == 0)
		pid = union_find(info.target);
	if (pid > 0)
		item->process = pidfd_open(pid, 0);
}

static struct item *item_find(const struct node_watch *w, const char *name)
{
	for (size_t i = 0; i < w->n_items; i++)
		if (strcmp(w->items[i]->name, name) == 0)
			return w->items[i];
	return NULL;
}

static struct item *item_add(struct node_watch *w, const char *name)
{
	struct item *item = calloc(1, sizeof(*item));
	struct item **items = reallocarray(w->items, w->n_items + 1,
					   sizeof(struct item *));
	struct pollfd *fds = reallocarray(w->fds, w->n_items + 3, sizeof(*fds));

	if (items)
		w->items = items;
	if (fds)
		w->fds = fds;
	if (!item || !items || !fds) {
		free(item);
		return NULL;
	}
	(void)snprintf(item->name, sizeof(item->name), "%s", name);
	item->process = -1;
	w->items[w->n_items++] = item;
	return item;
}

/* ---- repair ---- */

static void retry_later(struct item *item, const char *why)
{
	if (item->retries >= RETRIES_MAX) {
		item->retry_at_ms = 0;
		log_warning("volume=%s is still broken here: %s; left to the "
			    "next call that stages or publishes it",
			    item->name, why);
		return;
	}
	log_warning("volume=%s is broken here: %s; trying again", item->name,
		    why);
	item->retry_at_ms = clock_ms() +
			    ((int64_t)RETRY_FIRST_MS << item->retries++);
}

/*
 * Tell whether the record has the whole volume here: anything else is another
 * call's to finish.
 */
static bool is_attached(struct csi *csi, const struct volume_record *record,
			const node_state *state)
{
	const struct volume_attachment *a = volume_record_attachment(
		record, volume_context_node(csi->volumes));
	struct csi_id id;

	/* Of a device alone nothing is mounted here. */
	return a && a->state == ATTACHMENT_ATTACHED &&
	       volume_spec_is_tree(&record->spec) &&
	       (csi_id_parse(state->stage->volume_id, &id) == 0 ||
		csi_inline_id_parse(state->stage->volume_id, &id) == 0) &&
	       csi_id_matches(&id, record);
}

/* With the volume locked. */
static int watch_repair(struct csi *csi, struct item *item, struct error *err)
{
	struct volume_record *record = NULL;
	node_state *state = NULL;
	int r = node_state_load(csi->state_dir, item->name, &state, err);

	if (r == 0 && state->stage &&
	    node_health(state->stage->staging_target_path, NULL) != NODE_WELL) {
		r = volume_get(csi->volumes, item->name, &record, err);
		if (r == -ENOENT)
			r = 0;
		else if (r == 0 && is_attached(csi, record, state)) {
			r = node_ensure_staged(csi, record, state, false, err);
			if (r == 0)
				log_info("volume=%s had died here and is put "
					 "right",
					 item->name);
		}
	}
	node_state_free(state);
	volume_record_free(record);
	return r;
}

static void item_repair(struct node_watch *w, struct item *item)
{
	struct volume_lock lock = {.background = true};
	struct error err = {0};
	int r;

	/* The holder of the lock calls node_watch_look() when it is done. */
	if (volume_lock_take(&w->csi->locks, &lock, item->name, "a repair")) {
		item->mount = mount_id(item->path);
		fd_close(take_fd(&item->process));
		return;
	}
	item->retry_at_ms = 0;
	r = watch_repair(w->csi, item, &err);
	volume_lock_release(&w->csi->locks, &lock);
	if (r < 0)
		retry_later(item, error_text(&err));
	else
		item->retries = 0;
	item_refresh(item);
}

/* ---- looking ---- */

/* Staged, and where; false: not, or it cannot be read. */
static bool is_staged(struct csi *csi, const char *name, char *ret_path)
{
	node_state *state = NULL;
	bool staged = node_state_load(csi->state_dir, name, &state, NULL) ==
			      0 &&
		      state->stage &&
		      !capability_is_block(state->stage->volume_capability);

	if (staged)
		(void)snprintf(ret_path, PATH_MAX, "%s",
			       state->stage->staging_target_path);
	node_state_free(state);
	return staged;
}

static void scan_one(struct node_watch *w, const char *name)
{
	char path[PATH_MAX];
	struct item *item;

	if (!is_staged(w->csi, name, path))
		return;
	item = item_find(w, name);
	if (!item)
		item = item_add(w, name);
	if (!item)
		return; /* no memory: not watched */
	memcpy(item->path, path, sizeof(item->path));
	item->found = true;
	item_refresh(item);
	if (item->process < 0)
		item_repair(w, item);
}

/* Find all staged volumes, by their state files. */
static void watch_scan(struct node_watch *w)
{
	DIR *dir = opendir(w->csi->state_dir);
	struct dirent *entry;
	size_t kept = 0;

	for (size_t i = 0; i < w->n_items; i++)
		w->items[i]->found = false;
	while (dir && (entry = readdir(dir))) {
		size_t length = strlen(entry->d_name);

		if (length <= strlen(SUFFIX) ||
		    strcmp(entry->d_name + length - strlen(SUFFIX), SUFFIX) !=
			    0)
			continue;
		entry->d_name[length - strlen(SUFFIX)] = '\0';
		scan_one(w, entry->d_name);
	}
	if (dir)
		(void)closedir(dir);
	for (size_t i = 0; i < w->n_items; i++) {
		if (w->items[i]->found)
			w->items[kept++] = w->items[i];
		else
			item_free(w->items[i]);
	}
	w->n_items = kept;
}

/*
 * Repair items whose union ended, whose mount is another, or whose time has
 * come.
 */
static void watch_check(struct node_watch *w)
{
	int64_t now = clock_ms();

	for (size_t i = 0; i < w->n_items; i++) {
		struct item *item = w->items[i];

		if (w->fds[2 + i].revents ||
		    mount_id(item->path) != item->mount ||
		    (item->retry_at_ms && item->retry_at_ms <= now))
			item_repair(w, item);
	}
}

/* ---- the thread ---- */

static int time_left(const struct node_watch *w)
{
	int64_t first = 0;

	for (size_t i = 0; i < w->n_items; i++) {
		int64_t at = w->items[i]->retry_at_ms;

		if (at && (!first || at < first))
			first = at;
	}
	if (!first)
		return -1;
	first -= clock_ms();
	return first < 0 ? 0 : (int)first;
}

/* Sleep until something happens; is there anything new in the directory? */
static bool wait_for_change(struct node_watch *w)
{
	uint64_t count;
	bool woken;

	w->fds[0] = (struct pollfd){.fd = w->wake, .events = POLLIN};
	w->fds[1] = (struct pollfd){.fd = w->table, .events = POLLPRI};
	for (size_t i = 0; i < w->n_items; i++)
		w->fds[2 + i] = (struct pollfd){.fd = w->items[i]->process,
						.events = POLLIN};
	if (poll(w->fds, 2 + w->n_items, time_left(w)) < 0)
		return false; /* EINTR: once more */
	woken = w->fds[0].revents;
	if (woken)
		(void)!read(w->wake, &count, sizeof(count)); /* only a count */
	return woken;
}

static void *watch_run(void *watch)
{
	struct node_watch *w = watch;
	bool woken;

	watch_scan(w);
	while (!atomic_load(&w->stopping)) {
		woken = wait_for_change(w);
		if (atomic_load(&w->stopping))
			break;
		(void)poll(NULL, 0, SETTLE_MS);
		watch_check(w);
		if (woken)
			watch_scan(w);
	}
	return NULL;
}

int node_watch_start(struct csi *csi, struct node_watch **ret,
		     struct error *err)
{
	struct node_watch *w = calloc(1, sizeof(*w));
	pthread_attr_t attr;
	int r;

	if (!w)
		return error_set(err, ENOMEM, "out of memory");
	w->csi = csi;
	w->fds = calloc(2, sizeof(*w->fds));
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	w->table = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	(void)pthread_attr_init(&attr); /* cannot fail on Linux */
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = !w->fds || w->wake < 0 || w->table < 0
		    ? ENOMEM
		    : pthread_create(&w->thread, &attr, watch_run, w);
	(void)pthread_attr_destroy(&attr);
	if (r != 0) {
		fd_close(w->wake);
		fd_close(w->table);
		free(w->fds);
		free(w);
		return error_set(err, r, "watch the mounts: %s", strerror(r));
	}
	*ret = w;
	return 0;
}

void node_watch_look(struct node_watch *w)
{
	const uint64_t one = 1;

	if (w)
		(void)!write(w->wake, &one, sizeof(one)); /* full: woken */
}

void node_watch_stop(struct node_watch *w)
{
	if (!w)
		return;
	atomic_store(&w->stopping, true);
	node_watch_look(w);
	(void)pthread_join(w->thread, NULL);
	for (size_t i = 0; i < w->n_items; i++)
		item_free(w->items[i]);
	fd_close(w->wake);
	fd_close(w->table);
	free(w->items);
	free(w->fds);
	free(w);
}
