/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/statx.h"

#include <string.h>
#include <sys/sysmacros.h>

static struct statx_time wire_time(const struct timespec *time)
{
	return (struct statx_time){
		.seconds = time->tv_sec,
		.nanoseconds = (uint32_t)time->tv_nsec,
	};
}

static void encode_timeout(double timeout, struct statx_out *ret)
{
	if (timeout >= (double)UINT64_MAX) {
		ret->valid = UINT64_MAX;
	} else if (timeout > 0) {
		ret->valid = (uint64_t)timeout;
		ret->valid_nanoseconds =
			(uint32_t)((timeout - (double)ret->valid) * 1e9);
	}
}

void statx_encode(const struct stat *st, const struct timespec *birth,
		  double timeout, struct statx_out *ret)
{
	memset(ret, 0, sizeof(*ret));
	encode_timeout(timeout, ret);
	ret->mask = STATX_BASIC_STATS;
	ret->block_size = (uint32_t)st->st_blksize;
	ret->links = (uint32_t)st->st_nlink;
	ret->uid = st->st_uid;
	ret->gid = st->st_gid;
	ret->mode = (uint16_t)st->st_mode;
	ret->ino = st->st_ino;
	ret->size = (uint64_t)st->st_size;
	ret->blocks = (uint64_t)st->st_blocks;
	ret->accessed = wire_time(&st->st_atim);
	ret->changed = wire_time(&st->st_ctim);
	ret->modified = wire_time(&st->st_mtim);
	ret->rdev_major = major(st->st_rdev);
	ret->rdev_minor = minor(st->st_rdev);
	if (birth) {
		ret->mask |= STATX_BTIME;
		ret->born = wire_time(birth);
	}
}
