/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Disks that become pools by a rule: every whole block device whose path the
 * rule matches, and that is blank. All others are left alone, and the log says
 * why.
 */
#ifndef BLOCKD_DEVICES_H
#define BLOCKD_DEVICES_H

#include "base/options.h"
#include "blockd/node/node.h"

/*
 * Make pools of the devices that are none so far. A pool is named by the last
 * part of its device's path, in small letters. Other characters than letters
 * and digits become "-" there.
 *
 * A device is blank if libblkid knows nothing on it, and its first and last MiB
 * are zeroes. Partitions are passed over. A device in use is refused.
 *
 * @rules  patterns of glob(3)
 */
void devices_make_pools(struct node *node, const struct option_list *rules);

#endif
