/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a killed server leaves of an entry whose ring outlives it
 * (uring_kept.h), and what the next one makes of it.
 *
 * Each command that was published in the ring has one completion, and the next
 * one is published only after that has come. So the ring itself, which is the
 * kernel's memory, says who has the entry, whatever instruction the server was
 * killed at: the kernel, when one command more was published than completed;
 * else the server, with a request whose answer was not published. What the ring
 * does not know is whether that request lies in the entry as it came or may be
 * overwritten by a part of its answer: therefore what an answer may overwrite
 * is copied first, and the copy is noted in the record by one store, of how
 * many commands had been published then. Of the payload that is its beginning:
 * no request has a large one and an answer with a large one (linux/fuse.h).
 *
 * A request whose copy is noted was perhaps begun, and is served again as one
 * that the kernel sends again (ONCE_RESENT: once.h). An answer that was
 * complete and not published is lost by that: it is made again, or is in the
 * request's slot. One that was published is never made again.
 */
#ifndef UNION_URING_RECORD_H
#define UNION_URING_RECORD_H

#include <liburing.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/uio.h>

#include "union/uring_wire.h"

#define URING_SAVED 4096 /* bytes of a payload at most */

/* In memory that outlives the server. */
struct uring_record {
	struct io_uring_params params; /* of the ring, as it was made */
	struct iovec parts[2];         /* of the entry; and they themselves: */
	uint64_t parts_at;             /* addresses of the holder */
	uint32_t queue;
	_Atomic uint32_t used;  /* it is to be registered, or was */
	_Atomic uint32_t taken; /* commands published when what follows was
				   taken from the entry; 0: never */
	uint32_t reserved;
	uint64_t commit_id;
	struct fuse_in_header in;
	uint32_t op_size, payload_size; /* bytes */
	char op[URING_OP_IN_SIZE];
	char payload[URING_SAVED]; /* its beginning */
};

static inline uint32_t uring_record_saved(uint32_t payload_size)
{
	return payload_size < URING_SAVED ? payload_size : URING_SAVED;
}

/* The counts of a ring; they wrap. */
struct uring_counts {
	uint32_t published, completed; /* commands */
	int32_t result;                /* of the last one completed */
};

enum uring_found {
	URING_NEW,         /* nothing was published: register it */
	URING_KERNELS,     /* the kernel has it: wait for a request */
	URING_HAS_REQUEST, /* nobody has begun it */
	URING_HAS_TAKEN,   /* somebody may have */
	URING_REFUSED,     /* the last command failed: uring_counts.result */
};

/* What the next server finds. */
enum uring_found uring_found(const struct uring_counts *counts,
			     const struct uring_record *record);

/* A request as it is in an entry; borrowed. */
struct uring_request {
	struct fuse_in_header in;
	uint64_t commit_id;
	const char *op, *payload;
	uint32_t op_size, payload_size; /* bytes */
};

/*
 * Copy it, and note that.
 *
 * @published  commands, so far
 */
void uring_record_take(struct uring_record *record,
		       const struct uring_request *request, uint32_t published);

/*
 * The request that was taken, as it was.
 *
 * @payload  that of the entry: what follows the beginning is there
 * @data     for all of it; its length is in the header
 */
void uring_record_restore(const struct uring_record *record,
			  const char *payload, char *data);

#endif
