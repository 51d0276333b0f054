/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/inode_number.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "base/wire/fnv.h"
#include "union/sys/proc_path.h"

/* Numbers of 32 bits: a branch and its own, or with the first bit a hash. */
#define NARROW_BITS     24
#define NARROW_BRANCHES 128
#define NARROW_HASH     (UINT64_C(1) << 31)

/* The finalizer of MurmurHash3, which mixes every bit into every other. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

uint64_t inode_number_fold(uint64_t ino)
{
	return mix(ino) & INODE_NUMBER_MASK;
}

uint64_t inode_number_of_turn(unsigned place, unsigned turn, uint64_t ino)
{
	const uint64_t mask = (UINT64_C(1) << INODE_TURN_SHIFT) - 1;

	assert(turn <= INODE_TURN_MAX);
	if (!turn)
		return inode_number(place, ino);
	if (ino > mask)
		ino = mix(ino) & mask;
	return inode_number(place, (uint64_t)turn << INODE_TURN_SHIFT | ino);
}

bool inode_shown_parse(const char *value, struct inode_shown *ret)
{
	static const struct {
		const char *name;
		struct inode_shown how;
	} values[] = {
		{"hybrid-hash", {INODE_CALC_OWN, false}},
		{"hybrid-hash32", {INODE_CALC_OWN, true}},
		{"devino-hash", {INODE_CALC_OWN, false}},
		{"devino-hash32", {INODE_CALC_OWN, true}},
		{"passthrough", {INODE_CALC_PASS, false}},
		{"path-hash", {INODE_CALC_PATH, false}},
		{"path-hash32", {INODE_CALC_PATH, true}},
	};
	size_t i;

	for (i = 0; i < array_size(values); i++)
		if (strcmp(values[i].name, value) == 0) {
			*ret = values[i].how;
			return true;
		}
	return false;
}

uint64_t inode_shown_narrow(uint64_t number)
{
	uint64_t branch = number >> INODE_NUMBER_SHIFT,
		 ino = number & INODE_NUMBER_MASK;

	if (branch < NARROW_BRANCHES && ino >> NARROW_BITS == 0)
		return branch << NARROW_BITS | ino;
	return NARROW_HASH | mix(number) % NARROW_HASH;
}

uint64_t inode_shown_path(const struct inode_shown *how, const char *path)
{
	uint64_t hash = mix(fnv1a(path, strlen(path)));

	if (how->narrow)
		hash = hash >> 32;
	return hash ? hash : 1;
}

int inode_number_read(int dirfd, const char *name, uint64_t *ret)
{
	char path[PROC_PATH_MAX];
	uint64_t wire;
	ssize_t n;

	/* Only a name needs care: the last part must not be followed. */
	proc_path(path, dirfd, name);
	n = *name ? lgetxattr(path, INODE_NUMBER_XATTR, &wire, sizeof(wire))
		  : getxattr(path, INODE_NUMBER_XATTR, &wire, sizeof(wire));
	if (n < 0)
		return errno == EOPNOTSUPP || errno == ERANGE ? -ENODATA
							      : -errno;
	if (n != sizeof(wire))
		return -ENODATA;
	*ret = le64toh(wire);
	return 0;
}

int inode_number_write(int fd, uint64_t number)
{
	char path[PROC_PATH_MAX];
	uint64_t wire = htole64(number);

	proc_path(path, fd, "");
	return setxattr(path, INODE_NUMBER_XATTR, &wire, sizeof(wire), 0) < 0
		       ? -errno
		       : 0;
}
