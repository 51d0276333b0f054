/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of mount(8) for every file system, as a union's mount takes them.
 * Each is done, or refused with advice; none is taken and ignored.
 */
#ifndef UNION_MOUNT_WORDS_H
#define UNION_MOUNT_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000 /* linux/mount.h, 5.14 */
#endif

/* Flags of the file system, which hold in all its mounts. */
#define MOUNT_FS_RO      1u
#define MOUNT_FS_SYNC    2u
#define MOUNT_FS_DIRSYNC 4u

struct mount_words {
	/*
	 * MOUNT_ATTR_*: flags that are said, and those of them to be set. An
	 * access time (MOUNT_ATTR__ATIME) is one of several.
	 */
	uint64_t said, set;
	unsigned fs_said, fs_set; /* MOUNT_FS_*, the same */
	bool remount, bind, silent;
};

/*
 * Take @word. 0; -ENOENT without an error: no such option is known here;
 * -EINVAL: a union cannot have this option.
 *
 * @ret_libfuse  NULL, or whether any libfuse takes it for the mount
 */
int mount_words_take(struct mount_words *words, const char *word,
		     bool *ret_libfuse, struct error *err);

/*
 * Complete @words for a mount that has @now: an option that is not said ends,
 * as in mount(8). Only options that change something are added.
 */
void mount_words_complete(struct mount_words *words,
			  const struct mount_words *now);

/*
 * Parse the options of a mount in /proc/self/mountinfo, and nothing else. An
 * option that is absent there is said to be off.
 */
void mount_words_of_mount(const char *options, struct mount_words *ret);

/* Do the same for its file system: fs_said, fs_set. */
void mount_words_of_fs(const char *options, struct mount_words *ret);

#endif
