/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NBD protocol's numbers and fixed structures, as in the NBD project's
 * doc/proto.md. Shared by the server (target/) and the client (initiator/);
 * the meaning is with them.
 */
#ifndef BASE_NBD_WIRE_H
#define BASE_NBD_WIRE_H

#include "base/wire/wire.h"

#define NBD_PORT 10809 /* IANA "nbd" */

#define NBD_MAGIC                  UINT64_C(0x4e42444d41474943) /* "NBDMAGIC" */
#define NBD_OPTION_MAGIC           UINT64_C(0x49484156454f5054) /* "IHAVEOPT" */
#define NBD_OPTION_REPLY_MAGIC     UINT64_C(0x3e889045565a9)
#define NBD_REQUEST_MAGIC          UINT32_C(0x25609513)
#define NBD_SIMPLE_REPLY_MAGIC     UINT32_C(0x67446698)
#define NBD_STRUCTURED_REPLY_MAGIC UINT32_C(0x668e33ef)
#define NBD_EXTENDED_REQUEST_MAGIC UINT32_C(0x21e41c71)
#define NBD_EXTENDED_REPLY_MAGIC   UINT32_C(0x6e8a278c)

#define NBD_STRING_MAX 4096 /* bytes; proto.md "String" */

/* Handshake and client flags */
#define NBD_FLAG_FIXED_NEWSTYLE   (1 << 0)
#define NBD_FLAG_NO_ZEROES        (1 << 1)
#define NBD_FLAG_C_FIXED_NEWSTYLE (1u << 0)
#define NBD_FLAG_C_NO_ZEROES      (1u << 1)

/* Transmission flags */
#define NBD_TRANSMIT_HAS_FLAGS         (1 << 0)
#define NBD_TRANSMIT_READ_ONLY         (1 << 1)
#define NBD_TRANSMIT_SEND_FLUSH        (1 << 2)
#define NBD_TRANSMIT_SEND_FUA          (1 << 3)
#define NBD_TRANSMIT_ROTATIONAL        (1 << 4)
#define NBD_TRANSMIT_SEND_TRIM         (1 << 5)
#define NBD_TRANSMIT_SEND_WRITE_ZEROES (1 << 6)
#define NBD_TRANSMIT_SEND_DF           (1 << 7)
#define NBD_TRANSMIT_CAN_MULTI_CONN    (1 << 8)
#define NBD_TRANSMIT_SEND_RESIZE       (1 << 9)
#define NBD_TRANSMIT_SEND_CACHE        (1 << 10)
#define NBD_TRANSMIT_SEND_FAST_ZERO    (1 << 11)
#define NBD_TRANSMIT_STATUS_PAYLOAD    (1 << 12) /* "BLOCK_STATUS_PAYLOAD" */

enum nbd_option {
	NBD_OPT_EXPORT_NAME = 1,
	NBD_OPT_ABORT = 2,
	NBD_OPT_LIST = 3,
	NBD_OPT_PEEK_EXPORT = 4,
	NBD_OPT_STARTTLS = 5,
	NBD_OPT_INFO = 6,
	NBD_OPT_GO = 7,
	NBD_OPT_STRUCTURED_REPLY = 8,
	NBD_OPT_LIST_META_CONTEXT = 9,
	NBD_OPT_SET_META_CONTEXT = 10,
	NBD_OPT_EXTENDED_HEADERS = 11,
};

#define NBD_REP_ERROR(n)            ((UINT32_C(1) << 31) | (n))
#define NBD_REP_ACK                 UINT32_C(1)
#define NBD_REP_SERVER              UINT32_C(2)
#define NBD_REP_INFO                UINT32_C(3)
#define NBD_REP_META_CONTEXT        UINT32_C(4)
#define NBD_REP_ERR_UNSUP           NBD_REP_ERROR(1)
#define NBD_REP_ERR_POLICY          NBD_REP_ERROR(2)
#define NBD_REP_ERR_INVALID         NBD_REP_ERROR(3)
#define NBD_REP_ERR_PLATFORM        NBD_REP_ERROR(4)
#define NBD_REP_ERR_TLS_REQD        NBD_REP_ERROR(5)
#define NBD_REP_ERR_UNKNOWN         NBD_REP_ERROR(6)
#define NBD_REP_ERR_SHUTDOWN        NBD_REP_ERROR(7)
#define NBD_REP_ERR_BLOCK_SIZE_REQD NBD_REP_ERROR(8)
#define NBD_REP_ERR_TOO_BIG         NBD_REP_ERROR(9)
#define NBD_REP_ERR_EXT_HEADER_REQD NBD_REP_ERROR(10)

enum nbd_info {
	NBD_INFO_EXPORT = 0,
	NBD_INFO_NAME = 1,
	NBD_INFO_DESCRIPTION = 2,
	NBD_INFO_BLOCK_SIZE = 3,
};

enum nbd_command {
	NBD_CMD_READ = 0,
	NBD_CMD_WRITE = 1,
	NBD_CMD_DISC = 2,
	NBD_CMD_FLUSH = 3,
	NBD_CMD_TRIM = 4,
	NBD_CMD_CACHE = 5,
	NBD_CMD_WRITE_ZEROES = 6,
	NBD_CMD_BLOCK_STATUS = 7,
	NBD_CMD_RESIZE = 8,
};

#define NBD_CMD_FLAG_FUA       (1 << 0)
#define NBD_CMD_FLAG_NO_HOLE   (1 << 1)
#define NBD_CMD_FLAG_DF        (1 << 2)
#define NBD_CMD_FLAG_REQ_ONE   (1 << 3)
#define NBD_CMD_FLAG_FAST_ZERO (1 << 4)
#define NBD_CMD_FLAG_PAYLOAD   (1 << 5) /* "PAYLOAD_LEN" */

#define NBD_REPLY_FLAG_DONE (1 << 0)

#define NBD_REPLY_TYPE_NONE         0
#define NBD_REPLY_TYPE_OFFSET_DATA  1
#define NBD_REPLY_TYPE_OFFSET_HOLE  2
#define NBD_REPLY_TYPE_BLOCK_STATUS 5
#define NBD_REPLY_TYPE_STATUS_EXT   6 /* "BLOCK_STATUS_EXT" */
#define NBD_REPLY_TYPE_ERROR        ((1 << 15) | 1)
#define NBD_REPLY_TYPE_ERROR_OFFSET ((1 << 15) | 2)

#define NBD_STATE_HOLE (1 << 0) /* base:allocation */
#define NBD_STATE_ZERO (1 << 1)

enum nbd_error {
	NBD_SUCCESS = 0,
	NBD_EPERM = 1,
	NBD_EIO = 5,
	NBD_ENOMEM = 12,
	NBD_EINVAL = 22,
	NBD_ENOSPC = 28,
	NBD_EOVERFLOW = 75,
	NBD_ENOTSUP = 95,
	NBD_ESHUTDOWN = 108,
};

struct nbd_wire_greeting { /* "Newstyle negotiation" */
	be64 magic;
	be64 option_magic;
	be16 flags;
};
static_assert(sizeof(struct nbd_wire_greeting) == 18, "wire size");

struct nbd_wire_option { /* "Option haggling", client */
	be64 magic;
	be32 option;
	be32 length; /* bytes that follow */
};
static_assert(sizeof(struct nbd_wire_option) == 16, "wire size");

struct nbd_wire_option_reply {
	be64 magic;
	be32 option;
	be32 type;
	be32 length; /* bytes that follow */
};
static_assert(sizeof(struct nbd_wire_option_reply) == 20, "wire size");

struct nbd_wire_request { /* "Request message" */
	be32 magic;
	be16 flags;
	be16 type;
	be64 cookie; /* echoed unread */
	be64 offset; /* bytes */
	be32 length; /* bytes */
};
static_assert(sizeof(struct nbd_wire_request) == 28, "wire size");

struct nbd_wire_simple_reply {
	be32 magic;
	be32 error;
	be64 cookie;
};
static_assert(sizeof(struct nbd_wire_simple_reply) == 16, "wire size");

struct nbd_wire_chunk { /* "Structured reply chunk message" */
	be32 magic;
	be16 flags;
	be16 type;
	be64 cookie;
	be32 length; /* bytes that follow */
};
static_assert(sizeof(struct nbd_wire_chunk) == 20, "wire size");

/* With extended headers: proto.md of the EXTENDED_HEADERS extension. */
struct nbd_wire_extended_request {
	be32 magic;
	be16 flags;
	be16 type;
	be64 cookie; /* echoed unread */
	be64 offset; /* bytes */
	be64 length; /* bytes; of the payload, with NBD_CMD_FLAG_PAYLOAD */
};
static_assert(sizeof(struct nbd_wire_extended_request) == 32, "wire size");

struct nbd_wire_extended_chunk {
	be32 magic;
	be16 flags;
	be16 type;
	be64 cookie;
	be64 offset; /* the request's */
	be64 length; /* bytes that follow */
};
static_assert(sizeof(struct nbd_wire_extended_chunk) == 32, "wire size");

#endif
