/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of mount(8) for every file system: what they ask of a union's mount.
 * Each is done, or refused with what to do instead; none is taken and ignored.
 */
#ifndef UNION_MOUNT_WORDS_H
#define UNION_MOUNT_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000 /* linux/mount.h, 5.14 */
#endif

/* Of the file system, by whatever mount it is seen. */
#define MOUNT_FS_RO      1u
#define MOUNT_FS_SYNC    2u
#define MOUNT_FS_DIRSYNC 4u

struct mount_words {
	/* MOUNT_ATTR_*: which are said, and which of those are to be set. An
	 * access time (MOUNT_ATTR__ATIME) is one of several. */
	uint64_t said, set;
	unsigned fs_said, fs_set; /* MOUNT_FS_*, the same */
	bool remount, bind, silent;
};

/*
 * Take @word. 0; -ENOENT without an error: it is no such option; -EINVAL: it
 * is none that a union can have.
 *
 * @ret_libfuse  NULL, or whether any libfuse takes it for the mount
 */
int mount_words_take(struct mount_words *words, const char *word,
		     bool *ret_libfuse, struct error *err);

/*
 * They are all there are to be on a mount that has @now: what is not said ends,
 * as mount(8) has it. Each only as far as it changes something.
 */
void mount_words_complete(struct mount_words *words,
			  const struct mount_words *now);

/* The same of all that /proc/self/mountinfo has for a mount, and nothing else.
 * Unlike there, what is not said is said not to be so. */
void mount_words_of_mount(const char *options, struct mount_words *ret);

/* And of its file system: fs_said, fs_set. */
void mount_words_of_fs(const char *options, struct mount_words *ret);

#endif
