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
 * @range  start and len in bytes of the union, where its branches' file
 *         systems lie one after the other, each once; minlen of each. len
 *         is set to the bytes that were given back.
 *
 * Branches that cannot (another file system, read-only, failed) are passed
 * over. -EOPNOTSUPP: none can. -EINVAL: the range begins behind all of them.
 */
int branch_table_trim(const struct branch_table *table,
		      struct fstrim_range *range);

#endif
