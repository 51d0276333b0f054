/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Use of a file system by programs of other mount namespaces: an open file or a
 * working directory. A copy of the mount alone is no use.
 */
#ifndef BASE_KERNEL_MOUNT_NS_USE_H
#define BASE_KERNEL_MOUNT_NS_USE_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Find a process of another mount namespace that uses the file system of
 * @device. No file of it is asked anything: its server need not answer.
 *
 * @ret  "cp (4711)": MOUNT_NS_USER_MAX bytes
 */
bool mount_ns_use_elsewhere(dev_t device, char *ret);

#endif
