/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/follow.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>

#include "base/clock.h"

#define PAUSE_FIRST_MS 500 /* after trouble; doubled while it lasts */
#define PAUSE_MAX_MS   30000
#define GOOD_MS        10000 /* a stream that lasted so long was good */

void follow_well(struct follow *follow)
{
	follow->failures = 0;
	follow->pause_ms = PAUSE_FIRST_MS;
}

int follow_set(struct follow *follow, const struct store_object *object,
	       struct error *err)
{
	follow->verdict = watch_diff_set(&follow->known, object, err);
	return follow->verdict;
}

int follow_drop(struct follow *follow, const char *name)
{
	follow->verdict = watch_diff_drop(&follow->known, name);
	return follow->verdict;
}

static int follow_list(struct follow *follow, struct error *err)
{
	int r;

	watch_diff_begin(&follow->known);
	r = follow->list(follow, err);
	if (r != 0)
		return r;
	if (!follow->version[0])
		return error_set(err, EPROTO, "a list without a version");
	follow->cut = false;
	follow->listed = true;
	follow->verdict = watch_diff_end(&follow->known);
	return follow->verdict;
}

static int follow_stream(struct follow *follow, struct error *err)
{
	int64_t start_ms = clock_ms();
	int r = follow->stream(follow, err);
	bool lasted = clock_ms() - start_ms >= GOOD_MS;

	if (lasted)
		follow_well(follow);
	/* A server may end one at any time, but not each at once. */
	if (r == 0 && !lasted)
		r = error_set(err, EHOSTUNREACH,
			      "the server ends the watch at once");
	return r;
}

/* ---- trouble ---- */

static bool follow_stopped(const struct follow *follow, int64_t wait_ms)
{
	struct pollfd stop = {.fd = follow->stop_fd, .events = POLLIN};

	return poll(&stop, 1, (int)wait_ms) > 0;
}

/* Up to half of it is by chance, so that a crowd does not come back as one. */
static int64_t pause_next(struct follow *follow)
{
	int64_t ms = follow->pause_ms;
	unsigned chance = 0;

	(void)getrandom(&chance, sizeof(chance), 0); /* or no chance */
	follow->pause_ms = 2 * ms < PAUSE_MAX_MS ? 2 * ms : PAUSE_MAX_MS;
	if (follow->after_s >= 0)
		ms = follow->after_s * 1000;
	follow->after_s = -1;
	return ms + chance % (ms / 2 + 1);
}

/*
 * Tell whether trying again may help. A server that starts forbids for a moment
 * what it allowed before.
 */
static bool may_pass(const struct follow *follow, int r)
{
	return (r == -EACCES && follow->listed) || r == -EHOSTUNREACH ||
	       r == -EPROTO || r == -EMSGSIZE || r == -ESTALE ||
	       r == -ETIMEDOUT;
}

/*
 * Decide how to go on after trouble. The first time is nobody's business: the
 * stream goes on where it was, or a list has the missed changes. 1: go on; else
 * the watch's end.
 */
static int after_trouble(struct follow *follow, int r, struct error *err)
{
	if (r == -ECANCELED)
		return 0;
	if (!may_pass(follow, r))
		return r;
	follow->failures++;
	/* The server forgot that moment, or talks nonsense. */
	if (r != -EHOSTUNREACH)
		follow->version[0] = '\0';
	if (r == -ESTALE && follow->failures == 1)
		return 1;
	if (follow->failures > 1) {
		follow->version[0] = '\0';
		if (!follow->cut)
			follow->verdict = follow->known.watcher(
				follow->known.context, STORE_CHANGE_CUT, NULL,
				NULL, error_text(err));
		follow->cut = true;
		if (follow->verdict != 0)
			return follow->verdict;
	}
	return follow_stopped(follow, pause_next(follow)) ? 0 : 1;
}

static int follow_on(struct follow *follow, struct error *err)
{
	int r;

	for (;;) {
		struct error why = {0};

		r = follow->version[0] ? follow_stream(follow, &why)
				       : follow_list(follow, &why);
		if (follow->verdict != 0)
			return follow->verdict;
		if (r < 0)
			r = after_trouble(follow, r, &why);
		else
			r = follow_stopped(follow, 0) ? 0 : 1;
		if (r == 1)
			continue;
		return r < 0 && follow->verdict == 0
			       ? error_set(err, -r, "%s", error_text(&why))
			       : r;
	}
}

int follow_run(struct follow *follow, struct error *err)
{
	int r;

	follow->pause_ms = PAUSE_FIRST_MS;
	follow->after_s = -1;
	r = follow_on(follow, err);
	watch_diff_done(&follow->known);
	return r;
}
