/* SPDX-License-Identifier: Apache-2.0 */
#include "union/open/branch_full.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "union/branch/dir_fd.h"
#include "union/change/act_as.h"
#include "union/migrate/drain_dir.h"
#include "union/migrate/inode_paths.h"
#include "union/migrate/migrate_file.h"
#include "union/migrate/room.h"
#include "union/open/durable.h"
#include "union/open/open_file.h"
#include "union/view/name_filter.h"

#define RETRY_MS 20
#define BESIDE   (UINT64_C(1) << 20) /* bytes that data takes beside itself */

struct waiting {
	struct waiting *next;
	struct request request; /* who asks, and how to answer */
	struct branch_full_wish wish;
	uint64_t left[BRANCH_MAX / 64]; /* branches that are no good */
	char data[];
};

struct branch_full {
	struct unionfs *fs;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t change;
	struct waiting *first, **last;
	bool started, ending;
	pthread_t thread;
};

struct branch_full *branch_full_new(struct unionfs *fs)
{
	struct branch_full *full = calloc(1, sizeof(*full));

	if (!full)
		return NULL;
	full->fs = fs;
	full->last = &full->first;
	pthread_mutex_init(&full->lock, NULL);
	pthread_cond_init(&full->change, NULL);
	return full;
}

static uint64_t space_part(const struct branch_space *space, uint64_t part,
			   uint64_t most)
{
	uint64_t n = (space->available + space->used) / part;

	return n < most ? n : most;
}

/* Count the bytes that can be written without making the file longer. */
static uint64_t holes(int fd)
{
	uint64_t size, there;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	size = (uint64_t)st.st_size;
	there = (uint64_t)st.st_blocks * 512;
	if (size <= there)
		return 0;
	return size - there < BRANCH_FULL_WIDE_MAX ? size - there
						   : BRANCH_FULL_WIDE_MAX;
}

/*
 * Compute the bytes kept for writes past us, on top of the rest that counts as
 * little.
 */
static uint64_t reserve(const struct branch *branch,
			const struct branch_space *space)
{
	uint64_t wide = space_part(space, BRANCH_FULL_WIDE_PART,
				   BRANCH_FULL_WIDE_MAX);
	unsigned writers = atomic_load(&branch->passed_writers);

	if (writers > BRANCH_FULL_WRITERS_MOST)
		writers = BRANCH_FULL_WRITERS_MOST;
	return wide / BRANCH_FULL_WRITER_PART * writers;
}

bool branch_full_is_near(struct unionfs *fs, struct branch *branch, int fd)
{
	uint64_t near, wide, least = atomic_load(&branch->min_free);
	struct branch_space space;

	branch_space(branch, clock_ms(), &space);
	near = space_part(&space, BRANCH_FULL_NEAR_PART, BRANCH_FULL_NEAR_MAX);
	if (least == BRANCH_MIN_FREE_UNION)
		least = fs->min_free;
	if (space.available < (near > least ? near : least))
		return true;
	wide = space_part(&space, BRANCH_FULL_WIDE_PART, BRANCH_FULL_WIDE_MAX) +
	       reserve(branch, &space);
	if (space.available >= wide + BRANCH_FULL_WIDE_MAX)
		return false; /* however large its holes */
	return space.available < wide + holes(fd) &&
	       room_is_elsewhere(fs, branch);
}

void branch_full_wrote(struct branch *branch)
{
	const struct branch_space space = {atomic_load(&branch->available),
					   atomic_load(&branch->used)};

	if (space.available <
	    2 * space_part(&space, BRANCH_FULL_WIDE_PART, BRANCH_FULL_WIDE_MAX))
		branch_space_changed(branch);
}

static uint64_t allocated(struct unionfs *fs, const struct node *node)
{
	auto_close int fd = unionfs_open(fs, node, O_PATH | O_NOFOLLOW);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512
					      : 0;
}

/*
 * Choose the i-th best branch for the file and @more bytes; NULL: there is
 * none.
 */
static struct branch *target(struct unionfs *fs, const struct node *node,
			     uint64_t more, unsigned i)
{
	const struct copy *copy = node_first(node);
	uint64_t need = allocated(fs, node) + more;
	struct branch_space space;
	struct branch *to;

	if (!copy)
		return NULL;
	to = drain_target(fs, branch_of(fs, copy), need, true, i);
	if (!to)
		return NULL;
	branch_space(to, clock_ms(), &space);
	return space.available > need ? to : NULL;
}

bool branch_full_must_leave(struct unionfs *fs, const struct node *node,
			    uint64_t size)
{
	const struct copy *copy = node_first(node);
	struct branch_space space;
	struct branch *branch;

	if (!copy || node->passthrough || !fs->branch_full ||
	    !S_ISREG(node->type))
		return false;
	branch = branch_of(fs, copy);
	if (!atomic_load(&branch->passed_writers))
		return false;
	act_as_root();
	if (atomic_fetch_add(&branch->beside_passed, size) + size >=
	    BRANCH_FULL_ASK_AGAIN) {
		atomic_store(&branch->beside_passed, 0);
		branch_full_wrote(branch);
	}
	branch_space(branch, clock_ms(), &space);
	return space.available < reserve(branch, &space) + size &&
	       target(fs, node, size, 0);
}

bool branch_full_can_help(struct unionfs *fs, const struct node *node, int r,
			  uint64_t more)
{
	const struct copy *copy = node_first(node);

	if ((r != -ENOSPC && r != -EDQUOT) || !fs->branch_full || !copy ||
	    !S_ISREG(node->type))
		return false;
	return (!node->passthrough && target(fs, node, more, 0)) ||
	       (r == -ENOSPC && room_may_help(fs->room, branch_of(fs, copy)));
}

static uint64_t wanted(const struct branch_full_wish *wish)
{
	return wish->data ? wish->size - wish->done : (uint64_t)wish->length;
}

/* Try the request once more, as one that names the file. 0 or -errno. */
static int try_again(struct unionfs *fs, struct waiting *w)
{
	const uint64_t id = w->wish.ino;
	struct migrate_lock_pass pass = migrate_lock_enter(&fs->migrate_lock,
							   &id, 1);
	const struct node *node = node_get(&fs->nodes, id);
	struct branch_full_wish *wish = &w->wish;
	int fd = node ? open_file_fd(fs, NULL, node, &wish->info) : -ESTALE;
	int r = fd < 0 ? fd : 0, durable = 0;
	ssize_t n = 1;

	/* Mapped pages come as root's, though another user may have written
	 * them. */
	if (wish->mapped)
		act_as_nobody();
	else
		act_as_spender(&w->request);

	if (r == 0 && !wish->data &&
	    fallocate(fd, wish->mode, wish->offset, wish->length) < 0)
		r = -errno;
	while (r == 0 && wish->data && wish->done < wish->size) {
		n = pwrite(fd, w->data + wish->done, wish->size - wish->done,
			   wish->offset + (off_t)wish->done);
		if (n > 0)
			wish->done += (size_t)n;
		else
			r = n < 0 ? -errno : -EIO;
	}
	act_as_root();
	if (fd >= 0 && (r == 0 || wish->done))
		durable = durable_data(fs, fd);
	if (durable < 0) {
		r = durable;
		wish->done = 0;
	}
	if (node)
		open_file_changed(fs, node, wish->offset,
				  wish->data ? (off_t)wish->done
					     : wish->length);
	migrate_lock_leave(&fs->migrate_lock, pass);
	return r;
}

/*
 * Move the file to the best branch that takes it. The file is open: so its node
 * stays.
 */
static int move_away(struct unionfs *fs, const struct node *node,
		     struct waiting *w)
{
	uint64_t more = wanted(&w->wish);
	const struct copy *copy = node_first(node);
	struct found_names found;
	struct migrate_file move = {0};
	unsigned i;
	int r;

	if (!copy)
		return -ENOSPC;
	move.from = branch_of(fs, copy);
	move.file = copy_handle(copy);
	r = inode_paths(fs, move.from, &move.file, &found);
	if (r < 0)
		return r;
	move.names = found.names;
	move.count = found.count;
	r = -ENOSPC;
	for (i = 0; (move.to = target(fs, node, more, i)); i++) {
		if (name_filter_is_in(w->left, move.to->id))
			continue;
		r = migrate_file(fs, &move);
		if (r != -ENOSPC && r != -EDQUOT && r != -EROFS &&
		    r != -EEXIST && r != -EOPNOTSUPP &&
		    r != -EPERM) /* the file's directory is immutable */
			break;
	}
	inode_paths_done(fs, &found);
	/* The free space does not show a quota: the file must never come
	 * back. */
	if (r == 0)
		w->left[move.from->id / 64] |= UINT64_C(1)
					       << move.from->id % 64;
	return r;
}

/* Make room on the branch of a file that stays. @r: the error of the write. */
static int make_room_here(struct unionfs *fs, const struct node *node,
			  const struct waiting *w, int r)
{
	const struct copy *copy = node_first(node);

	return r == -ENOSPC && copy ? room_make(fs->room, branch_of(fs, copy),
						wanted(&w->wish) + BESIDE)
				    : r;
}

static bool is_ending(struct branch_full *full)
{
	bool ending;

	pthread_mutex_lock(&full->lock);
	ending = full->ending;
	pthread_mutex_unlock(&full->lock);
	return ending;
}

static void answer_writer(struct waiting *w, int r)
{
	if (r == 0 && !w->wish.data)
		fuse_reply_err(w->request.req, 0);
	else if (w->wish.done)
		fuse_reply_write(w->request.req, w->wish.done);
	else
		fuse_reply_err(w->request.req, -r);
}

/*
 * Move the file, or make room for it. 0: try again; -EBUSY, -ESTALE: the same,
 * a moment later.
 */
static int help_once(struct unionfs *fs, struct waiting *w, int r)
{
	const struct node *node = node_get(&fs->nodes, w->wish.ino);
	int moved;

	if (!node)
		return -ESTALE;
	if (node->passthrough)
		return make_room_here(fs, node, w, r);
	moved = move_away(fs, node, w);
	return moved < 0 && moved != -EBUSY && moved != -ESTALE
		       ? make_room_here(fs, node, w, r)
		       : moved;
}

/*
 * Help the request until it ends. Names that change, and directories that are
 * being listed, are waited for.
 */
static void help(struct branch_full *full, struct waiting *w)
{
	int64_t end = clock_ms() + BRANCH_FULL_PATIENCE_MS;
	const struct node *node = node_get(&full->fs->nodes, w->wish.ino);
	bool made = false;
	int r, moved;

	if (w->wish.leaves && node) /* or it is written where it is */
		(void)move_away(full->fs, node, w);
	for (;;) {
		if (w->wish.copied)
			r = made ? -EXDEV : -ENOSPC;
		else
			r = try_again(full->fs, w);
		if ((r != -ENOSPC && r != -EDQUOT) || is_ending(full))
			break;
		moved = help_once(full->fs, w, r);
		made = moved == 0;
		if (moved < 0 && moved != -EBUSY && moved != -ESTALE)
			break;
		if (moved < 0 && clock_ms() >= end)
			break;
		if (moved < 0)
			(void)usleep(RETRY_MS * 1000);
	}
	answer_writer(w, r);
}

static void *branch_full_main(void *context)
{
	struct branch_full *full = context;
	struct waiting *w;

	if (act_as_thread_setup() < 0)
		log_warning("files that move from a full branch may get a "
			    "wrong mode for a moment");
	pthread_mutex_lock(&full->lock);
	for (;;) {
		w = full->first;
		if (!w && full->ending)
			break;
		if (!w) {
			pthread_cond_wait(&full->change, &full->lock);
			continue;
		}
		full->first = w->next;
		if (!full->first)
			full->last = &full->first;
		pthread_mutex_unlock(&full->lock);
		dir_fd_changes_begin();
		help(full, w);
		dir_fd_changes_end();
		free(w);
		pthread_mutex_lock(&full->lock);
	}
	pthread_mutex_unlock(&full->lock);
	return NULL;
}

bool branch_full_help(struct unionfs *fs, struct request *request,
		      const struct branch_full_wish *wish)
{
	struct branch_full *full = fs->branch_full;
	size_t size = wish->data ? wish->size : 0;
	struct waiting *w = malloc(sizeof(*w) + size);

	if (!w)
		return false;
	w->next = NULL;
	w->request = (struct request){
		.req = request->req,
		.uid = request->uid,
		.gid = request->gid,
	};
	w->wish = *wish;
	memset(w->left, 0, sizeof(w->left));
	if (wish->data)
		memcpy(w->data, wish->data, size);
	pthread_mutex_lock(&full->lock);
	if (!full->started)
		full->started = pthread_create(&full->thread, NULL,
					       branch_full_main, full) == 0;
	if (!full->started || full->ending) {
		pthread_mutex_unlock(&full->lock);
		free(w);
		return false;
	}
	*full->last = w;
	full->last = &w->next;
	pthread_cond_signal(&full->change);
	pthread_mutex_unlock(&full->lock);
	return true;
}

void branch_full_free(struct branch_full *full)
{
	if (!full)
		return;
	pthread_mutex_lock(&full->lock);
	full->ending = true;
	pthread_cond_broadcast(&full->change);
	pthread_mutex_unlock(&full->lock);
	if (full->started)
		(void)pthread_join(full->thread, NULL); /* is ours */
	pthread_cond_destroy(&full->change);
	pthread_mutex_destroy(&full->lock);
	free(full);
}
