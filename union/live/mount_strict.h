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

#include "union/config/mount_words.h"
#include "union/view/unionfs.h"

/*
 * Note which of the flags the union's options, as options.h has them in
 * mount_flags (may be NULL), say themselves. Before the others.
 */
void mount_strict_begin(const char *mount_flags);

/* ",nosuid,noexec" or "": what @fs is to be mounted with. @ret: 32 bytes. */
void mount_strict_options(struct unionfs *fs, char *ret);

/*
 * Of @which (MOUNT_ATTR_*, access times among them) they say @said now; and all
 * that they say.
 */
void mount_strict_say(uint64_t which, uint64_t said);
uint64_t mount_strict_said(void);

/*
 * Once it is mounted: follow the branches, and the union's own mount.
 *
 * @fresh  by this server
 *
 * 0, or -errno with @err.
 */
int mount_strict_start(struct unionfs *fs, bool fresh, struct error *err);

/* Look at once, without fs->live: see remounted_follow(). */
int mount_strict_follow(struct unionfs *fs, struct error *err);

/* What the union's mount at @mountpoint has; false: it is not seen there. */
bool mount_strict_own(const char *mountpoint, struct mount_words *ret);

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

/* Which of @attributes it has, in the same way. */
void mount_strict_kept(const char *mountpoint, uint64_t attributes, char *ret);

#endif
