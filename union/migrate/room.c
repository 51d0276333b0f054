/* SPDX-License-Identifier: Apache-2.0 */
#include "union/migrate/room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/change/act_as.h"
#include "union/migrate/drain_dir.h"
#include "union/migrate/drain_walk.h"
#include "union/sys/copy_data.h"
#include "union/view/lookup.h"

#define FAST        (UINT64_C(4) << 20) /* bytes a writer writes in 1 ms */
#define LOOK_MIN_MS 4
#define LOOK_MAX_MS 60000
#define NEAR_MS     64  /* with looks so close, writers are made to ask */
#define READY_MS    200 /* for the open of the first file there */
#define IDLE_MS     250 /* between looks while nobody writes */

#define STEP      (UINT64_C(128) << 20) /* bytes made while writers wait */
#define PARTS     32   /* files of 1/PARTS of the missing bytes go first */
#define PAUSE_MS  1000 /* the first, when nothing can be moved */
#define PAUSE_MAX 60000
#define SPACING   10 /* walks that find nothing take 1 part of so many */

/* A write that waits for room. */
struct waiting {
	struct waiting *next;
	fuse_req_t req;
	int64_t since_ms;
};

struct room_branch {
	struct room_writer *writers;
	atomic_bool watched; /* the thread knows of them */
	struct waiting *waiting;

	/* Bytes that room_make() wants, and number of calls begun and ended. */
	uint64_t wanted; /* bytes; 0: nothing */
	uint64_t begun, ended;
	int result;

	atomic_bool armed;  /* writers were nudged, so they ask */
	bool nudging;       /* that is not done yet */
	unsigned lost;      /* nudge.lost when it began */
	bool wrote;         /* one asked since, and may go on */
	bool idle;          /* the next look counts on being told of a write */
	bool making;        /* without the lock; callers wait */
	uint64_t available; /* at the last look */
	int64_t look_ms;    /* not before, unless room is wanted; clock_ms() */

	/* Nothing could be moved: */
	_Atomic int64_t retry_ms; /* not before; 0: at any time */
	int64_t least_ms, pause_ms;
	atomic_bool closed; /* a file was, since */
};

struct room {
	struct unionfs *fs;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t change;
	bool on, ending, started, again;
	atomic_bool ready; /* to nudge, as far as that can be */
	pthread_t thread;
	struct nudge nudge; /* the thread's */
	struct room_branch of[BRANCH_MAX];
};

/* A pass over a branch to make room. */
struct making {
	struct room *room;
	struct branch *branch;
	uint64_t want, start, moved; /* bytes */
	bool asked;                  /* by room_make() */
	bool enough;
};

struct room *room_new(struct unionfs *fs)
{
	struct room *room = calloc(1, sizeof(*room));
	pthread_condattr_t attr;

	if (!room)
		return NULL;
	room->fs = fs;
	pthread_mutex_init(&room->lock, NULL);
	pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* is one */
	pthread_cond_init(&room->change, &attr);
	pthread_condattr_destroy(&attr);
	return room;
}

static uint64_t low_of(const struct branch_space *space)
{
	uint64_t size = space->available + space->used;
	uint64_t least = size / ROOM_LOW_MOST, low = size / ROOM_LOW_PART;

	if (least > ROOM_LOW_MIN)
		least = ROOM_LOW_MIN;
	if (low < least)
		low = least;
	return low < ROOM_LOW_MAX ? low : ROOM_LOW_MAX;
}

/* Ask for the present space. That may hang, so never with the lock. */
static uint64_t ask_room(struct branch *branch, uint64_t *ret_low)
{
	struct branch_space space;

	branch_space_changed(branch);
	branch_space(branch, clock_ms(), &space);
	*ret_low = low_of(&space);
	return space.available;
}

/* Get the ms until half of the rest can have been used. */
static int64_t interval(uint64_t available, uint64_t low)
{
	uint64_t left = available > low ? available - low : 0;
	uint64_t ms = left / 2 / FAST;

	return ms < LOOK_MIN_MS   ? LOOK_MIN_MS
	       : ms > LOOK_MAX_MS ? LOOK_MAX_MS
				  : (int64_t)ms;
}

/* Get the time of the first look: most files are closed again by then. */
static int64_t first_look(struct branch *branch)
{
	uint64_t available, low;

	available = ask_room(branch, &low);
	return clock_ms() + interval(available, low);
}

static bool is_changeable(const struct branch *branch)
{
	return branch_is_well(branch) &&
	       !(branch->flags & (BRANCH_RO | BRANCH_GONE));
}

bool room_is_elsewhere(struct unionfs *fs, const struct branch *branch)
{
	uint64_t available = atomic_load(&branch->available);
	struct branch_space space;
	struct branch *to;
	unsigned i;

	for (i = 0; (to = drain_target(fs, branch, 0, true, i)); i++) {
		branch_space(to, clock_ms(), &space);
		if (space.available > available)
			return true;
	}
	return false;
}

static void *room_main(void *context);

/* Wake the thread, with the lock: it is to look. */
static void wake_room(struct room *room)
{
	if (room->on && !room->started)
		room->started = pthread_create(&room->thread, NULL, room_main,
					       room) == 0;
	room->again = true;
	pthread_cond_broadcast(&room->change);
}

void room_writer_begin(struct room *room, struct branch *branch,
		       const struct node *node, struct room_writer *writer)
{
	struct room_branch *b;
	int64_t look_ms = 0;

	if (!room)
		return;
	b = &room->of[branch->id];
	if (!atomic_load(&b->watched))
		look_ms = first_look(branch);
	writer->branch = branch;
	writer->file = (struct nudge_file){
		node->id, (uint32_t)lookup_generation(node), 0};
	pthread_mutex_lock(&room->lock);
	writer->next = b->writers;
	writer->at = &b->writers;
	if (writer->next)
		writer->next->at = &writer->next;
	b->writers = writer;
	if (!atomic_exchange(&b->watched, true)) {
		b->look_ms = look_ms;
		wake_room(room);
	}
	pthread_mutex_unlock(&room->lock);
}

void room_writer_waits(struct room *room, struct branch *branch)
{
	struct branch_space space;
	struct timespec at;

	if (!room || atomic_load(&room->ready))
		return;
	branch_space(branch, clock_ms(), &space);
	if (interval(space.available, low_of(&space)) >= NEAR_MS)
		return;
	at = clock_deadline(READY_MS);
	pthread_mutex_lock(&room->lock);
	while (room->started && !room->ending && !atomic_load(&room->ready))
		if (pthread_cond_timedwait(&room->change, &room->lock, &at))
			break;
	pthread_mutex_unlock(&room->lock);
}

void room_writer_end(struct room *room, struct room_writer *writer)
{
	if (!room || !writer->branch)
		return;
	pthread_mutex_lock(&room->lock);
	*writer->at = writer->next;
	if (writer->next)
		writer->next->at = writer->at;
	writer->branch = NULL;
	pthread_mutex_unlock(&room->lock);
}

void room_closed(struct room *room, const struct branch *branch)
{
	struct room_branch *b;

	if (!room)
		return;
	b = &room->of[branch->id];
	if (!atomic_load(&b->retry_ms) || atomic_exchange(&b->closed, true))
		return;
	pthread_mutex_lock(&room->lock);
	wake_room(room);
	pthread_mutex_unlock(&room->lock);
}

/* Was nothing found to move, and is it so still? With the lock. */
static bool is_exhausted(const struct room_branch *b, int64_t now_ms)
{
	return now_ms < (atomic_load(&b->closed) ? b->least_ms
						 : atomic_load(&b->retry_ms));
}

bool room_may_help(struct room *room, const struct branch *branch)
{
	struct room_branch *b;
	bool may;

	if (!room || !is_changeable(branch))
		return false;
	b = &room->of[branch->id];
	pthread_mutex_lock(&room->lock);
	may = room->on && !room->ending &&
	      (atomic_load(&b->closed) || !is_exhausted(b, clock_ms()));
	pthread_mutex_unlock(&room->lock);
	return may && room_is_elsewhere(room->fs, branch);
}

int room_make(struct room *room, struct branch *branch, uint64_t bytes)
{
	struct room_branch *b;
	uint64_t until;
	int r;

	if (!room)
		return -ENOSPC;
	b = &room->of[branch->id];
	pthread_mutex_lock(&room->lock);
	until = b->begun + 1;
	if (b->wanted < bytes)
		b->wanted = bytes;
	wake_room(room);
	while (room->started && !room->ending && b->ended < until)
		pthread_cond_wait(&room->change, &room->lock);
	r = b->ended >= until ? b->result : -ECANCELED;
	pthread_mutex_unlock(&room->lock);
	return r;
}

/* Answer all that wait, or only those that did too long. With the lock. */
static void answer_writers(struct room_branch *b, bool all)
{
	struct waiting **at = &b->waiting, *w;

	while ((w = *at)) {
		if (!all && clock_ms() - w->since_ms < ROOM_PATIENCE_MS) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		fuse_reply_err(w->req, ENODATA);
		free(w);
	}
}

/* Make writers ask, each file once. With the lock. */
static void nudge(struct room *room, struct room_branch *b)
{
	struct nudge_file files[NUDGE_MAX];
	const struct room_writer *w;
	unsigned n = 0;

	for (w = b->writers; w && n < NUDGE_MAX; w = w->next)
		if (!n || files[n - 1].node != w->file.node)
			files[n++] = w->file;
	if (!n)
		return;
	b->wrote = false;
	b->nudging = nudge_files(&room->nudge, files, n);
	b->lost = room->nudge.lost;
	atomic_store(&b->armed, b->nudging);
}

/*
 * Make writers ask first, from now on or soon. True: they do so already, and
 * nobody has written since. With the lock.
 */
static bool arm(struct room *room, struct room_branch *b)
{
	bool done = b->nudging && nudge_is_done(&room->nudge);

	/* The process for the questions ended, perhaps after some only. */
	if (b->lost != room->nudge.lost)
		atomic_store(&b->armed, false);
	else if (b->nudging && !done)
		return false;
	b->nudging = false;
	if (atomic_load(&b->armed) && !b->wrote)
		return true;
	nudge(room, b);
	return false;
}

bool room_holds(struct room *room, fuse_req_t req, const struct node *node)
{
	const struct copy *copy = node_first(node);
	struct branch_space space;
	struct waiting *w = NULL;
	struct branch *branch;
	struct room_branch *b;
	uint64_t available, low;
	bool wants, near;

	if (!room || !copy || !node->passthrough)
		return false;
	branch = branch_of(room->fs, copy);
	b = &room->of[branch->id];
	if (!atomic_load(&b->watched))
		return false;
	branch_space(branch, clock_ms(), &space);
	if (!atomic_load(&b->armed) &&
	    interval(space.available, low_of(&space)) >= NEAR_MS)
		return false;
	available = ask_room(branch, &low);
	wants = available < low && room_is_elsewhere(room->fs, branch);
	pthread_mutex_lock(&room->lock);
	b->wrote = true;
	if (room->started && !room->ending && b->writers &&
	    (b->making || (wants && !is_exhausted(b, clock_ms()))))
		w = malloc(sizeof(*w));
	if (w) {
		*w = (struct waiting){b->waiting, req, clock_ms()};
		b->waiting = w;
	}
	near = available < 2 * low;
	if (!w && near && !is_exhausted(b, clock_ms()))
		(void)arm(room, b); /* so the next write asks, too */
	/*
	 * A look makes the next write ask, so one that comes in time is not
	 * hurried: each write would ask.
	 */
	if (w || near || b->idle)
		wake_room(room);
	pthread_mutex_unlock(&room->lock);
	return w != NULL;
}

static bool making_is_stopped(void *context)
{
	struct making *m = context;
	struct room *room = m->room;
	bool stopped;

	if (m->enough)
		return true;
	pthread_mutex_lock(&room->lock);
	stopped = room->ending || !is_changeable(m->branch) ||
		  (!m->asked && !room->of[m->branch->id].writers);
	pthread_mutex_unlock(&room->lock);
	return stopped;
}

/*
 * Answer writers that waited for too long: they may be interrupted, and ask
 * again.
 */
static int copied(void *context, uint64_t bytes)
{
	struct making *m = context;
	struct room *room = m->room;
	int r;

	(void)bytes;
	pthread_mutex_lock(&room->lock);
	(void)arm(room, &room->of[m->branch->id]);
	answer_writers(&room->of[m->branch->id], false);
	r = room->ending ? -ECANCELED : 0;
	pthread_mutex_unlock(&room->lock);
	return r;
}

static void making_met(void *context, const char *name, uint64_t bytes, int r)
{
	struct making *m = context;
	uint64_t low;

	(void)name;
	if (r < 0)
		return;
	m->moved += bytes;
	/* Freed room may be seen later. */
	m->enough = ask_room(m->branch, &low) >= m->want ||
		    m->moved >= m->want - m->start;
}

/* Large files first: a small one takes as long to move. */
static void walk(struct making *m)
{
	struct copy_pace pace = {.step = copied, .context = m};
	struct drain_walk walk = {.fs = m->room->fs,
				  .branch = m->branch,
				  .pace = &pace,
				  .for_room = true,
				  .least = (m->want - m->start) / PARTS,
				  .stopped = making_is_stopped,
				  .met = making_met,
				  .context = m};
	int64_t r;

	dir_fd_changes_begin();
	r = walk.least > 1 ? drain_walk(&walk) : 0;
	walk.least = 1;
	if (r != -ECANCELED)
		(void)drain_walk(&walk); /* it moves all it can */
	dir_fd_changes_end();
}

/* Have @want bytes, with the lock, which is let go meanwhile. */
static void make_some(struct room *room, struct branch *branch, uint64_t want,
		      uint64_t available)
{
	struct room_branch *b = &room->of[branch->id];
	struct making m = {.room = room,
			   .branch = branch,
			   .want = want,
			   .start = available,
			   .asked = b->begun != b->ended,
			   .enough = available >= want};
	int64_t begin_ms = clock_ms(), now_ms;

	atomic_store(&b->closed, false);
	atomic_store(&b->retry_ms, 0);
	b->making = true;
	(void)arm(room, b);
	pthread_mutex_unlock(&room->lock);
	if (!m.enough && room_is_elsewhere(room->fs, branch))
		walk(&m);
	pthread_mutex_lock(&room->lock);
	b->making = false;
	b->result = m.moved || m.enough ? 0 : -ENOSPC;
	if (b->result == 0) {
		b->pause_ms = 0;
		return;
	}
	now_ms = clock_ms();
	b->pause_ms = b->pause_ms ? b->pause_ms * 2 : PAUSE_MS;
	if (b->pause_ms > PAUSE_MAX)
		b->pause_ms = PAUSE_MAX;
	b->least_ms = now_ms + (now_ms - begin_ms) * SPACING;
	atomic_store(&b->retry_ms, now_ms + b->pause_ms > b->least_ms
					   ? now_ms + b->pause_ms
					   : b->least_ms);
}

/* Make the room that is wanted, and answer. With the lock. */
static void serve_writers(struct room *room, struct branch *branch,
			  uint64_t available, uint64_t low)
{
	struct room_branch *b = &room->of[branch->id];
	uint64_t want = b->wanted;

	if (!want && available < low)
		want = low + (low < STEP ? low : STEP);
	if (b->wanted) {
		b->begun++;
		b->wanted = 0;
		b->result = -ENOSPC;
	}
	if (want && !is_exhausted(b, clock_ms()) && is_changeable(branch))
		make_some(room, branch, want, available);
	if (b->ended != b->begun) {
		b->ended = b->begun;
		pthread_cond_broadcast(&room->change);
	}
	if (b->waiting)
		(void)arm(room, b);
	answer_writers(b, true);
}

/* Look, with the lock. Returns the ms to the next look; -1: when woken. */
static int64_t look_at_branch(struct room *room, struct branch *branch)
{
	struct room_branch *b = &room->of[branch->id];
	uint64_t available, low;
	bool starts = false, same;
	int64_t ms;

	b->idle = false;
	if (!b->writers && !b->wanted) {
		answer_writers(b, true);
		atomic_store(&b->armed, false);
		atomic_store(&b->watched, false);
		return -1;
	}
	if (!b->wanted && !b->waiting && clock_ms() < b->look_ms)
		return b->look_ms - clock_ms();
	pthread_mutex_unlock(&room->lock);
	available = ask_room(branch, &low);
	if (interval(available, low) < NEAR_MS) {
		nudge_start(&room->nudge, room->fs->mountpoint);
		starts = !atomic_load(&room->ready);
	}
	pthread_mutex_lock(&room->lock);
	if (starts) {
		atomic_store(&room->ready, true);
		pthread_cond_broadcast(&room->change);
	}
	if (atomic_load(&b->closed) && is_exhausted(b, clock_ms()))
		return b->least_ms - clock_ms();
	serve_writers(room, branch, available, low);
	same = b->available == available;
	b->available = available;
	if (is_exhausted(b, clock_ms())) {
		atomic_store(&b->armed, false);
		return atomic_load(&b->retry_ms) - clock_ms();
	}
	ms = interval(available, low);
	b->idle = ms < NEAR_MS && arm(room, b) && same;
	return b->idle ? IDLE_MS : ms;
}

static void *room_main(void *context)
{
	struct room *room = context;
	unsigned id, count;
	int64_t next, ms;
	struct timespec at;

	if (act_as_thread_setup() < 0)
		log_warning("'%s': files that move to make room may get a "
			    "wrong mode for a moment",
			    room->fs->mountpoint);
	pthread_mutex_lock(&room->lock);
	while (!room->ending) {
		room->again = false;
		next = -1;
		count = room->fs->branches.count;
		for (id = 0; id < count && !room->ending; id++) {
			ms = look_at_branch(room, room->fs->branches.items[id]);
			if (ms >= 0 && (next < 0 || ms < next))
				next = ms;
		}
		at = clock_deadline(next < 0 ? 0 : next);
		while (!room->again && !room->ending)
			if (next < 0)
				pthread_cond_wait(&room->change, &room->lock);
			else if (pthread_cond_timedwait(&room->change,
							&room->lock, &at))
				break;
	}
	for (id = 0; id < BRANCH_MAX; id++)
		answer_writers(&room->of[id], true);
	pthread_mutex_unlock(&room->lock);
	nudge_end(&room->nudge);
	return NULL;
}

void room_start(struct room *room)
{
	unsigned id;

	if (!room)
		return;
	pthread_mutex_lock(&room->lock);
	room->on = true;
	for (id = 0; id < BRANCH_MAX; id++)
		if (room->of[id].writers)
			wake_room(room);
	pthread_mutex_unlock(&room->lock);
}

void room_stop(struct room *room)
{
	if (!room)
		return;
	pthread_mutex_lock(&room->lock);
	room->ending = true;
	pthread_cond_broadcast(&room->change);
	pthread_mutex_unlock(&room->lock);
	if (room->started)
		(void)pthread_join(room->thread, NULL); /* is ours */
	room->started = false;
}

void room_free(struct room *room)
{
	if (!room)
		return;
	room_stop(room);
	pthread_cond_destroy(&room->change);
	pthread_mutex_destroy(&room->lock);
	free(room);
}
