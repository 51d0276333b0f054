/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check whether all volumes are well. The leader calls it (leader_election.h);
 * all others read the result in the records.
 */
#ifndef VOLUME_HEALTH_CHECK_H
#define VOLUME_HEALTH_CHECK_H

#include "volume/volume.h"

/* The condition of a volume's record that this keeps. */
#define VOLUME_CONDITION_HEALTHY "Healthy"

struct volume_observation {
	size_t volumes;    /* of which the records can be read */
	size_t abnormal;   /* of them: something is wrong */
	uint64_t capacity; /* bytes, of all */
	size_t nodes, silent;
	size_t changed; /* records that say something else now */
};

/*
 * Ask every node once for its extents and compare them with the records. Write
 * changes into the conditions: a split whose node is silent or gone, an extent
 * that is missing or damaged. A volume with a running operation is left for the
 * next time.
 *
 * @go_on  asked between two steps; false: -ECANCELED. NULL: go on
 *
 * Takes as long as one silent node (volume_config.call_timeout_ms), not longer
 * with more of them.
 */
int volume_health_check(struct volume_context *ctx,
			bool (*go_on)(void *context), void *context,
			struct volume_observation *ret, struct error *err);

/*
 * Return the first problem in the record that a person should know, or "".
 * @ret: RECORD_TEXT_SIZE bytes. Asks no node.
 */
const char *volume_record_problem(const struct volume_record *record,
				  char *ret);

#endif
