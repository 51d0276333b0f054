/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a watcher was told: names and versions, so that a list becomes the
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
	/* Who is told, and what it returned last. */
	store_watcher watcher;
	void *context;
};

void watch_diff_done(struct watch_diff *diff);

/* A list begins; those not set until the end of it are gone. */
void watch_diff_begin(struct watch_diff *diff);
/* It is there: tell of it when its version is another. -ENOMEM. */
int watch_diff_set(struct watch_diff *diff, const struct store_object *object,
		   struct error *err);
/* It is gone: tell of it when it was diff. */
int watch_diff_drop(struct watch_diff *diff, const char *name);
/* The list is at its end: tell of those gone, and that all is told. */
int watch_diff_end(struct watch_diff *diff);

#endif
