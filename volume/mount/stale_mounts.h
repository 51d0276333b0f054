/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes with a dead mount of a volume, in any mount namespace: a container
 * that was running when its union died.
 */
#ifndef VOLUME_STALE_MOUNTS_H
#define VOLUME_STALE_MOUNTS_H

#include <stddef.h>
#include <sys/types.h>

/*
 * @alive  the device of the union that is mounted now; 0: none is
 * @ret    "cp (4711)": one of them; MOUNT_NS_USER_MAX bytes. Only processes
 *	   this one can see in /proc are looked at
 *
 * 1, or 0 when there is none.
 */
int stale_mounts_find(const char *volume, dev_t alive, char *ret);

#endif
