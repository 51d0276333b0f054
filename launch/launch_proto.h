/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets on the socket of trib-launch: one packet asks for a program, one
 * packet answers, then the connection is closed. Descriptors go beside
 * the request (SCM_RIGHTS): first the log, then the one passed on, as its
 * flags say. A request that stores is answered only if it is refused, and
 * messages of fd_store_message.h follow it. No state, no I/O.
 */
#ifndef LAUNCH_LAUNCH_PROTO_H
#define LAUNCH_LAUNCH_PROTO_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/wire/wire.h"

#define LAUNCH_MAGIC   0x54724c61u /* "TrLa" */
#define LAUNCH_VERSION 1

/* Bytes. One packet has to fit the default send buffer, net.core.wmem. */
#define LAUNCH_REQUEST_MAX (128u << 10)
#define LAUNCH_ARGS_MAX    1024
#define LAUNCH_TEXT_MAX    400 /* bytes of a refusal's text */

#define LAUNCH_HAS_LOG  0x1 /* a descriptor: standard output and error */
#define LAUNCH_HAS_PASS 0x2 /* a descriptor: it gets it as number 3 */
#define LAUNCH_STORES                                           \
	0x4 /* start it only when who asks ends: launch_store.h \
	     */

struct launch_wire_request { /* then @count strings, each with its NUL */
	be32 magic;
	be16 version;
	be16 flags;
	be32 pid; /* of who asks, as it sees itself */
	be32 count;
};
static_assert(sizeof(struct launch_wire_request) == 16, "wire size");

struct launch_wire_reply { /* then, with a code, its text without a NUL */
	be32 magic;
	be16 version;
	be16 code; /* positive errno; 0: started */
	be32 pid;  /* of the program; 0 with a code */
};
static_assert(sizeof(struct launch_wire_reply) == 12, "wire size");

struct launch_request {
	pid_t pid;
	unsigned flags;
	const char **argv; /* owned, ends with NULL; the strings are borrowed */
	size_t argc;       /* at least 1; argv[0] is the name of a program */
};

/*
 * @data     @length bytes, borrowed until launch_request_done()
 * @ret      set only on 0
 *
 * -EPROTO: not a request; -EPROTONOSUPPORT: of another version; -E2BIG: too
 * many words; -ENOMEM. The text is for the peer.
 */
int launch_request_decode(const void *data, size_t length,
			  struct launch_request *ret, struct error *err);
void launch_request_done(struct launch_request *request);

/* @ret: owned. -E2BIG: more than a request may have. */
int launch_request_encode(const struct launch_request *request, void **ret,
			  size_t *ret_length, struct error *err);

struct launch_reply {
	int code; /* positive errno; 0: started */
	pid_t pid;
	char text[LAUNCH_TEXT_MAX + 1];
};

#define LAUNCH_REPLY_MAX (sizeof(struct launch_wire_reply) + LAUNCH_TEXT_MAX)

/* @ret: LAUNCH_REPLY_MAX bytes. Returns the length. */
size_t launch_reply_encode(const struct launch_reply *reply, void *ret);

/* -EPROTO, -EPROTONOSUPPORT. */
int launch_reply_decode(const void *data, size_t length,
			struct launch_reply *ret);

#endif
