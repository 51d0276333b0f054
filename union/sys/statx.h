/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FUSE_STATX, which the kernel sends since 6.6 when a process asks for the time
 * of birth (include/uapi/linux/fuse.h there, protocol 7.39). Versions of
 * libfuse before 3.18 do not know this request. So it is served as the
 * FUSE_GETATTR with which it begins (request_decode()), and answered by this.
 */
#ifndef UNION_STATX_H
#define UNION_STATX_H

#include <assert.h>
#include <stdint.h>
#include <sys/stat.h>

#define STATX_OPCODE 52 /* FUSE_STATX */

/* struct fuse_statx_in; the first three as in struct fuse_getattr_in. */
struct statx_in {
	uint32_t getattr_flags;
	uint32_t reserved;
	uint64_t fh;
	uint32_t flags;
	uint32_t mask;
};

/* struct fuse_sx_time */
struct statx_time {
	int64_t seconds;
	uint32_t nanoseconds;
	int32_t reserved;
};

/* struct fuse_statx_out */
struct statx_out {
	uint64_t valid; /* seconds, and the rest of them */
	uint32_t valid_nanoseconds;
	uint32_t flags;
	uint64_t spare[2];
	/* struct fuse_statx */
	uint32_t mask; /* STATX_ bits of what follows */
	uint32_t block_size;
	uint64_t attributes;
	uint32_t links;
	uint32_t uid;
	uint32_t gid;
	uint16_t mode;
	uint16_t spare0;
	uint64_t ino;
	uint64_t size;
	uint64_t blocks;
	uint64_t attributes_mask;
	struct statx_time accessed, born, changed, modified;
	uint32_t rdev_major;
	uint32_t rdev_minor;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint64_t spare2[14];
};

static_assert(sizeof(struct statx_in) == 24, "");
static_assert(sizeof(struct statx_out) == 288, "");

/*
 * Encode the answer.
 *
 * @birth    NULL: it is not known
 * @timeout  seconds for which the kernel may trust it
 */
void statx_encode(const struct stat *st, const struct timespec *birth,
		  double timeout, struct statx_out *ret);

#endif
