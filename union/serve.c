/* SPDX-License-Identifier: Apache-2.0 */
#include "union/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "union/place.h"
#include "union/request.h"

struct serve {
	struct unionfs *fs;
	void (*when_done)(void *context);
	void *context;
	atomic_uint running;
	atomic_int result; /* the first error */
	unsigned count;
	pthread_t threads[];
};

static int serve_requests(struct fuse_session *session)
{
	struct fuse_buf buf = {0};
	int r = place_thread_setup();

	while (r >= 0 && !fuse_session_exited(session)) {
		r = fuse_session_receive_buf(session, &buf);
		if (r == -EINTR)
			r = 0;
		else if (r == 0)
			break; /* unmounted */
		else if (r > 0) {
			request_decode(buf.mem, buf.size, &request_current);
			request_adapt(buf.mem, buf.size, &request_current);
			fuse_session_process_buf(session, &buf);
			memset(&request_current, 0, sizeof(request_current));
		}
	}
	free(buf.mem);
	return r < 0 ? r : 0;
}

static void *thread_main(void *context)
{
	struct serve *serve = context;
	int expected = 0;
	int r = serve_requests(serve->fs->session);

	if (r < 0) {
		(void)atomic_compare_exchange_strong(&serve->result, &expected,
						     r); /* keeps the first */
		fuse_session_exit(serve->fs->session);
	}
	if (atomic_fetch_sub(&serve->running, 1) == 1)
		serve->when_done(serve->context);
	return NULL;
}

int serve_start(struct unionfs *fs, unsigned threads,
		void (*when_done)(void *context), void *context,
		struct serve **ret)
{
	struct serve *serve = calloc(1, sizeof(*serve) +
						threads * sizeof(pthread_t));
	int r = serve ? 0 : ENOMEM;

	if (!serve)
		return -r;
	serve->fs = fs;
	serve->when_done = when_done;
	serve->context = context;
	/* One more until all are started, so that none is the last. */
	atomic_store(&serve->running, 1);
	while (serve->count < threads) {
		atomic_fetch_add(&serve->running, 1);
		r = pthread_create(&serve->threads[serve->count], NULL,
				   thread_main, serve);
		if (r) {
			atomic_fetch_sub(&serve->running, 1);
			break;
		}
		serve->count++;
	}
	if (!serve->count) {
		free(serve);
		return -r;
	}
	/* Fewer threads than wanted serve as well. */
	if (atomic_fetch_sub(&serve->running, 1) == 1)
		when_done(context);
	*ret = serve;
	return 0;
}

int serve_finish(struct serve *serve)
{
	unsigned i;
	int r;

	for (i = 0; i < serve->count; i++)
		(void)pthread_join(serve->threads[i], NULL); /* are ours */
	r = atomic_load(&serve->result);
	free(serve);
	return r;
}
