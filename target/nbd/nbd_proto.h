/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NBD, bytes to structs and back, as the server sees it. No state, no I/O.
 * Everything decoded is borrowed from the input; everything encoded goes to
 * a buffer of the caller, who knows its size from the maxima below. Names
 * and numbers: base/wire/nbd_wire.h; meaning: the NBD project's doc/proto.md.
 */
#ifndef TARGET_NBD_PROTO_H
#define TARGET_NBD_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blockdev/blockdev.h"
#include "base/wire/nbd_wire.h"

/*
 * The most bytes that a READ may ask for and a WRITE may carry. A client may
 * assume that without being told (proto.md, "Block size constraints").
 */
#define NBD_PAYLOAD_MAX (UINT32_C(32) << 20)

/* The context we know; its id on the wire is ours to choose. */
#define NBD_CONTEXT_ALLOCATION    "base:allocation"
#define NBD_CONTEXT_ALLOCATION_ID 1u

/* ---- requests ---- */

struct nbd_request {
	uint16_t flags; /* NBD_CMD_FLAG_* */
	uint16_t type;  /* enum nbd_command, or anything */
	uint64_t cookie;
	uint64_t offset; /* bytes */
	uint64_t length; /* bytes; less than 4 GiB without extended headers */
};

/*
 * @wire  any alignment; borrowed for the call
 * @ret   set only on success
 *
 * Returns 0, or -EPROTO: bad magic, drop the connection.
 */
int nbd_request_decode(const struct nbd_wire_request *wire,
		       struct nbd_request *ret);
int nbd_extended_request_decode(const struct nbd_wire_extended_request *wire,
				struct nbd_request *ret);

/* Context ids that the payload of a BLOCK_STATUS may name, at most. Ours. */
#define NBD_STATUS_IDS_MAX 16
#define NBD_STATUS_PAYLOAD_MAX \
	(sizeof(be64) + NBD_STATUS_IDS_MAX * sizeof(be32)) /* bytes */

/*
 * The payload of a BLOCK_STATUS with NBD_CMD_FLAG_PAYLOAD: which bytes, and
 * which contexts; the only one that may be named is base:allocation.
 *
 * @ret_length  bytes asked for; set only on success
 *
 * -EINVAL: a length that can't be, or not that one context once.
 */
int nbd_status_payload_decode(const void *data, size_t length,
			      uint64_t *ret_length);

/* ---- options ---- */

struct nbd_option_header {
	uint32_t option; /* enum nbd_option, or anything */
	uint32_t length; /* bytes that follow; unbounded */
};

/* As nbd_request_decode(). */
int nbd_option_decode(const struct nbd_wire_option *wire,
		      struct nbd_option_header *ret);

/* A string of the peer: borrowed, not terminated, no NUL inside. */
struct nbd_string {
	const char *text;
	uint32_t length; /* bytes, up to NBD_STRING_MAX */
};

/* The data of NBD_OPT_INFO and NBD_OPT_GO. */
struct nbd_info_request {
	struct nbd_string name;
	bool wants_name, wants_description, wants_block_size;
};

/*
 * -EINVAL: lengths that do not fit the data, or a NUL in the name;
 * -E2BIG: a name longer than NBD_STRING_MAX.
 */
int nbd_info_request_decode(const void *data, size_t length,
			    struct nbd_info_request *ret);

/* The data of NBD_OPT_LIST_META_CONTEXT and NBD_OPT_SET_META_CONTEXT. */
struct nbd_meta_request {
	struct nbd_string name;
	uint32_t n_queries;
	bool wants_base;       /* "base:", which stands for all of base */
	bool wants_allocation; /* "base:allocation" */
};

/* Errors as nbd_info_request_decode(). */
int nbd_meta_request_decode(const void *data, size_t length,
			    struct nbd_meta_request *ret);

/* ---- what the server says in the handshake ---- */

struct nbd_wire_info_export { /* NBD_INFO_EXPORT */
	be16 type;
	be64 size;
	be16 flags;
};
static_assert(sizeof(struct nbd_wire_info_export) == 12, "wire size");

struct nbd_wire_info_block_size { /* NBD_INFO_BLOCK_SIZE */
	be16 type;
	be32 minimum;
	be32 preferred;
	be32 maximum;
};
static_assert(sizeof(struct nbd_wire_info_block_size) == 14, "wire size");

struct nbd_wire_export_name { /* the answer to NBD_OPT_EXPORT_NAME */
	be64 size;
	be16 flags;
	uint8_t zeroes[124]; /* unless NBD_FLAG_C_NO_ZEROES */
};
static_assert(sizeof(struct nbd_wire_export_name) == 134, "wire size");

struct nbd_wire_greeting nbd_greeting_make(void);
struct nbd_wire_option_reply nbd_option_reply_make(uint32_t option,
						   uint32_t type,
						   uint32_t length);
struct nbd_wire_info_export nbd_info_export_make(uint64_t size, uint16_t flags);

/*
 * @minimum    bytes, power of two
 * @preferred  bytes; forced into what proto.md allows
 */
struct nbd_wire_info_block_size nbd_info_block_size_make(uint32_t minimum,
							 uint32_t preferred);

/* ---- replies ---- */

/* The request that a reply is to, and the kind of its headers. */
struct nbd_reply {
	bool extended;
	uint64_t cookie;
	uint64_t offset; /* the request's; said with extended headers only */
};

/*
 * The most bytes that one of the functions below writes: an NBD_REPLY_TYPE_
 * OFFSET_DATA chunk, before its data.
 */
#define NBD_REPLY_HEAD_MAX \
	(sizeof(struct nbd_wire_extended_chunk) + sizeof(be64))

/* Each returns the bytes written to @to (NBD_REPLY_HEAD_MAX bytes). */

/* @error: enum nbd_error */
size_t nbd_simple_reply_encode(void *to, uint64_t cookie, uint32_t error);

/* The head of a chunk of read data that follows. @done: it is the last. */
size_t nbd_data_chunk_encode(void *to, const struct nbd_reply *reply,
			     uint64_t offset, uint32_t length, bool done);

/* The head of an error chunk, the last; @text_length bytes of text follow. */
size_t nbd_error_chunk_encode(void *to, const struct nbd_reply *reply,
			      uint32_t error, uint16_t text_length);

/* The last chunk, empty: success. */
size_t nbd_none_chunk_encode(void *to, const struct nbd_reply *reply);

/* The head of a block status chunk, the last; @length bytes follow. */
size_t nbd_status_chunk_encode(void *to, const struct nbd_reply *reply,
			       uint32_t length);

/* The most bytes that nbd_status_encode() writes for @n runs. */
#define NBD_STATUS_SIZE(n) (2 * sizeof(be32) + 2 * sizeof(be64) * (size_t)(n))

/*
 * The payload of a block status chunk for base:allocation: neighbours with
 * the same status become one. Returns the bytes written.
 *
 * @extended  for an extended chunk: lengths have 64 bits
 * @to        NBD_STATUS_SIZE(@n) bytes, not overlapping @runs
 * @runs      together at most UINT32_MAX bytes, unless @extended
 */
size_t nbd_status_encode(void *to, bool extended,
			 const struct blockdev_status *runs, unsigned n);

/* The nearest enum nbd_error of a negative errno; 0 for 0. */
uint32_t nbd_error_from_errno(int r);

#endif
