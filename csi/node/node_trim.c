/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node/node_trim.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"

struct node_trim {
	struct volume_context *volumes;
	int64_t period_ms;
	pthread_t thread;
	int stop; /* an eventfd */
};

static void trim_told(void *context, const char *name, uint64_t bytes,
		      const char *problem)
{
	char text[SIZE_TEXT_MAX];

	(void)context;
	if (problem)
		log_warning("%s; trying again after the next period", problem);
	else
		log_info("volume=%s trimmed: %s", name,
			 size_format(text, bytes));
}

/* False: it is to end. */
static bool trim_sleep_until(const struct node_trim *trim, int64_t until_ms)
{
	struct pollfd fd = {.fd = trim->stop, .events = POLLIN};

	for (;;) {
		int64_t left_ms = until_ms - clock_ms();

		if (left_ms < 0)
			left_ms = 0;
		if (poll(&fd, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) >
		    0)
			return false;
		if (left_ms == 0)
			return true;
	}
}

static void *trim_run(void *trim_)
{
	const struct node_trim *trim = trim_;
	uint32_t chance = UINT32_MAX / 2;
	int64_t next_ms;

	(void)getrandom(&chance, sizeof(chance), 0); /* or no chance */
	next_ms = clock_ms() +
		  (int64_t)((double)trim->period_ms * chance / UINT32_MAX);
	while (trim_sleep_until(trim, next_ms)) {
		struct error err = {0};

		/* Errors of a volume were told with its name. */
		if (volume_trim_here(trim->volumes, trim_told, NULL, &err) ==
		    -EHOSTUNREACH)
			log_warning("volumes cannot be trimmed: %s",
				    error_text(&err));
		next_ms = clock_ms() + trim->period_ms;
	}
	return NULL;
}

int node_trim_start(struct volume_context *volumes, uint64_t period_s,
		    struct node_trim **ret, struct error *err)
{
	struct node_trim *trim;
	int r;

	*ret = NULL;
	if (period_s == 0)
		return 0;
	trim = calloc(1, sizeof(*trim));
	if (!trim)
		return error_set(err, ENOMEM, "out of memory");
	trim->volumes = volumes;
	trim->period_ms = (int64_t)period_s * 1000;
	trim->stop = eventfd(0, EFD_CLOEXEC);
	r = trim->stop < 0
		    ? errno
		    : pthread_create(&trim->thread, NULL, trim_run, trim);
	if (r != 0) {
		fd_close(trim->stop);
		free(trim);
		return error_set(err, r, "trimming: %s", strerror(r));
	}
	*ret = trim;
	return 0;
}

void node_trim_stop(struct node_trim *trim)
{
	if (!trim)
		return;
	(void)eventfd_write(trim->stop, 1); /* it cannot be full */
	(void)pthread_join(trim->thread, NULL);
	fd_close(trim->stop);
	free(trim);
}
