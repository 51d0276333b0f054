/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ublk device outlives the process that serves it: another process, which
 * does nothing but wait for that one, starts the next. Requests wait in the
 * kernel meanwhile.
 *
 * The next one goes on only where nothing acknowledged can have been lost
 * (nbd_export_may_resume()), and only within the dead timeout. Else the device
 * is stopped, and its requests fail.
 */
#ifndef INITIATOR_NBD_SURVIVE_H
#define INITIATOR_NBD_SURVIVE_H

#include <stdbool.h>

#include "base/error.h"
#include "initiator/nbd/nbd_parts.h"

/* What each process leaves to the next, in memory that they share. */
struct nbd_kept {
	int id;       /* of the device; -1: none yet */
	bool serves;  /* this process has come so far */
	bool refused; /* none can go on */
	unsigned n;
	struct nbd_export exports[SEGMENTS_PARTS_MAX];
};

/* Note the exports as they are now. */
void nbd_kept_note(struct nbd_kept *kept, const struct nbd_parts *parts);

/* May this process go on with @parts? As nbd_export_may_resume(). */
int nbd_kept_check(struct nbd_kept *kept, const struct nbd_parts *parts,
		   struct error *err);

/*
 * Call @serve in a process of its own, and again each time it dies, until it
 * returns 0 or cannot go on. It sets kept->id and kept->serves.
 *
 * @close_fd  closed here, as its first process has it; -1: none
 *
 * 0 or a negative errno.
 */
int nbd_survive(int (*serve)(void *context, struct nbd_kept *kept),
		void *context, int close_fd, unsigned dead_timeout_ms,
		struct error *err);

#endif
