/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FUSE over io_uring as the kernel has it since 6.14: include/uapi/linux/fuse.h
 * there, protocol 7.42 and later; Documentation/filesystems/fuse-io-uring.rst.
 * Headers and payload of a request are two buffers of ours, an entry, that is
 * registered once for the queue of one CPU and used for one request after the
 * other.
 */
#ifndef UNION_URING_WIRE_H
#define UNION_URING_WIRE_H

#include <assert.h>
#include <stdint.h>

/* Operations of a command for /dev/fuse: enum fuse_uring_cmd. */
#define URING_CMD_REGISTER         1
#define URING_CMD_COMMIT_AND_FETCH 2

#define URING_IN_OUT_SIZE 128 /* FUSE_URING_IN_OUT_HEADER_SZ */
#define URING_OP_IN_SIZE  128 /* FUSE_URING_OP_IN_OUT_SZ */

/* struct fuse_uring_ent_in_out */
struct uring_ent_in_out {
	uint64_t flags;
	uint64_t commit_id;    /* to be given back with the reply */
	uint32_t payload_size; /* of the request, then of the reply */
	uint32_t padding;
	uint64_t reserved;
};

/* struct fuse_uring_req_header */
struct uring_headers {
	/* struct fuse_in_header, then struct fuse_out_header */
	_Alignas(8) char in_out[URING_IN_OUT_SIZE];
	_Alignas(8) char op_in[URING_OP_IN_SIZE]; /* struct fuse_OP_in */
	struct uring_ent_in_out ring;
};

/* struct fuse_uring_cmd_req: the command's own 80 bytes begin with it. */
struct uring_cmd {
	uint64_t flags;
	uint64_t commit_id; /* of URING_CMD_COMMIT_AND_FETCH */
	uint16_t queue;
	uint8_t padding[6];
};

static_assert(sizeof(struct uring_ent_in_out) == 32, "");
static_assert(sizeof(struct uring_headers) == 288, "");
static_assert(sizeof(struct uring_cmd) == 24, "");

#endif
