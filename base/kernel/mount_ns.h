/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mount namespaces (mount_namespaces(7)) of the processes that this one can see
 * in /proc. A mount that is gone from ours may live on as a copy in another
 * one. Such a copy keeps the mount's device and the server of that device in
 * use.
 */
#ifndef BASE_KERNEL_MOUNT_NS_H
#define BASE_KERNEL_MOUNT_NS_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#define MOUNT_NS_USER_MAX 48 /* bytes with NUL */

/* A namespace by one of its processes. */
struct mount_ns {
	const char *pid; /* in decimal */
	FILE *mounts;    /* its mountinfo (proc(5)), from the start */
};

/* Other than 0 ends the walk. */
typedef int mount_ns_each(void *context, const struct mount_ns *space);

/*
 * Call @each with each namespace once, ours included. Returns the result of the
 * last @each; 0 when it was never called.
 */
int mount_ns_walk(mount_ns_each *each, void *context);

/* "cp (4711)"; @ret: MOUNT_NS_USER_MAX bytes. */
void mount_ns_user(const struct mount_ns *space, char *ret);

/*
 * Find the device of a line of mountinfo, and where in it the mount point
 * begins: escaped, up to the next space. False: no line of mountinfo.
 */
bool mount_ns_line(const char *line, dev_t *ret_device, int *ret_target);

/*
 * Has another namespace the file system of @device mounted?
 *
 * @ret      who: MOUNT_NS_USER_MAX bytes
 * @ret_pid  of that process; may be NULL
 */
bool mount_ns_has_elsewhere(dev_t device, char *ret, pid_t *ret_pid);

#endif
