/* SPDX-License-Identifier: Apache-2.0 */
#include "union/serve.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "union/dir_fd.h"
#include "union/dying.h"
#include "union/kick.h"
#include "union/once.h"
#include "union/pending_names.h"
#include "union/place.h"
#include "union/request.h"
#include "union/service.h"
#include "union/survive.h"
#include "union/uring.h"

#define SERVE_THREADS_MAX 2048 /* at once, with those for others that wait */

struct serve {
	struct unionfs *fs;
	void (*when_done)(void *context);
	void *context;
	atomic_uint running;
	atomic_int result; /* the first error */
};

/*
 * A killed server may still be at it, or at another that makes the same name:
 * what it called for would come to pass beside what is done here.
 */
static bool is_pending(const struct fuse_buf *buf)
{
	uint64_t unique = request_current.unique;

	return (unique & ONCE_RESENT && dying_serves(unique & ~ONCE_RESENT) &&
		pending_names_add(buf->mem, buf->size)) ||
	       pending_names_has(buf->mem, buf->size);
}

/* By the way it came. One that is not wanted any more needs none. */
static void answer_eio(const struct unionfs *fs)
{
	struct fuse_out_header header = {
		.len = sizeof(header),
		.error = -EIO,
		.unique = request_current.unique,
	};
	const struct iovec iov = {&header, sizeof(header)};

	if (uring_reply(fs->uring, &iov, 1) == -ENOENT)
		(void)!write(fuse_session_fd(fs->session), &header,
			     sizeof(header));
}

static void serve_once(const struct unionfs *fs, const struct fuse_buf *buf)
{
	if (is_pending(buf))
		answer_eio(fs);
	else
		fuse_session_process_buf(fs->session, buf);
}

static void process(const struct unionfs *fs, const struct fuse_buf *buf)
{
	bool told = dir_fd_is_told(request_current.opcode);

	if (!told)
		dir_fd_changes_begin();
	if (once_begin(fs->once, &request_current,
		       fuse_session_fd(fs->session)))
		serve_once(fs, buf);
	once_end();
	if (!told)
		dir_fd_changes_end();
}

/* Does it use open descriptors alone? See place_keep(). */
static bool keeps_identity(uint32_t opcode)
{
	return opcode == FUSE_READ || opcode == FUSE_WRITE;
}

/* True: another took the thread's place. */
static bool serve_request(struct unionfs *fs, struct fuse_buf *buf)
{
	struct gate_pass pass;
	struct request_note *note = &request_current;
	bool replaced;

	request_decode(buf->mem, buf->size, &request_current);
	if (!keeps_identity(request_current.opcode))
		place_become_root();
	survive_note_request(fs, buf->mem, buf->size);
	request_adapt(buf->mem, buf->size, &request_current);
	note->node_count = gate_request_nodes(buf->mem, buf->size, note->nodes);
	service_begin(note->unique, note->nodes, note->node_count, buf->mem,
		      buf->size);
	pass = gate_enter(&fs->gate, note->nodes, note->node_count);
	process(fs, buf);
	gate_leave(&fs->gate, pass);
	replaced = service_end();
	request_current = (struct request_note){0};
	return replaced;
}

static int serve_requests(struct unionfs *fs)
{
	struct fuse_session *session = fs->session;
	struct fuse_buf buf = {0};
	bool replaced = false;
	int r = place_thread_setup();

	while (r >= 0 && !replaced && !fuse_session_exited(session)) {
		r = fuse_session_receive_buf(session, &buf);
		if (r == -EINTR)
			r = 0;
		else if (r == 0)
			break; /* unmounted */
		else if (r > 0)
			replaced = serve_request(fs, &buf);
	}
	free(buf.mem);
	return r < 0 ? r : 0;
}

/* Not after the last has ended: then nobody waits for it. */
static bool thread_begins(void *context)
{
	struct serve *serve = context;
	unsigned running = atomic_load(&serve->running);

	while (running && running < SERVE_THREADS_MAX)
		if (atomic_compare_exchange_weak(&serve->running, &running,
						 running + 1))
			return true;
	return false;
}

static void thread_ends(void *context)
{
	struct serve *serve = context;

	service_leave();
	if (atomic_fetch_sub(&serve->running, 1) == 1)
		serve->when_done(serve->context);
}

static void *thread_main(void *context)
{
	struct serve *serve = context;
	int expected = 0;
	int r = serve_requests(serve->fs);

	if (r < 0) {
		(void)atomic_compare_exchange_strong(&serve->result, &expected,
						     r); /* keeps the first */
		fuse_session_exit(serve->fs->session);
	}
	uring_begin(serve->fs->uring, false); /* unless it has begun */
	thread_ends(serve);
	return NULL;
}

static int start_thread(struct serve *serve)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (!thread_begins(serve))
		return -EAGAIN;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, thread_main, serve);
	pthread_attr_destroy(&attr);
	if (r)
		atomic_fetch_sub(&serve->running, 1);
	return -r;
}

/* One of them waits for a branch. Without another the rest must do. */
static void one_more(void *context)
{
	struct serve *serve = context;

	if (fuse_session_exited(serve->fs->session))
		return;
	if (uring_is_on(serve->fs->uring))
		uring_more(serve->fs->uring);
	else
		(void)start_thread(serve);
}

static void serve_ring_request(void *context, void *data, size_t length)
{
	struct serve *serve = context;
	struct fuse_buf buf = {.mem = data, .size = length};

	(void)serve_request(serve->fs, &buf); /* it keeps its entry */
}

static void kick_queue(void *context)
{
	struct serve *serve = context;

	(void)kick(serve->fs); /* then they wait for another request */
}

static int start_rings(struct serve *serve, unsigned threads, struct error *err)
{
	const struct uring_server server = {
		.fd = fuse_session_fd(serve->fs->session),
		.begin = thread_begins,
		.setup = place_thread_setup,
		.serve = serve_ring_request,
		.kick = kick_queue,
		.end = thread_ends,
		.context = serve,
	};

	if (serve->fs->rings)
		return uring_start_kept(&server, serve->fs->rings,
					&serve->fs->uring, err);
	return uring_start(&server, threads, &serve->fs->uring, err);
}

/* Before the first request is read, which says whether it is used. */
static void try_uring(struct serve *serve, unsigned threads)
{
	struct error err = {0};

	if (uring_check(&err) == 0 && start_rings(serve, threads, &err) == 0)
		return;
	log_info("requests come by /dev/fuse: %s", error_text(&err));
}

/* 0 or -errno: what is used cannot be gone on with. */
static int start_uring(struct serve *serve, enum survive_ring ring,
		       unsigned threads)
{
	struct unionfs *fs = serve->fs;
	struct error err = {0};
	int r = 0;

	switch (ring) {
	case SURVIVE_RING_FREE:
		if (fs->want_io_uring)
			try_uring(serve, threads);
		break;
	case SURVIVE_RING_USED: r = start_rings(serve, threads, &err); break;
	case SURVIVE_RING_NONE: break;
	}
	return r < 0 ? log_error(r, "'%s': %s", fs->mountpoint,
				 error_text(&err))
		     : 0;
}

int serve_start(struct unionfs *fs, unsigned threads,
		void (*when_done)(void *context), void *context,
		struct serve **ret)
{
	struct serve *serve = calloc(1, sizeof(*serve));
	enum survive_ring ring = survive_ring(fs);
	unsigned started = 0;
	int r = serve ? 0 : -ENOMEM;

	if (!serve)
		return r;
	serve->fs = fs;
	serve->when_done = when_done;
	serve->context = context;
	/* One more until all are started, so that none is the last. */
	atomic_store(&serve->running, 1);
	r = start_uring(serve, ring, threads);
	while (started < threads && r == 0) {
		r = start_thread(serve);
		started += r == 0;
	}
	if (!started) {
		uring_begin(fs->uring, false);
		if (!fs->uring) /* else its threads end when they do */
			free(serve);
		return r;
	}
	if (service_start(fs, one_more, serve) < 0)
		log_warning("no thread to watch the others could be started: "
			    "a branch that hangs may hold up all of them");
	if (ring == SURVIVE_RING_USED)
		uring_begin(fs->uring, true);
	/* Fewer threads than wanted serve as well. */
	if (atomic_fetch_sub(&serve->running, 1) == 1)
		when_done(context);
	*ret = serve;
	return 0;
}

int serve_finish(struct serve *serve)
{
	int r;

	service_stop();
	r = atomic_load(&serve->result);
	free(serve);
	return r;
}
