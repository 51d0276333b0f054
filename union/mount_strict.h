/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A union is as strict as its branches: where the mount of one of them has
 * nosuid, nodev or noexec (mount(8)), so has the union's, unless its options
 * say which they want. Files of a branch would else have rights by the union
 * that they do not have on the branch. A thread follows what becomes of the
 * branches' mounts, as the kernel's table of mounts says: no file system is
 * asked, so none holds it up.
 *
 * The mount at the union's mount point is changed. Copies of it, bind mounts
 * and those of other mount namespaces, keep what they had when they were made.
 */
#ifndef UNION_MOUNT_STRICT_H
#define UNION_MOUNT_STRICT_H

#include "union/unionfs.h"

/*
 * Note which of the flags the union's options, as options.h has them in
 * mount_flags (may be NULL), say themselves. Before the others.
 */
void mount_strict_begin(const char *mount_flags);

/* ",nosuid,noexec" or "": what @fs is to be mounted with. @ret: 32 bytes. */
void mount_strict_options(struct unionfs *fs, char *ret);

/* Once it is mounted: follow the branches. 0 or -errno. */
int mount_strict_start(struct unionfs *fs);

/*
 * The branches have changed, or are about to.
 *
 * @joining  not counted yet; NULL: none
 *
 * 0; -errno: the union could not become as strict as they are.
 */
int mount_strict_look(struct unionfs *fs, const struct branch *joining);

void mount_strict_stop(void);

/*
 * What the union at @mountpoint, just mounted with @mount_flags, has of its
 * branches: ",nosuid" or "". @ret: 32 bytes. Of any process.
 */
void mount_strict_of(const char *mountpoint, const char *mount_flags,
		     char *ret);

#endif
