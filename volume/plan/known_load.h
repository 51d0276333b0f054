/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading what the records tell of all nodes (known_nodes.h).
 *
 * A context keeps it for KNOWN_NODES_MS, as long as a keeper may take to report
 * a change. So a row of creates reads the records once. It is not kept where a
 * node has to be asked because its report does not tell its room.
 */
#ifndef VOLUME_KNOWN_LOAD_H
#define VOLUME_KNOWN_LOAD_H

#include "volume/op/context.h"
#include "volume/record/known_nodes.h"

#define KNOWN_NODES_MS (STORE_BEAT_S * 1000)

/*
 * @fresh    load them now
 * @ret      known_nodes_unref(); it does not change but for the atomic members
 */
int known_load(struct volume_context *ctx, bool fresh, struct known_nodes **ret,
	       struct error *err);

#endif
