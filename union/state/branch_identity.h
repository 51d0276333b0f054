/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a branch: a directory of a file system, however and whenever
 * that is mounted. The parts are the file system's UUID (before Linux 6.9: its
 * id by statfs(2)), its kind, and the directory's handle.
 */
#ifndef UNION_BRANCH_IDENTITY_H
#define UNION_BRANCH_IDENTITY_H

#include "union/sys/handle.h"

struct branch_identity {
	struct handle root;
	long type; /* f_type of statfs(2) */
	uint64_t fsid;
	uint8_t uuid[16];
	uint8_t uuid_length; /* 0: the file system has none */
};

/* Get the identity of the directory @fd. 0 or -errno. */
int branch_identity_get(int fd, struct branch_identity *ret);

/* Are both of one Btrfs? Then they are one disk, whatever their st_dev. */
bool branch_identity_shares_space(const struct branch_identity *a,
				  const struct branch_identity *b);

bool branch_identity_equal(const struct branch_identity *a,
			   const struct branch_identity *b);

#endif
