/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/death_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/state/fd_store.h"

/* Close all descriptors of this thread's own table but @fd. */
static void close_others(int fd)
{
	if (fd > 0)
		(void)close_range(0, (unsigned)fd - 1, 0);
	(void)close_range((unsigned)fd + 1, UINT_MAX, 0);
}

static void *death_pipe_main(void *context)
{
	int ends[2];

	(void)context;
	if (unshare(CLONE_FILES) < 0 || pipe2(ends, O_CLOEXEC) < 0) {
		log_warning("a server that hangs when it is killed will be "
			    "waited for: %s",
			    strerror(errno));
		return NULL;
	}
	fd_store_death_pipe(ends[0]);
	close_others(ends[1]);
	for (;;)
		(void)pause();
	return NULL;
}

void death_pipe_start(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, before;
	int r;

	if (!fd_store_is_on())
		return;
	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before); /* it takes none */
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, death_pipe_main, NULL);
	pthread_attr_destroy(&attr);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r)
		log_warning("a server that hangs when it is killed will be "
			    "waited for: %s",
			    strerror(r));
}
