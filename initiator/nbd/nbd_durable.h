/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which acknowledged writes of a link are durable: those that a flush has
 * covered. The rest may be in the server's memory only. Before the first flush,
 * so may be writes of a process whose place this one took.
 */
#ifndef INITIATOR_NBD_DURABLE_H
#define INITIATOR_NBD_DURABLE_H

#include <stdbool.h>
#include <stdint.h>

/* All zeroes: nothing was acknowledged, nothing is known. */
struct nbd_durable {
	uint64_t acknowledged; /* writes */
	uint64_t flushed;      /* how many of them a flush has covered */
	bool covered;          /* a flush has succeeded */
};

/*
 * Count a request that the server has answered without an error.
 *
 * @type   NBD_CMD_...
 * @flags  NBD_CMD_FLAG_...
 * @mark   acknowledged when the request was submitted
 */
void nbd_durable_count(struct nbd_durable *durable, uint16_t type,
		       uint16_t flags, uint64_t mark);

/* Tell whether writes of this link were acknowledged and not flushed. */
bool nbd_durable_is_dirty(const struct nbd_durable *durable);

/* Tell whether the first @mark writes, and all before them, are durable. */
bool nbd_durable_has(const struct nbd_durable *durable, uint64_t mark);

#endif
