/* SPDX-License-Identifier: Apache-2.0 */
#include "union/recover/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_lock.h"
#include "union/branch/branch_probe.h"
#include "union/branch/folding.h"
#include "union/branch/intent.h"
#include "union/live/remove_branch.h"
#include "union/node/lost_forget.h"
#include "union/open/open_restore.h"
#include "union/open/passthrough.h"
#include "union/ops/reply.h"
#include "union/recover/leaked_backing_ids.h"
#include "union/recover/unfinished.h"
#include "union/state/death_pipe.h"
#include "union/state/fd_store.h"
#include "union/state/policy_record.h"
#include "union/state/reply_cache.h"
#include "union/state/request.h"
#include "union/state/state.h"
#include "union/state/stuck_server.h"
#include "union/state/thread_branches.h"

/* linux/fuse.h, protocol 7.40 */
#define NOTIFY_RESEND 7

#define DEV_IOC_CLONE _IOR(229, 0, uint32_t) /* since Linux 4.2 */

static bool resends;     /* the kernel sends requests again */
static int fuse_fd = -1; /* of the server before */

static int open_state(struct state *state, struct error *err)
{
	int r, fd = fd_store_take(FD_STORE_STATE);

	if (fd >= 0)
		return state_open(state, fd, err);
	r = state_create(state);
	if (r < 0)
		return error_set(err, -r,
				 "shared memory for the next server: %s",
				 strerror(-r));
	fd_store_fd(FD_STORE_STATE, state->fd);
	return 0;
}

/*
 * Does the kernel send requests again? Linux 6.9 and later do. Called before
 * FUSE_INIT has said so.
 */
static bool kernel_resends(void)
{
	unsigned major, minor;
	struct utsname name;

	return uname(&name) == 0 &&
	       sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 6 || (major == 6 && minor >= 9));
}

int handover_begin(struct unionfs *fs, const struct union_options *options,
		   struct error *err)
{
	struct state *state;
	int r = fd_store_start(options->supervisor_fd);

	if (r < 0)
		return error_set(err, -r, "talk to the supervisor: %s",
				 strerror(-r));
	if (!fd_store_is_on())
		return 0;
	state = calloc(1, sizeof(*state));
	if (!state)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	r = open_state(state, err);
	if (r < 0) {
		free(state);
		return r;
	}
	fs->state = state;
	branch_keep_doubt_mark(&state->header->doubt_mark);
	stuck_server_begin(state);
	thread_branches_start(state);
	death_pipe_start();
	resends = !options->without_resend && kernel_resends();
	fuse_fd = fd_store_take(FD_STORE_FUSE);
	if (fuse_fd >= 0)
		log_info("'%s': server %llu goes on", options->mountpoint,
			 (unsigned long long)atomic_fetch_add(
				 &state->header->recovered, 1) +
				 2);
	return 0;
}

void handover_end(struct unionfs *fs)
{
	if (!fs->state)
		return;
	reply_cache_free(take_ptr(fs->reply_cache));
	branch_keep_doubt_mark(NULL);
	thread_branches_start(NULL);
	state_done(fs->state);
	free(take_ptr(fs->state));
}

const char *handover_mountpoint(const struct unionfs *fs)
{
	return fuse_fd >= 0 ? fs->state->header->mountpoint : NULL;
}

int handover_fuse_fd(const struct unionfs *fs)
{
	(void)fs;
	return fuse_fd;
}

/*
 * Reopen a branch. A branch that has failed, meanwhile or before, ends nothing.
 * A branch that had failed and is back stays failed: branch_recover.h alone
 * tells the kernel that it is back.
 */
static int reopen_branch(struct unionfs *fs, struct state_branch *record,
			 unsigned flags, struct error *err)
{
	struct branch *branch;
	struct error why = {0};
	int r = record->doubted ? -EIO
				: branch_open(&fs->branches, record->path,
					      flags, &branch, &why);

	if (r == 0 &&
	    !branch_identity_equal(&branch->identity, &record->identity)) {
		branch_drop(&fs->branches, branch);
		r = -EXDEV;
	}
	if (r < 0)
		return branch_add_failed(&fs->branches, record->path, flags,
					 &record->identity, -r, err);
	branch->shown = record->used != STATE_BRANCH_NEW;
	if (branch->flags !=
	    flags) { /* flags that are so now: as met by a call */
		branch->flags = flags;
		branch_set_turned_ro(branch, true);
	}
	branch_enter(&fs->branches, branch);
	branch_publish(&fs->branches, branch, flags);
	return 0;
}

static int add_silent(struct unionfs *fs, const struct state_branch *record,
		      struct error *err)
{
	return branch_add_failed(&fs->branches, record->path, record->flags,
				 &record->identity, ETIMEDOUT, err);
}

static int restore_branch(struct unionfs *fs, struct state_branch *record,
			  bool answers, struct error *err)
{
	unsigned flags = record->flags;
	struct branch *branch;
	int r;

	if (flags & BRANCH_LEAVING && answers)
		union_remove_branch_resume(record->path, &record->identity);
	if (flags & BRANCH_GONE)
		r = branch_add_gone(&fs->branches, record->path,
				    flags & BRANCH_ABSENT, err);
	else if (!answers)
		r = add_silent(fs, record, err);
	else
		r = reopen_branch(fs, record, flags, err);
	if (r < 0)
		return r;
	branch = fs->branches.items[fs->branches.count - 1];
	if (branch_lock_resume(branch) && flags & BRANCH_GONE)
		branch_unlock(branch);
	else if (!(flags & BRANCH_GONE) && branch_usable(branch->id) &&
		 branch_lock_again(branch, branch->root_fd) < 0)
		branch_fail(branch, EBUSY); /* it is another's by now */
	else if (!(flags & BRANCH_GONE) && branch_usable(branch->id))
		folding_look(branch);
	branch->min_free = record->min_free;
	branch->damaged = atomic_load(&record->damaged);
	branch->record = record;
	if (branch->doubted)
		atomic_store(&record->doubted, true);
	return 0;
}

/*
 * Find the branches that answer by themselves, and are not held up by a server
 * that was killed and has not ended.
 */
static void find_answering(struct state *state, bool *ret)
{
	bool wanted[BRANCH_MAX] = {false};
	unsigned i;

	for (i = 0; i < BRANCH_MAX && state->branches[i].used; i++)
		wanted[i] = (!(state->branches[i].flags & BRANCH_GONE) ||
			     state->branches[i].flags & BRANCH_LEAVING) &&
			    !stuck_server_withholds(i);
	branch_probe(state, wanted, BRANCH_PROBE_MS, ret);
	for (i = 0; i < BRANCH_MAX; i++)
		ret[i] = ret[i] && wanted[i];
}

int handover_settings(struct unionfs *fs, struct error *err)
{
	struct state *state = fs->state;
	bool answers[BRANCH_MAX];
	unsigned i;
	int r = 0;

	if (!state || fuse_fd < 0 || !state->header->begun)
		return 0;
	find_answering(state, answers);
	for (i = 0; i < BRANCH_MAX && state->branches[i].used && r == 0; i++)
		r = restore_branch(fs, &state->branches[i], answers[i], err);
	fs->min_free = state->header->min_free;
	policy_restore(state->header, &fs->policies);
	return r < 0 ? r : 1;
}

/*
 * Adopt a file kept by a server that was killed before it had noted whose the
 * file is. The file was removed, or was just to be.
 */
static void adopt_fd(struct unionfs *fs, uint64_t token, int fd)
{
	struct orphan_fd orphan = {.fd = fd, .token = token};
	const struct branch *branch;
	struct handle handle;
	struct stat st;
	unsigned i;

	if (fstat(fd, &st) == 0 && st.st_nlink == 0 &&
	    handle_get(fd, "", &handle) == 0) {
		for (i = 0; i < fs->branches.count && orphan.fd >= 0; i++) {
			branch = fs->branches.items[i];
			if (branch->device != st.st_dev)
				continue;
			if (node_has(&fs->nodes, i, &handle))
				orphan_inode_add(&fs->nodes, i, &handle,
						 &orphan);
		}
	}
	orphan_inode_done(&orphan);
}

/*
 * Give each branch its root, also one that the server before was just adding.
 */
static int add_roots(struct unionfs *fs)
{
	const struct node *node = node_get(&fs->nodes, NODE_ROOT_ID);
	const struct copy *root = node_first(node);
	struct handle handle, known;
	unsigned i;
	int r = 0;

	if (root)
		known = copy_handle(root);
	for (i = 0; root && i < fs->branches.count && r == 0; i++)
		if (!(fs->branches.items[i]->flags & BRANCH_GONE) &&
		    branch_usable(i) && !node_copy_on(node, i) &&
		    handle_get(fs->branches.items[i]->root_fd, "", &handle) ==
			    0)
			r = node_add_copy(&fs->nodes, root->branch, &known, i,
					  &handle);
	return r;
}

static void forget_again(void *context, uint64_t node)
{
	struct unionfs *fs = context;

	node_forget(&fs->nodes, node, 1);
}

static void drop_again(void *context, uint64_t file)
{
	open_drop(context, file);
}

int handover_restore(struct unionfs *fs)
{
	const struct reply_cache_server server = {
		.forget = forget_again,
		.drop = drop_again,
		.context = fs,
	};
	uint64_t token;
	int fd, r = 0;

	if (!fs->state)
		return 0;
	if (fuse_fd >= 0)
		r = open_restore(fs);
	if (r == 0 && fuse_fd >= 0)
		r = add_roots(fs);
	if (r == 0 && fuse_fd >= 0)
		unfinished_copies(fs);
	while (r == 0 && (fd = fd_store_take_any(&token)) >= 0)
		adopt_fd(fs, token, fd);
	if (r == 0)
		r = reply_cache_open(fs->state->once, REPLY_CACHE_SIZE, &server,
				     &fs->reply_cache);
	return r;
}

static void note_moved(void *context, unsigned from, const struct handle *old,
		       unsigned to, const struct handle *copy)
{
	struct unionfs *fs = context;
	struct node *node = node_hold(&fs->nodes, from, old);

	if (!node)
		return;
	if (node_has(&fs->nodes, to, copy))
		node_copy_gone(&fs->nodes, from, old, NULL);
	else
		/* Without memory the kernel is told that the node is stale. */
		(void)node_move(&fs->nodes, node, from, old, to, copy);
	node_let_go(&fs->nodes, node);
}

int handover_recover_intents(struct unionfs *fs, struct error *err)
{
	const struct intent_watcher watcher = {note_moved, fs};

	return intent_recover_watched(&fs->branches,
				      fuse_fd >= 0 ? &watcher : NULL, err);
}

void handover_note_mounting(struct unionfs *fs)
{
	if (fs->state && fuse_fd < 0)
		fd_store_say_mounts();
}

void handover_note_mounted(struct unionfs *fs)
{
	if (fs->state && fuse_fd < 0)
		fd_store_fd(FD_STORE_FUSE, fuse_session_fd(fs->session));
}

/* Close backing ids that were opened for a reply that was never sent. */
static void close_unused_backing(struct unionfs *fs)
{
	struct node_file *file;
	struct node *node;
	uint64_t id;

	for (id = NODE_ROOT_ID; id < node_ids(&fs->nodes); id++) {
		node = node_get(&fs->nodes, id);
		if (!node || S_ISDIR(node->type))
			continue;
		file = node_file(node);
		if (file->opens || !file->backing_id)
			continue;
		passthrough_close(fs, file->backing_id);
		file->backing_id = 0;
		node->passthrough = false;
	}
}

int handover_replay_init(struct unionfs *fs)
{
	const struct state_header *header;
	struct request request = {0};
	struct fuse_buf buf = {0};

	if (!fs->state || fuse_fd < 0)
		return 0;
	close_unused_backing(fs);
	leaked_backing_ids_close(fs);
	header = fs->state->header;
	if (!header->has_init)
		return 0; /* FUSE_INIT comes again */
	buf.size = header->init_length;
	buf.mem = malloc(STATE_INIT_MAX);
	if (!buf.mem)
		return -ENOMEM;
	memcpy(buf.mem, header->init, STATE_INIT_MAX);
	request_decode(buf.mem, buf.size, &request);
	request_serve(&request);
	fuse_session_process_buf(fs->session, &buf);
	request_serve(NULL);
	free(buf.mem);
	return 0;
}

int handover_device(struct unionfs *fs, int fd)
{
	uint32_t original = (uint32_t)fd;
	int own;

	if (!fs->state || resends)
		return fd;
	own = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (own < 0 || ioctl(own, DEV_IOC_CLONE, &original) < 0) {
		fd_close(own);
		return fd; /* then a request hangs */
	}
	fd_close(fd);
	return own;
}

void handover_resend(struct unionfs *fs)
{
	const struct fuse_out_header header = {.len = sizeof(header),
					       .error = NOTIFY_RESEND};

	if (!fs->state || fuse_fd < 0)
		return;
	if (!resends)
		log_warning(
			"'%s': requests without an answer have ended with an "
			"error: this kernel does not send them again; Linux 6.9 "
			"does",
			fs->mountpoint);
	else if (write(fuse_session_fd(fs->session), &header, sizeof(header)) <
		 0)
		log_warning(
			"'%s': requests without an answer hang until their callers "
			"are killed: send them again: %s",
			fs->mountpoint, strerror(errno));
}

void handover_list_buried(struct unionfs *fs)
{
	if (fs->state && fuse_fd >= 0)
		lost_forget_note_all(&fs->nodes);
}

static void ask_for(struct unionfs *fs, const struct lost_forget *lost)
{
	struct node *node = lost_forget_hold(&fs->nodes, lost);

	if (!node)
		return;
	if (fuse_lowlevel_notify_inval_inode(fs->session, node->id, -1, 0) ==
	    -ENOENT)
		lost_forget_end(&fs->nodes, node, lost);
	node_let_go(&fs->nodes, node);
}

bool handover_forget_lost(struct unionfs *fs)
{
	struct lost_forget *lost;
	size_t i, count;

	if (!lost_forget_any(&fs->nodes))
		return false;
	if (reply_cache_is_waiting(fs->reply_cache))
		return true;
	count = lost_forget_take(&fs->nodes, &lost);
	for (i = 0; i < count; i++)
		ask_for(fs, &lost[i]);
	free(lost);
	return false;
}
