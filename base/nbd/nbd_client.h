/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of NBD: bytes to structs and back, and the handshake as a
 * state machine. No descriptor here; nbd_connect.h moves the bytes.
 *
 * The server is not trusted. Lengths are bounded before a byte is kept. The
 * number of replies to one option is bounded. The server's text is used only in
 * quotes.
 *
 * Neither structured replies nor extended headers are asked for, so the server
 * may only send simple replies. They are smaller, and the kernel's client,
 * which gets its sockets from the same handshake, knows no others.
 */
#ifndef BASE_NBD_CLIENT_H
#define BASE_NBD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/wire/nbd_wire.h"

/*
 * Replies to one option. A server sends one reply a piece of information (four
 * are defined) and an acknowledgement; a series that never ends is cut here.
 */
#define NBD_OPTION_REPLIES_MAX 32

/* NBD_INFO_DESCRIPTION: its type and a string, the longest there is. */
#define NBD_OPTION_REPLY_MAX (2 + NBD_STRING_MAX) /* bytes */

/*
 * The longest message of a client: flags, option header, GO of the longest
 * name.
 */
#define NBD_HANDSHAKE_OUT_MAX (4 + 16 + 4 + NBD_STRING_MAX + 2 + 4 * 2)

/* Without NBD_INFO_BLOCK_SIZE (proto.md, "Block size constraints"). */
#define NBD_PAYLOAD_DEFAULT (UINT32_C(32) << 20) /* bytes */

/* The server's description of an export. */
struct nbd_export {
	uint64_t size;        /* bytes */
	uint16_t flags;       /* NBD_TRANSMIT_... */
	uint32_t min_block;   /* bytes, power of two up to 64 KiB */
	uint32_t max_payload; /* bytes of one read or write */
	bool has_description;
	char description[NBD_STRING_MAX + 1]; /* any bytes but NUL */
};

enum nbd_handshake_goal {
	NBD_HANDSHAKE_GO,   /* ends ready for requests */
	NBD_HANDSHAKE_INFO, /* ends with the description; then hang up */
};

enum nbd_handshake_state {
	NBD_HANDSHAKE_GREETING,
	NBD_HANDSHAKE_REPLY,
	NBD_HANDSHAKE_REPLY_BODY,
	NBD_HANDSHAKE_DONE,
	NBD_HANDSHAKE_FAILED,
};

struct nbd_handshake {
	/* The caller's turn: receive exactly `want` bytes into `in`. */
	size_t want;
	uint8_t in[NBD_OPTION_REPLY_MAX];
	/* After a step: send these, then receive again. */
	size_t out_length;
	uint8_t out[NBD_HANDSHAKE_OUT_MAX];

	enum nbd_handshake_state state;
	enum nbd_handshake_goal goal;
	const char *export_name; /* borrowed until the end */
	uint32_t reply_type;
	unsigned replies;
	bool has_export; /* NBD_INFO_EXPORT came */
	struct nbd_export export;
};

/* Begin. -EINVAL: the name is empty or longer than NBD_STRING_MAX. */
int nbd_handshake_start(struct nbd_handshake *h, const char *export_name,
			enum nbd_handshake_goal goal, struct error *err);

/*
 * Do a step; `want` bytes are in `in`.
 *
 * Returns 0 (send `out`, receive `want` more), 1 (done, h->export is set) or an
 * error, after which the connection is closed:
 * -EPROTO       not an NBD server, or it broke a rule or a bound
 * -EACCES       it refuses us by policy (not admitted, an older epoch, TLS)
 * -ENOENT       no such export
 * -EHOSTUNREACH it is shutting down
 * -EOPNOTSUPP   it is too old for NBD_OPT_GO, or needs what we lack
 */
int nbd_handshake_step(struct nbd_handshake *h, struct error *err);

/* Make one request; @length is also that of the data that follows a write. */
void nbd_request_encode(struct nbd_wire_request *wire, uint16_t type,
			uint16_t flags, uint64_t cookie, uint64_t offset,
			uint32_t length);

struct nbd_reply {
	uint64_t cookie;
	int error;    /* 0 or a negative errno */
	bool leaving; /* NBD_ESHUTDOWN: ask again on a new connection */
};

/*
 * Read a reply. -EPROTO: not a simple reply; the stream cannot be followed any
 * more.
 */
int nbd_reply_decode(const struct nbd_wire_simple_reply *wire,
		     struct nbd_reply *ret);

/*
 * May a session that began with @first go on with @now? Data that was
 * acknowledged and not flushed is only there while the incarnation (the
 * description) is the same. A server that states none may have lost it. So such
 * a server is taken for the same only when nothing is unflushed (!@dirty).
 *
 * Returns 0, -ESTALE or -EINVAL. -ESTALE: another incarnation, or not known to
 * be the same. -EINVAL: the export has shrunk, or can no longer be written or
 * flushed.
 */
int nbd_export_may_resume(const struct nbd_export *first,
			  const struct nbd_export *now, bool dirty,
			  struct error *err);

/*
 * Can @export be used in blocks of @block_size bytes? -EINVAL: size, blocks;
 * -EROFS: asked to write what is read-only; -EOPNOTSUPP: to be written, but no
 * FLUSH, so that no fsync could be kept.
 */
int nbd_export_check(const struct nbd_export *export, uint64_t size,
		     uint32_t block_size, bool read_only, struct error *err);

#endif
