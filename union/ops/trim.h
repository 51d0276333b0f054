/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Give back what a union does not use: FITRIM (ioctl_fitrim of linux/fs.h, as
 * fstrim(8) asks) on its branches, whose file systems tell their devices.
 */
#ifndef UNION_TRIM_H
#define UNION_TRIM_H

#include <linux/fs.h>

#include "union/branch/branch.h"

/*
 * Trim the branches' file systems. In the union these lie one after the other,
 * each once.
 *
 * @range  start and len in bytes of the union; minlen of each file system. len
 *         is set to the bytes that were given back.
 *
 * Branches that cannot (another file system, read-only, failed) are passed
 * over. -EOPNOTSUPP: none can. -EINVAL: the range begins behind all of them.
 */
int branch_table_trim(const struct branch_table *table,
		      struct fstrim_range *range);

#endif
