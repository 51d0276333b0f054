/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file system of one split: probe, make, mount, grow. The flow decides from
 * the record whether to format a device. This file decides whether that is
 * safe: content that libblkid knows is never overwritten.
 */
#ifndef VOLUME_BRANCH_FS_H
#define VOLUME_BRANCH_FS_H

#include <stdbool.h>

#include "base/error.h"
#include "base/uuid_name.h"
#include "volume/record/mount_options.h"

/*
 * The directory in each branch file system that is the branch's root in the
 * union, so that lost+found is not seen there.
 */
#define BRANCH_DATA_DIR "data"

struct branch_probe {
	bool found;    /* anything libblkid knows */
	char type[32]; /* "ext4", "crypto_LUKS", "dos partition table" */
	char uuid[UUID_TEXT_SIZE];
};

/* -EUCLEAN: several signatures that contradict each other. */
int branch_fs_probe(const char *device, struct branch_probe *ret,
		    struct error *err);

/*
 * Make a file system of that type and UUID on @device, which holds nothing that
 * libblkid knows (a file system, a partition table, LUKS, ...).
 *
 * @zeroed     the device reads as zeroes, so zeroes need not be written
 * @cancel_fd  base/process.h
 *
 * An existing file system of that type and UUID is checked, and left. A file
 * system that never held data is made again: mkfs was cut short and left
 * something useless. XFS: the file system can't be mounted. ext4: the file
 * system can't be repaired and never was mounted.
 *
 * -EUCLEAN: the device holds something else, or a damaged file system; the text
 * says what to do, and nothing was changed.
 */
int branch_fs_make(const char *device, const char *type, const char *uuid,
		   bool zeroed, int cancel_fd, struct error *err);

/*
 * Mount @device at the directory @target, which is made if missing.
 *
 * @options  NULL: none
 *
 * -EROFS: @read_only, and the device too, and its journal has to be replayed.
 */
int branch_fs_mount(const char *device, const char *type, const char *target,
		    bool read_only, const struct mount_options *options,
		    struct error *err);

/*
 * Tell whether this process may make a mounted file system of that type larger.
 * For ext4 it needs CAP_SYS_RESOURCE, which root in a container may lack.
 */
bool branch_fs_grows_mounted(const char *type);

/*
 * Make the file system of @device as large as the device. As large already:
 * 0.
 *
 * @target  where the file system is mounted for writing, its users go on
 *          meanwhile. NULL: an ext4 that is not mounted and was just checked
 *          whole, on which resize2fs(8) insists. @cancel_fd does not stop it
 */
int branch_fs_grow(const char *device, const char *type, const char *target,
		   int cancel_fd, struct error *err);

/* Make BRANCH_DATA_DIR below the mounted @target, durable when it returns. */
int branch_fs_make_data(const char *target, struct error *err);

#endif
