/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and versions that a watcher was told, so that a list becomes the
 * changes since. Inside watches only.
 */
#ifndef VOLUME_WATCH_DIFF_H
#define VOLUME_WATCH_DIFF_H

#include <stdbool.h>

#include "volume/store/store.h"

struct watch_diff_item;

/* Zero-initialise; watch_diff_done() frees. */
struct watch_diff {
	struct watch_diff_item *items; /* owned, by name */
	size_t count, room;
	/* The watcher and its context. */
	store_watcher watcher;
	void *context;
};

void watch_diff_done(struct watch_diff *diff);

/* Begin a list: objects not set until its end are gone. */
void watch_diff_begin(struct watch_diff *diff);
/* Add an object, and report the change if its version is another. -ENOMEM. */
int watch_diff_set(struct watch_diff *diff, const struct store_object *object,
		   struct error *err);
/* Drop an object, and report the change if it was known. */
int watch_diff_drop(struct watch_diff *diff, const char *name);
/* End a list: report objects that are gone, then that all is reported. */
int watch_diff_end(struct watch_diff *diff);

#endif
