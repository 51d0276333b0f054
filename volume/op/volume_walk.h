/* SPDX-License-Identifier: Apache-2.0 */
/* All volumes, without having all in memory: volume_list() has them. */
#ifndef VOLUME_WALK_H
#define VOLUME_WALK_H

#include "volume/store/record_place.h"
#include "volume/volume.h"

/* @record: borrowed. Returns 0: go on; else volume_walk() returns that. */
typedef int (*volume_each)(void *context, const struct volume_record *record,
			   struct error *err);
/*
 * Call @each for all volumes by name, some of which are in memory at a time. A
 * volume that stays is seen once; others may come and go meanwhile.
 *
 * @place        begin there, and end just before the record for which @each
 *               returned other than 0; NULL: begin at the first
 * @ret_problem  as of volume_list()
 */
int volume_walk(struct volume_context *ctx, struct record_place *place,
		volume_each each, void *context, char *ret_problem,
		struct error *err);

#endif
