/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_survive.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/device/ublk_device.h"

#define STEP_MS 100  /* between two that could not begin */
#define LIFE_MS 1000 /* one that dies sooner has done nothing */

void nbd_kept_note(struct nbd_kept *kept, const struct nbd_parts *parts)
{
	const unsigned n = nbd_parts_list(parts)->n;

	/* A kill at any instruction leaves each export as it was, or as it is.
	 */
	for (unsigned i = 0; i < kept->n; i++)
		kept->exports[i].size = nbd_parts_export(parts, i)->size;
	for (unsigned i = kept->n; i < n; i++)
		kept->exports[i] = *nbd_parts_export(parts, i);
	atomic_signal_fence(memory_order_seq_cst);
	kept->n = n;
}

int nbd_kept_check(struct nbd_kept *kept, const struct nbd_parts *parts,
		   struct error *err)
{
	int r = nbd_parts_list(parts)->n < kept->n
			? error_set(err, EINVAL, "it has fewer parts now")
			: 0;

	/* Nobody knows what was not flushed: all of it may be. */
	for (unsigned i = 0; r == 0 && i < kept->n; i++)
		r = nbd_export_may_resume(&kept->exports[i],
					  nbd_parts_export(parts, i), true,
					  err);
	kept->refused = r < 0;
	return r;
}

static pid_t survive_start(int (*serve)(void *context, struct nbd_kept *kept),
			   void *context, struct nbd_kept *kept)
{
	const pid_t parent = getpid();
	pid_t pid;

	kept->serves = false;
	pid = fork();
	if (pid)
		return pid;
	/* One of the two alone would be taken for both. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	_exit(serve(context, kept) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* Wait for its end. Returns true: it ended well, or never began. */
static bool wait_end(pid_t pid, const struct nbd_kept *kept, bool first,
		     int *ret)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	*ret = WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
	if (*ret == 0 || (first && !kept->serves))
		return true;
	if (WIFSIGNALED(status))
		log_warning("the serving process was ended by signal %d; "
			    "another goes on",
			    WTERMSIG(status));
	return false;
}

static int give_up(const struct nbd_kept *kept, struct error *err)
{
	const char *why = kept->refused ? "it must not be gone on with"
					: "no process could go on in time";
	struct error problem = {.code = 0};

	if (ublk_device_stop((unsigned)kept->id, &problem) < 0)
		log_warning("%s", error_text(&problem));
	return error_set(err, EIO, "the device has ended: %s", why);
}

/* When the next one must have begun, after a life from @began to @now. */
static int64_t limit_after(const struct nbd_kept *kept, int64_t limit,
			   int64_t began, int64_t now, unsigned dead_timeout_ms)
{
	const bool lived = limit == INT64_MAX || now - began >= LIFE_MS;

	return kept->serves && lived ? now + dead_timeout_ms : limit;
}

/* All lives of it. */
static int live(int (*serve)(void *context, struct nbd_kept *kept),
		void *context, struct nbd_kept *kept, int close_fd,
		unsigned dead_timeout_ms, struct error *err)
{
	int64_t limit = INT64_MAX, began, now;
	int r = 0;

	for (bool first = true;; first = false) {
		began = clock_ms();
		pid_t pid = survive_start(serve, context, kept);

		if (first)
			fd_close(close_fd);
		if (pid < 0 && first)
			return error_set(err, errno, "fork: %s",
					 strerror(errno));
		/* A first one has told its error. */
		if (pid > 0 && wait_end(pid, kept, first, &r))
			return r;
		now = clock_ms();
		limit = limit_after(kept, limit, began, now, dead_timeout_ms);
		if (kept->refused || now >= limit)
			return give_up(kept, err);
		if (!kept->serves || now - began < LIFE_MS)
			(void)poll(NULL, 0, STEP_MS);
	}
}

int nbd_survive(int (*serve)(void *context, struct nbd_kept *kept),
		void *context, int close_fd, unsigned dead_timeout_ms,
		struct error *err)
{
	struct nbd_kept *kept = mmap(NULL, sizeof(*kept),
				     PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r;

	if (kept == MAP_FAILED)
		return error_set(err, ENOMEM, "no memory to share");
	kept->id = -1;
	r = live(serve, context, kept, close_fd, dead_timeout_ms, err);
	(void)munmap(kept, sizeof(*kept));
	return r;
}
