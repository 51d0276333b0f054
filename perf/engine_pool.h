/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of engine_load: one extent, and its snapshots. */
#ifndef PERF_ENGINE_POOL_H
#define PERF_ENGINE_POOL_H

#include <stdint.h>

#include "blockd/raw/dev/raw_dev.h"

#define ENGINE_EXTENT 1u /* its object */

/* Of a file or a device, with O_DIRECT. @ret_fd is the caller's to close. */
int engine_medium_open(struct raw_file_medium *medium, const char *path,
		       int *ret_fd, struct error *err);

/* A pool with an extent of @size bytes, all holes. */
int engine_pool_format(struct raw_medium *medium, uint64_t size,
		       struct error *err);

/* @id, an unused object, shares all that the extent of @size bytes has. */
int engine_snapshot(struct raw_store *store, uint32_t id, uint64_t size,
		    struct error *err);

/* Clusters of the extent that are not its own. */
uint64_t engine_shared(struct raw_store *store);

#endif
