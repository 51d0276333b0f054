/* SPDX-License-Identifier: Apache-2.0 */
/* The state of volume_attach(), shared by its two files. */
#ifndef VOLUME_ATTACH_H
#define VOLUME_ATTACH_H

#include "volume/op/context.h"
#include "volume/record/mount_options.h"

struct attach {
	struct operation op;
	const struct volume_attach_request *request;
	char mount_point[PATH_MAX]; /* "" of a device alone */
	uint64_t epoch;
	size_t n_splits; /* the first ones of the record */
	bool device;     /* its splits are one */
	bool tree;       /* mounted at mount_point; else only a device */
	bool read_only;
	bool shared;             /* one of several readers */
	bool joins;              /* and others read already */
	bool fresh;              /* not attached here before this call */
	const char *option_text; /* as asked for, or kept; borrowed */
	struct mount_options options;
	char kept_options[MOUNT_OPTIONS_MAX];
};

/*
 * Reserve the volume for this node. Check that the volume may be attached here
 * as asked, then record this node at an epoch that keeps others away. A working
 * attachment here is left. A broken one is prepared for being completed.
 *
 * @op  of a struct attach
 *
 * Returns 0, 1 (the attachment works already) or a negative errno.
 */
int attach_reserve(struct operation *op, struct error *err);

/*
 * Make a split's file system on @device, mounted at @branch, as large as the
 * device, and save that. @branch NULL: as branch_fs_grow() has it.
 */
int split_grow_fs(struct operation *op, struct volume_split *split,
		  const char *device, const char *branch, struct error *err);

#endif
