/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of an attachment that is on this machine: the devices, the
 * mounted branches and the union. It is found again from the records of
 * initiator/, the mount table and the paths below, never from memory.
 *
 *	RUN_DIR/volumes/NAME/branch-INDEX   a branch's file system
 *	RUN_DIR/volumes/NAME/union.log      what its trib-union says
 *	RUN_DIR/volumes/NAME/control        where it takes commands
 *	RUN_DIR/volumes/NAME/mount-point    where the union is, or will be
 *	RUN_DIR/volumes/NAME/mount-options  what was asked of the mount
 *	device id NAME-INDEX                in RUN_DIR/initiator
 */
#ifndef VOLUME_LOCAL_H
#define VOLUME_LOCAL_H

#include "volume/op/context.h"
#include "volume/record/mount_options.h"

#define LOCAL_CONTROL_FILE "control"

/* @ret: PATH_MAX bytes. */
void local_volume_dir(const struct volume_context *ctx, const char *volume,
		      char *ret);
void local_branch_dir(const struct volume_context *ctx, const char *volume,
		      unsigned index, char *ret);

/*
 * Is this extent of this machine used by its file, past its server? One with
 * limits is not: only the server keeps to them. One that is attached stays as
 * it is. @dir: context_initiator_dir(); @id: of its attachment, there.
 */
bool local_goes_by_file(const char *dir, const char *id,
			const struct node_extent *extent);

/* Anything of @volume on this machine: devices, mounts. Negative errno. */
int local_exists(struct volume_context *ctx, const char *volume,
		 struct error *err);

/* -EBUSY with how to remove it, when local_exists(). */
int local_check_none(const struct operation *op, struct error *err);

/* Remember where the union is going to be mounted. */
int local_mount_point_save(const struct volume_context *ctx, const char *volume,
			   const char *mount_point, struct error *err);
/* -ENOENT: none was. @ret: PATH_MAX bytes. */
int local_mount_point_load(const struct volume_context *ctx, const char *volume,
			   char *ret);

/* Remember what was asked of the mount, for when it is repaired. */
int local_options_save(const struct volume_context *ctx, const char *volume,
		       const char *options, struct error *err);
/* "" when none were. @ret: MOUNT_OPTIONS_MAX bytes. */
void local_options_load(const struct volume_context *ctx, const char *volume,
			char *ret);

/*
 * Take down the union of the operation's volume (where local_mount_point_*
 * says), every branch and every device.
 *
 * @lazy  although in use; what is written from then on fails
 *
 * -EBUSY: in use, the text names by whom; what was taken down stays down.
 */
int local_remove(struct operation *op, bool lazy, struct error *err);

#endif
