/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a watcher was told: names and versions, so that a list becomes the
 * changes since. Inside watches only.
 */
#ifndef VOLUME_STORE_KNOWN_H
#define VOLUME_STORE_KNOWN_H

#include <stdbool.h>

#include "volume/store/store.h"

struct store_known_item;

/* Zero-initialise; store_known_done() frees. */
struct store_known {
	struct store_known_item *items; /* owned, by name */
	size_t count, room;
	/* Who is told, and what it returned last. */
	store_watcher watcher;
	void *context;
};

void store_known_done(struct store_known *known);

/* A list begins; those not set until the end of it are gone. */
void store_known_begin(struct store_known *known);
/* It is there: tell of it when its version is another. -ENOMEM. */
int store_known_set(struct store_known *known,
		    const struct store_object *object, struct error *err);
/* It is gone: tell of it when it was known. */
int store_known_drop(struct store_known *known, const char *name);
/* The list is at its end: tell of those gone, and that all is told. */
int store_known_end(struct store_known *known);

#endif
