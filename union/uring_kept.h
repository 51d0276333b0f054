/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings that outlive the server of a union, and the memory of their entries:
 * the holder (holder.h) makes them before the first server is started, each
 * server has them by inheritance (the kernel passes no ring over a socket:
 * scm_fp_copy(), 6.7).
 *
 * They are of the kind that a thread of the kernel's looks after
 * (IORING_SETUP_SQPOLL; io_uring/sqpoll.c). That thread is one of the holder's
 * process. It issues the commands and copies the requests, by the holder's
 * addresses, so what the kernel does with an entry needs no server:
 *
 * - it lives as long as the holder; a server that dies leaves nothing to
 *   cancel (io_uring_enter() of such a ring gives the caller no part in it,
 *   io_uring_cancel_generic() passes over it);
 * - what a server has published in a ring is done though it is killed then, or
 *   once the next one wakes that thread.
 *
 * Entries of a queue share such a thread; those that are only needed while
 * others hang have one of their own. It sleeps when there was nothing to do for
 * a tick of the kernel's clock. It is tied to no CPU: measured, one that is on
 * that of who asks and serves makes all of it a third slower, one for each
 * entry much more (they all look for work at the same time).
 */
#ifndef UNION_URING_KEPT_H
#define UNION_URING_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "union/uring_entry.h"

/* The memory begins with it. */
struct uring_kept_header {
	uint64_t magic;
	uint32_t queues; /* entry N is for queue N % queues */
	uint32_t first;  /* entries that are used from the beginning: those
			    below */
	uint32_t count;  /* of entries, each with a ring */
	uint32_t reserved;
	uint64_t at; /* where the holder has it */
};

struct uring_kept {
	int fd; /* of the memory (a memfd); owned */
	struct uring_kept_header *header;
	int *rings; /* descriptors; owned */
};

/*
 * By the holder: make them, for unions with so many threads. 0 or -errno with
 * @err: -EPERM where io_uring is forbidden (sysctl kernel.io_uring_disabled),
 * -EMFILE, ...
 */
int uring_kept_make(struct uring_kept *ret, unsigned threads,
		    struct error *err);

/*
 * By a server: have them, the memory at the address where the holder has it, so
 * that the server can go on with the entries when the holder is gone. Early,
 * while little else is mapped. 0 or -errno; -EEXIST: something is there, so it
 * takes another process.
 *
 * @fd     of the memory; taken
 * @first  number of the first ring's descriptor, the others follow it; taken
 */
int uring_kept_open(struct uring_kept *ret, int fd, int first);

/* Close and unmap. One that is all zero is fine. */
void uring_kept_done(struct uring_kept *kept);

/* @entry: its number */
struct uring_place uring_kept_place(const struct uring_kept *kept,
				    unsigned entry);

/* Bytes that say how all that looks: a part of state_layout(). */
uint32_t uring_kept_layout(void);

#endif
