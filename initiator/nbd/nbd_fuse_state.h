/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a file over NBD that nbd_fuse*.c share. */
#ifndef INITIATOR_NBD_FUSE_STATE_H
#define INITIATOR_NBD_FUSE_STATE_H

#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "initiator/nbd/nbd_fuse_buffers.h"
#include "initiator/nbd/nbd_fuse_memory.h"
#include "initiator/nbd/nbd_parts.h"
#include "initiator/nbd/nbd_stored.h"

struct nbd_fuse_slot {
	struct nbd_parts_request request; /* first: done() finds the slot */
	struct nbd_fuse *fuse;
	fuse_req_t req;
	/* Data of a write, or of a read that comes from several parts. */
	struct nbd_fuse_buffer *buffer;
	struct nbd_fuse_record *record; /* of its own */
	struct nbd_fuse_slot *next;
};

struct nbd_fuse {
	struct fuse_session *session;
	struct nbd_parts *parts;
	const char *parts_file; /* NULL: none */
	struct nbd_kept *kept;
	struct nbd_stored *stored;
	struct nbd_fuse_memory *memory;
	struct nbd_fuse_buffers buffers;
	uint16_t flags; /* NBD_TRANSMIT_... */
	bool read_only;
	uint64_t size;     /* bytes, as it is now */
	uint32_t max_data; /* bytes of one read or write */
	char mount_point[1024];
	bool mounted; /* by this process */
	bool silent;  /* answers are not for the kernel */
	struct nbd_fuse_slot slots[NBD_FUSE_SLOTS];
	struct nbd_fuse_slot *unused;
	const void *head; /* of the request that is taken just now */
	struct nbd_fuse_slot
		*again; /* the process before had that request; or NULL */
	struct nbd_fuse_slot *resize; /* waits for the servers' word */
};

/* Stores before it stay before in memory, also if the process is killed. */
static inline void nbd_fuse_in_order(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

/* Put a slot back: its request is answered. */
void nbd_fuse_slot_put(struct nbd_fuse_slot *slot);

extern const struct fuse_lowlevel_ops nbd_fuse_operations;

#endif
