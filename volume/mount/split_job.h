/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One split on its way from an extent to a branch, shared by its files. The
 * first split of a device of several stands for all of them: it has the device.
 */
#ifndef VOLUME_SPLIT_JOB_H
#define VOLUME_SPLIT_JOB_H

#include "volume/op/split.h"

struct split_job {
	struct operation *op;
	struct volume_split *split;
	const struct split_attach *how;
	struct node_record node;
	struct node_client *client;
	struct node_extent extent;
	char own[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE];
	size_t n_own; /* 0 when local */
	bool here;    /* the extent is on this machine */
	bool written; /* by somebody, before this call */
	bool local;   /* its file is used, by a loop device */
	bool direct;  /* its blockd has the device: for direct runs */
	char dir[PATH_MAX];
	struct initiator_device device;
	char branch[PATH_MAX];
	/*
	 * The splits behind this one in its device, only prepared and exported.
	 * Owned; each has no others.
	 */
	struct split_job *others;
	size_t n_others;
	bool joined; /* it is one of several, of one device */
	/*
	 * The device was there before others were, and takes none while it is
	 * attached.
	 */
	bool waits;
};

/* ---- split_device.c ---- */

/* Find the extents, and the addresses of this machine for their servers. */
int split_job_prepare(struct split_job *w, struct error *err);
/* Export the extents at the epoch to this machine, and attach the device. */
int split_job_connect(struct split_job *w, bool read_only, struct error *err);

/* ---- split_format.c ---- */

/* Save the state of the split, and of those of its device, in the record. */
int split_job_save(struct split_job *w, enum split_state state,
		   struct error *err);
/*
 * Format a split that is not formatted, or not to its end, by the record. The
 * record may be old: the device decides. Its own file system is kept.
 */
int split_job_format(struct split_job *w, struct error *err);
/* Check that the device holds the split's own file system: else -EUCLEAN. */
int split_job_verify(struct split_job *w, struct error *err);

#endif
