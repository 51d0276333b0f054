/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A union is as strict as its branches. Where the mount of one branch has
 * nosuid, nodev or noexec (mount(8)), so has the union's, unless the union's
 * options say which they want. Files of a branch would else have rights by the
 * union that they do not have on the branch.
 *
 * The branches' mounts are looked up in the kernel's table of mounts. No file
 * system is asked, so none holds the caller up. remounted.h follows the table.
 *
 * The mount at the union's mount point is changed. Copies of it, bind mounts
 * and those of other mount namespaces, keep what they had when they were made.
 */
#ifndef UNION_MOUNT_STRICT_H
#define UNION_MOUNT_STRICT_H

#include "union/config/mount_words.h"
#include "union/view/unionfs.h"

#define MOUNT_STRICT_TABLE "/proc/self/mountinfo" /* proc(5) */

/*
 * Note which of the flags the union's options say themselves. Called before the
 * other functions. @mount_flags as options.h has them; may be NULL.
 */
void mount_strict_begin(const char *mount_flags);

/*
 * Tell what @fs is to be mounted with: ",nosuid,noexec" or "". @ret: 32 bytes.
 */
void mount_strict_options(struct unionfs *fs, char *ret);

/*
 * Change what the options say. Of the attributes @which (MOUNT_ATTR_*, access
 * times among them) they say @said from now on. The second returns all that
 * they say.
 */
void mount_strict_say(uint64_t which, uint64_t said);
uint64_t mount_strict_said(void);

/*
 * Tell what the union's mount at @mountpoint has; false: it is not seen there.
 */
bool mount_strict_own(const char *mountpoint, struct mount_words *ret);

/*
 * Look at the mounts of the branches, which have changed or are about to.
 *
 * @joining  a branch that is not counted yet; NULL: none
 *
 * 0; -errno: the union could not become as strict as they are.
 */
int mount_strict_look(struct unionfs *fs, const struct branch *joining);

/*
 * Tell what the union at @mountpoint, just mounted with @mount_flags, has of
 * its branches: ",nosuid" or "". @ret: 32 bytes. For any process.
 */
void mount_strict_of(const char *mountpoint, const char *mount_flags,
		     char *ret);

/* Tell in the same way which of @attributes the union has. */
void mount_strict_kept(const char *mountpoint, uint64_t attributes, char *ret);

#endif
