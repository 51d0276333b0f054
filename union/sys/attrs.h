/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_ATTRS_H
#define UNION_ATTRS_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Give the inode @to_fd owner, mode, ACLs and all other extended attributes
 * of @from_fd, whose attributes are @from; the mode last, setuid stays. Both
 * may be O_PATH, of symbolic links, too. Labels that the other file system
 * cannot keep are left out, ACLs are not: -EOPNOTSUPP. 0 or -errno.
 */
int attrs_copy(int from_fd, const struct stat *from, int to_fd);

static inline bool time_equal(const struct timespec *a,
			      const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

#endif
