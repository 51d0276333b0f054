/* SPDX-License-Identifier: Apache-2.0 */
/* Questions of a scheduler before it asks for a volume. */
#ifndef VOLUME_ROOM_H
#define VOLUME_ROOM_H

#include "volume/plan/planner.h"
#include "volume/volume.h"

struct volume_room {
	uint64_t available; /* bytes in all pools that may be used */
	uint64_t maximum;   /* bytes of the largest volume; 0: none at all */
	uint64_t minimum;   /* bytes of the smallest */
	size_t silent;      /* nodes that did not answer, so are not counted */
};

/*
 * Tell how much room there is for volumes like each of @specs, whose capacity
 * is not looked at. Of nodes that were asked: a volume of the maximum can be
 * created, if nobody is quicker. A volume of 4096 bytes more cannot. Room of
 * the others is that of their reports (node_report.h).
 *
 * @ret  @n of them
 */
int volume_rooms_get(struct volume_context *ctx,
		     const struct volume_spec *const *specs, size_t n,
		     struct volume_room *ret, struct error *err);

/* The same of pools: a pure function. @spec is as volume_spec_check() left it.
 */
int volume_room_of_pools(const struct volume_spec *spec,
			 const struct planner_pool *pools, size_t n_pools,
			 struct volume_room *ret, struct error *err);

#endif
