/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the server of a union and its holder (holder.h): descriptors that
 * must outlive the server are kept there, each by a token. They are sent
 * before what makes them needed; a message that was sent arrives though the
 * server is killed then. When another server is started it is given all of
 * them first.
 */
#ifndef UNION_KEEP_H
#define UNION_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define KEEP_VERSION 3 /* of all this; a part of state_layout() */

/*
 * Tokens: of the state memory, the connection to the kernel, those of the
 * holder's own: servers that were killed and have not ended (dying.h), and
 * others.
 */
#define KEEP_STATE     1
#define KEEP_FUSE      2
#define KEEP_DYING     8 /* the first of */
#define KEEP_DYING_MAX 8
#define KEEP_FIRST     16
#define KEEP_LOCK      (1ull << 62) /* the first of BRANCH_MAX: branch_lock.h */

enum keep_op {
	KEEP_ADD = 1,  /* with a descriptor; both ways */
	KEEP_DROP,     /* to the holder */
	KEEP_READY,    /* to the holder: it serves */
	KEEP_FAILED,   /* to the holder: it does not; with @text, and
			 an errno for @token */
	KEEP_END,      /* to the server: those were all */
	KEEP_MOUNTS,   /* to the holder: it is about to */
	KEEP_REPLACE,  /* to the holder: another server is to take over */
	KEEP_REFUSED,  /* to the server: none can; with @text, and the token
			  it asked with */
	KEEP_LIFELINE, /* to the holder: see lifeline.h; with a descriptor */
};

struct keep_message {
	uint32_t op;
	uint32_t reserved;
	uint64_t token;
	char text[ERROR_TEXT_MAX]; /* sent as far as it is used */
};

/* Send to the other side; @fd -1: none. 0 or -errno: it is gone. */
int keep_send(int socket, enum keep_op op, uint64_t token, const char *text,
	      int fd);

/* Wait for one. 1, with @ret_fd (-1: none); 0: the other side is gone. */
int keep_receive(int socket, struct keep_message *ret, int *ret_fd);

/*
 * Of the server, which has one holder: take @socket (-1: there is none, and
 * all that follows does nothing) and what it kept. 0 or -errno.
 */
int keep_start(int socket);
bool keep_is_on(void);

/* A descriptor that an earlier server had kept; owned. -1: none. */
int keep_take(uint64_t token);
/* One that nobody took so far; owned. -1: there is no more. */
int keep_take_any(uint64_t *ret_token);

void keep_fd(uint64_t token, int fd);
void keep_drop(uint64_t token);
void keep_lifeline(int fd);
void keep_say_mounts(void);
void keep_say_ready(void);
void keep_say_failed(const struct error *err);

/*
 * Have the holder replace this server, by one thread at a time. Returns only
 * when it does not: -errno with @err; -ETIMEDOUT: it did not say so for so
 * long, and may do it yet.
 */
int keep_ask_replace(int timeout_ms, struct error *err);

#endif
