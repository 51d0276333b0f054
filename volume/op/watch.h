/* SPDX-License-Identifier: Apache-2.0 */
/* Watch for every change of the records, of nodes and volumes. */
#ifndef VOLUME_WATCH_H
#define VOLUME_WATCH_H

#include "volume/volume.h"

/*
 * @problem  "", or why changes cannot be heard of just now
 *
 * Returns 0 to go on, else volume_watch() returns that.
 */
typedef int (*volume_changed)(void *context, const char *problem,
			      struct error *err);

/*
 * Call @changed from the calling thread: once all records are known, after each
 * change, and at least every @every_ms (for state outside the records). Changes
 * within 0.2 s are one.
 *
 * 0: @stop_fd is readable. The errors of watch in struct store_ops, when trying
 * again does not help; -ENOMEM; the result of @changed.
 */
int volume_watch(struct volume_context *ctx, int stop_fd, int every_ms,
		 volume_changed changed, void *context, struct error *err);

#endif
