/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors that a holder keeps for the next server, each by its token:
 * keep.h.
 */
#ifndef UNION_HELD_H
#define UNION_HELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held {
	struct held_one {
		uint64_t token;
		int fd; /* owned */
	} * items;
	size_t count, size;
};

/* Takes @fd. 0 or -ENOMEM: then it is closed. */
int held_add(struct held *held, uint64_t token, int fd);

bool held_has(const struct held *held, uint64_t token);

/* Borrowed; -1: there is none. */
int held_fd(const struct held *held, uint64_t token);

/* Close that of @token, if there is one. */
void held_drop(struct held *held, uint64_t token);

/* All of them by keep_send(), KEEP_END last. 0 or -errno. */
int held_send(const struct held *held, int socket);

/* Close all. */
void held_done(struct held *held);

#endif
