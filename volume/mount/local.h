/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of an attachment that is on this machine: devices, mounted branches,
 * the union. Found anew from the records of initiator/, the mount table and the
 * paths below, never from memory.
 *
 *	RUN_DIR/volumes/NAME/branch-NUMBER  a branch's file system
 *	RUN_DIR/volumes/NAME/union.log      the log of its trib-union
 *	RUN_DIR/volumes/NAME/control        control socket of the union
 *	RUN_DIR/volumes/NAME/mount-point    where the volume is, or will be
 *	RUN_DIR/volumes/NAME/mount-options  options given for the mount
 *	RUN_DIR/volumes/NAME/device         a link to the device of one that has
 *	                                    a file system (local_fs.h)
 *	device id NAME-INDEX                in RUN_DIR/initiator
 */
#ifndef VOLUME_LOCAL_H
#define VOLUME_LOCAL_H

#include "volume/op/context.h"
#include "volume/record/mount_options.h"

#define LOCAL_CONTROL_FILE "control"

struct initiator_device;
struct mount_info;

/* @ret: PATH_MAX bytes. */
void local_volume_dir(const struct volume_context *ctx, const char *volume,
		      char *ret);
void local_device_link(const struct volume_context *ctx, const char *volume,
		       char *ret);
void local_branch_dir(const struct volume_context *ctx, const char *volume,
		      unsigned number, char *ret);
/*
 * The NUMBER of a split's branch: its index, or of a union the number in the
 * name of its extent. So a split and its successor have two.
 */
unsigned local_branch_number(const struct volume_record *record,
			     const struct volume_split *split);

/*
 * Tell whether an extent of this machine is used by its file, past its server.
 * An extent with limits is not: only the server keeps them. An attached one
 * stays as it is.
 *
 * @attached  its device; NULL: it has none, or a dead one
 */
bool local_goes_by_file(const struct initiator_device *attached,
			const struct node_extent *extent);

/* Tell whether a mount has the device link of @volume as its source. */
bool local_is_of_device(const struct volume_context *ctx, const char *volume,
			const struct mount_info *info);

/*
 * Tell whether @volume has devices or mounts on this machine. Negative errno.
 */
int local_exists(struct volume_context *ctx, const char *volume,
		 struct error *err);

/* -EBUSY with how to remove it, when local_exists(). */
int local_check_none(const struct operation *op, struct error *err);

/*
 * Unmount the branch of one split, which no union has any more, and detach its
 * device. -EBUSY: in use; what is taken down stays down.
 */
int local_split_remove(struct operation *op, const struct volume_split *split,
		       struct error *err);

/* Remember where the volume is going to be mounted. */
int local_mount_point_save(const struct volume_context *ctx, const char *volume,
			   const char *mount_point, struct error *err);
/* Remember the mount's options, for when it is repaired. */
int local_options_save(const struct volume_context *ctx, const char *volume,
		       const char *options, struct error *err);
/* "" when none were. @ret: MOUNT_OPTIONS_MAX bytes. */
void local_options_load(const struct volume_context *ctx, const char *volume,
			char *ret);

/*
 * -EBUSY: a program of another mount namespace uses the tree at @mount_point;
 * "": there is none.
 */
int local_check_elsewhere(const struct operation *op, const char *mount_point,
			  struct error *err);

/*
 * Unmount the tree of the operation's volume (at local_mount_point_*), every
 * branch, and detach every device.
 *
 * @lazy  also while in use; later writes fail. Where there is device mapper,
 *        users of a device are cut off, in other mount namespaces, too
 *
 * -EBUSY: in use, the text names the users; parts taken down stay down.
 */
int local_remove(struct operation *op, bool lazy, struct error *err);

#endif
