/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapper device of an attachment over a loop device of this node. It makes
 * that loop device one that can be taken from its user.
 */
#ifndef BLOCKD_LOCAL_TOP_H
#define BLOCKD_LOCAL_TOP_H

#include <stdbool.h>

#include "base/dm/mapper.h"
#include "blockd/local/local_ask.h"

/*
 * Find the mapper device that has loop device @loop ("loop3"). True, and its
 * name: it is ours, and nothing else lies on the loop device.
 */
bool local_top_find(const char *loop, char ret[static MAPPER_NAME_MAX]);

/*
 * The same, and its UUID. Not that of a device of several extents over it: the
 * blockd of each extent holds its own part.
 */
bool local_top_uuid(const char *loop, char ret[static MAPPER_NAME_MAX]);

/*
 * Make all requests of that mapper device fail, also where it is mounted, and
 * unbind the loop device. Log it. Requests in flight have ended then. -EBUSY:
 * there is none, or a program has the loop device itself, too.
 *
 * @extent  to log
 */
int local_top_cut_off(const char *loop, const char *extent);

#endif
