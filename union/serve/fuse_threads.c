/* SPDX-License-Identifier: Apache-2.0 */
#include "union/serve/fuse_threads.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "union/branch/dir_fd.h"
#include "union/change/act_as.h"
#include "union/ops/reply.h"
#include "union/serve/pending_names.h"
#include "union/serve/watchdog.h"
#include "union/state/fuse_connection.h"
#include "union/state/reply_cache.h"
#include "union/state/stuck_server.h"
#include "union/view/state_note.h"

#define SERVE_THREADS_MAX 2048 /* at once, with those for others that wait */

struct fuse_threads {
	struct unionfs *fs;
	void (*when_done)(void *context);
	void *context;
	atomic_uint running;
	atomic_int result; /* the first error */
};

/*
 * May a killed server still be at the request, or at another that makes the
 * same name? Its call would come to pass beside the one made here.
 */
static bool is_pending(const struct request *request,
		       const struct fuse_buf *buf)
{
	uint64_t unique = request->unique;

	return (unique & REPLY_CACHE_RESENT &&
		stuck_server_serves(unique & ~REPLY_CACHE_RESENT) &&
		pending_names_add(buf->mem, buf->size)) ||
	       pending_names_has(buf->mem, buf->size);
}

static void process(const struct unionfs *fs, struct request *request,
		    const struct fuse_buf *buf)
{
	bool told = dir_fd_is_told(request->opcode);
	int fd = fuse_session_fd(fs->session);

	if (!told)
		dir_fd_changes_begin();
	if (reply_cache_begin(fs->reply_cache, request, fd)) {
		if (is_pending(request, buf))
			fuse_connection_answer(fd, request->unique, -EIO);
		else
			fuse_session_process_buf(fs->session, buf);
	}
	reply_cache_end(request);
	if (!told)
		dir_fd_changes_end();
}

/* Does a request of this kind use open descriptors alone? See act_as_kept(). */
static bool keeps_identity(uint32_t opcode)
{
	return opcode == FUSE_READ || opcode == FUSE_WRITE;
}

/*
 * Serve a request in @request, which the thread uses for all. True: another
 * thread took this one's place.
 */
static bool serve_request(struct unionfs *fs, struct watchdog_slot *slot,
			  struct request *request, struct fuse_buf *buf)
{
	struct migrate_lock_pass pass;

	atomic_fetch_add_explicit(&fs->stats->requests, 1,
				  memory_order_relaxed);
	request_decode(buf->mem, buf->size, request);
	if (!keeps_identity(request->opcode))
		act_as_root();
	if (request->opcode == FUSE_INIT)
		state_note_init_request(fs, buf->mem, buf->size);
	watchdog_begin(slot, request, buf->mem, buf->size);
	pass = migrate_lock_enter(&fs->migrate_lock, request->nodes,
				  request->node_count);
	process(fs, request, buf);
	migrate_lock_leave(&fs->migrate_lock, pass);
	return watchdog_end(slot, request);
}

static int serve_requests(struct unionfs *fs)
{
	struct fuse_session *session = fs->session;
	struct watchdog_slot *slot = watchdog_join();
	struct request request = {0};
	struct fuse_buf buf = {0};
	bool replaced = false;
	int r = act_as_thread_setup();

	request_serve(&request);
	while (r >= 0 && !replaced && !fuse_session_exited(session)) {
		r = fuse_session_receive_buf(session, &buf);
		if (r == -EINTR)
			r = 0;
		else if (r == 0)
			break; /* unmounted */
		else if (r > 0)
			replaced = serve_request(fs, slot, &request, &buf);
	}
	request_serve(NULL);
	free(buf.mem);
	watchdog_leave(slot);
	return r < 0 ? r : 0;
}

/*
 * Count one more thread. False after the last has ended: then nobody waits for
 * it.
 */
static bool thread_begins(struct fuse_threads *serve)
{
	unsigned running = atomic_load(&serve->running);

	while (running && running < SERVE_THREADS_MAX)
		if (atomic_compare_exchange_weak(&serve->running, &running,
						 running + 1))
			return true;
	return false;
}

static void thread_ends(struct fuse_threads *serve)
{
	if (atomic_fetch_sub(&serve->running, 1) == 1)
		serve->when_done(serve->context);
}

static void *serve_main(void *context)
{
	struct fuse_threads *serve = context;
	int expected = 0;
	int r = serve_requests(serve->fs);

	if (r < 0) {
		(void)atomic_compare_exchange_strong(&serve->result, &expected,
						     r); /* keeps the first */
		fuse_session_exit(serve->fs->session);
	}
	thread_ends(serve);
	return NULL;
}

static int start_serve_thread(struct fuse_threads *serve)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (!thread_begins(serve))
		return -EAGAIN;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, serve_main, serve);
	pthread_attr_destroy(&attr);
	if (r)
		atomic_fetch_sub(&serve->running, 1);
	return -r;
}

/*
 * Start one more thread, as another waits for a branch. Without it the rest
 * must do.
 */
static void one_more(void *context)
{
	struct fuse_threads *serve = context;

	if (!fuse_session_exited(serve->fs->session))
		(void)start_serve_thread(serve);
}

int fuse_threads_start(struct unionfs *fs, unsigned threads,
		       void (*when_done)(void *context), void *context,
		       struct fuse_threads **ret)
{
	struct fuse_threads *serve = calloc(1, sizeof(*serve));
	unsigned started = 0;
	int r = serve ? 0 : -ENOMEM;

	if (!serve)
		return r;
	serve->fs = fs;
	serve->when_done = when_done;
	serve->context = context;
	/* Counted: one more until all are started, so that none is the last. */
	atomic_store(&serve->running, 1);
	while (started < threads && r == 0) {
		r = start_serve_thread(serve);
		started += r == 0;
	}
	if (!started) {
		free(serve);
		return r;
	}
	if (watchdog_start(fs, one_more, serve) < 0)
		log_warning("no thread to watch the others could be started: "
			    "a branch that hangs may hold up all of them");
	/* Fewer threads than wanted serve as well. */
	if (atomic_fetch_sub(&serve->running, 1) == 1)
		when_done(context);
	*ret = serve;
	return 0;
}

int fuse_threads_finish(struct fuse_threads *serve)
{
	int r;

	watchdog_stop();
	r = atomic_load(&serve->result);
	free(serve);
	return r;
}
