/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/preserve_mtime.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/node/names_change.h"
#include "union/state/state.h"
#include "union/sys/attrs.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock, which nobody holds while a branch is asked: */
static struct preserve_mtime *begun; /* the last first */
/* Changed with the lock, read without. A change that ends is counted while
 * it is in the list still. */
static atomic_uint begun_count;
static _Atomic uint64_t ended;

static bool is_preserved_on(const struct preserve_mtime *quietly,
			    unsigned branch, const struct handle *handle)
{
	return quietly->branch == branch &&
	       handle_equal(&quietly->handle, handle);
}

/*
 * Find a change that has begun there, and is to set the times back: no user
 * changed names since. With the lock held.
 */
static const struct preserve_mtime *find_preserved(const struct node *node,
						   unsigned branch,
						   const struct handle *handle)
{
	const struct preserve_mtime *other = begun;

	while (other && (!is_preserved_on(other, branch, handle) ||
			 (node && !names_change_is_still(node, other->mark))))
		other = other->next;
	return other;
}

/* Join changes that have begun there: set back the same times. */
static bool join_preserved(const struct node *node,
			   struct preserve_mtime *quietly)
{
	const struct preserve_mtime *other = find_preserved(
		node, quietly->branch, &quietly->handle);

	if (other)
		*quietly = *other;
	return other != NULL;
}

/* Read the present times. */
static int read_times(struct unionfs *fs, const struct node *node, int fd,
		      struct preserve_mtime *ret)
{
	const struct copy *copy = node ? node_copy_on(node, ret->branch) : NULL;
	struct stat st;

	ret->mark = node ? names_change_mark(node) : 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	ret->times[0] = st.st_atim;
	ret->times[1] = st.st_mtim;
	ret->shown = copy ? preserve_ctime_shown(&fs->nodes, copy, &st)
			  : st.st_ctim;
	return 0;
}

/* Take a slot for the next server; NULL: none. With the lock held. */
static struct quiet_slot *take_slot(struct node_table *table,
				    const struct node *node,
				    const struct preserve_mtime *quietly)
{
	struct quiet_slot *slots = table->state->quiet_slots, *slot;
	unsigned i = table->quiet_free;

	while (i < STATE_QUIET_MAX && atomic_load(&slots[i].used))
		i++;
	table->quiet_free = i;
	if (i == STATE_QUIET_MAX)
		return NULL;
	if (i >= atomic_load(&table->state->header->quiet_used))
		atomic_store(&table->state->header->quiet_used, i + 1);
	slot = &slots[i];
	slot->branch = quietly->branch;
	slot->node = node ? node->id : 0;
	slot->generation = node ? node->generation : 0;
	slot->mark = quietly->mark;
	slot->shown = quietly->shown;
	slot->times[0] = quietly->times[0];
	slot->times[1] = quietly->times[1];
	slot->handle = quietly->handle;
	atomic_store(&slot->used, 1);
	return slot;
}

static void give_slot(struct node_table *table, struct quiet_slot *slot)
{
	unsigned i = (unsigned)(slot - table->state->quiet_slots);

	atomic_store(&slot->used, 0);
	if (i < table->quiet_free)
		table->quiet_free = i;
}

/*
 * @since  @ended, from before the times were read; UINT64_MAX: they were not.
 *         A change that ends meanwhile may set them back after that
 */
static bool enter(struct unionfs *fs, const struct node *node,
		  struct preserve_mtime *quietly, uint64_t *since)
{
	bool ready;

	pthread_mutex_lock(&lock);
	ready = join_preserved(node, quietly) || ended == *since;
	*since = ended;
	if (ready) {
		quietly->slot = take_slot(&fs->nodes, node, quietly);
		quietly->next = begun;
		begun = quietly;
		begun_count++;
	}
	pthread_mutex_unlock(&lock);
	return ready;
}

int preserve_mtime_begin(struct unionfs *fs, unsigned branch, int fd,
			 struct preserve_mtime *ret)
{
	uint64_t since = UINT64_MAX;
	struct node *node;
	int r = handle_get(fd, "", &ret->handle);

	if (r < 0)
		return r;
	ret->branch = branch;
	node = node_hold(&fs->nodes, branch, &ret->handle);
	while (r == 0 && !enter(fs, node, ret, &since))
		r = read_times(fs, node, fd, ret);
	if (node)
		node_let_go(&fs->nodes, node);
	return r;
}

static void leave_slot(struct unionfs *fs, const struct preserve_mtime *quietly)
{
	struct preserve_mtime **at = &begun;

	pthread_mutex_lock(&lock);
	while (*at != quietly)
		at = &(*at)->next;
	*at = quietly->next;
	if (quietly->slot)
		give_slot(&fs->nodes, quietly->slot);
	ended++;
	begun_count--;
	pthread_mutex_unlock(&lock);
}

void preserve_mtime_show(struct preserve_mtime *quietly, const struct stat *st)
{
	struct quiet_slot *slot = quietly->slot;

	pthread_mutex_lock(&lock);
	quietly->times[0] = st->st_atim;
	quietly->times[1] = st->st_mtim;
	quietly->shown = st->st_ctim;
	pthread_mutex_unlock(&lock);
	if (!slot)
		return;
	/* If killed in between, the directory keeps its times. */
	atomic_store(&slot->used, 0);
	slot->times[0] = st->st_atim;
	slot->times[1] = st->st_mtim;
	slot->shown = st->st_ctim;
	atomic_store(&slot->used, 1);
}

/* Set the present time: a user's change meanwhile must not look older. */
static void touch_ctime(int fd)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  {.tv_nsec = UTIME_NOW}};

	(void)utimensat(fd, "", times, AT_EMPTY_PATH);
}

/*
 * Hide the change of the change time. Another change that ends now may have set
 * it once more, and noted that first.
 */
static void hide_ctime_change(struct unionfs *fs, const struct node *node,
			      int fd, const struct preserve_mtime *quietly)
{
	struct quiet_change change = {.shown = quietly->shown};
	struct stat st;

	while (fstat(fd, &st) == 0 && !time_equal(&st.st_ctim, &change.after)) {
		if (node && !names_change_is_still(node, quietly->mark)) {
			touch_ctime(fd);
			return;
		}
		change.after = st.st_ctim;
		change.modified = st.st_mtim;
		preserve_ctime_change(&fs->nodes, quietly->branch,
				      &quietly->handle, &change);
	}
}

/* Set the times back. @node NULL: the kernel does not know the directory. */
static void set_back(struct unionfs *fs, const struct node *node, int fd,
		     const struct preserve_mtime *quietly)
{
	if (node && !names_change_is_still(node, quietly->mark))
		return;
	/* A wrong time is no harm. */
	(void)utimensat(fd, "", quietly->times, AT_EMPTY_PATH);
	hide_ctime_change(fs, node, fd, quietly);
}

void preserve_mtime_end(struct unionfs *fs, int fd,
			struct preserve_mtime *quietly)
{
	struct node *node = node_hold(&fs->nodes, quietly->branch,
				      &quietly->handle);

	set_back(fs, node, fd, quietly);
	leave_slot(fs, quietly);
	if (node)
		node_let_go(&fs->nodes, node);
}

/* Correct @st. True: @st is to be seen. @since: @ended from before the stat. */
static bool settle_times(struct unionfs *fs, const struct copy *copy,
			 uint64_t since, struct stat *st)
{
	struct handle handle = copy_handle(copy);
	const struct preserve_mtime *other = NULL;

	st->st_ctim = preserve_ctime_shown(&fs->nodes, copy, st);
	if (begun_count) {
		pthread_mutex_lock(&lock);
		other = find_preserved(copy_node(copy), copy->branch, &handle);
		if (other) {
			st->st_atim = other->times[0];
			st->st_mtim = other->times[1];
			st->st_ctim = other->shown;
		}
		pthread_mutex_unlock(&lock);
	}
	return other || ended == since;
}

int preserve_mtime_stat(struct unionfs *fs, struct copy *copy, struct stat *ret)
{
	struct stat st;
	uint64_t since;
	int r;

	do {
		since = ended;
		r = unionfs_stat_copy(fs, copy, &st);
	} while (r == 0 && !settle_times(fs, copy, since, &st));
	if (r == 0)
		*ret = st;
	return r;
}

/* Has no user changed names since? By the nodes of the killed server. */
static bool is_still(const struct state *state, const struct quiet_slot *slot)
{
	const struct node *node = &state->nodes[slot->node];

	if (!slot->node)
		return true;
	return slot->node < atomic_load(&state->header->nodes_used) &&
	       node->generation == slot->generation &&
	       names_change_is_still(node, slot->mark);
}

/* Get the next slot in use, after @slot (NULL: the first); NULL: none. */
static struct quiet_slot *next_used(const struct state *state,
				    const struct quiet_slot *slot)
{
	uint64_t i = slot ? (uint64_t)(slot - state->quiet_slots) + 1 : 0;
	uint64_t used = atomic_load(&state->header->quiet_used);

	while (i < used && i < STATE_QUIET_MAX &&
	       !atomic_load(&state->quiet_slots[i].used))
		i++;
	return i < used && i < STATE_QUIET_MAX ? &state->quiet_slots[i] : NULL;
}

void preserve_mtime_take_over(struct state *state)
{
	struct quiet_slot *slot = NULL;

	while ((slot = next_used(state, slot)))
		if (!is_still(state, slot))
			atomic_store(&slot->used, 0);
}

static void restore(struct unionfs *fs, const struct quiet_slot *slot)
{
	const struct preserve_mtime quietly = {
		.handle = slot->handle,
		.shown = slot->shown,
		.times = {slot->times[0], slot->times[1]},
		.branch = slot->branch,
	};
	auto_close int fd = -1;

	if (slot->branch >= fs->branches.count || !branch_usable(slot->branch))
		return;
	fd = handle_open(fs->branches.items[slot->branch]->root_fd,
			 &slot->handle, O_PATH | O_DIRECTORY);
	if (fd >= 0)
		set_back(fs, NULL, fd, &quietly);
}

void preserve_mtime_restore(struct unionfs *fs)
{
	struct quiet_slot *slot = NULL;

	while ((slot = next_used(fs->nodes.state, slot))) {
		restore(fs, slot);
		atomic_store(&slot->used, 0);
	}
}
