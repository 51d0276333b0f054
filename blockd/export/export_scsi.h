/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An extent as iSCSI initiators see it: a disk at LUN 0 of a target of its own,
 * named after the extent (target/target.h). Its export may name another target
 * and LUN instead.
 *
 * Secrets for CHAP are files of a directory (docs/iscsi.md). The export names
 * its file (its account). Without that name, an extent with a target of its own
 * has the file named like the extent; else "default". Without a file there is
 * no CHAP. Reservations that are to survive loss of power are in another
 * directory, a file for each extent, named by its id.
 */
#ifndef BLOCKD_EXPORT_SCSI_H
#define BLOCKD_EXPORT_SCSI_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "blockd/extent/extent.h"
#include "target/iscsi/iscsi_chap.h"
#include "target/target.h"

/* With NUL: 16 digits. */
#define EXPORT_SCSI_TAG_SIZE 17
/* With NUL: "PREFIX:NAME:EPOCH:TAG". */
#define EXPORT_SCSI_NAME_SIZE                                          \
	(sizeof(TARGET_ISCSI_PREFIX) + EXTENT_NAME_SIZE + 1 + 20 + 1 + \
	 EXPORT_SCSI_TAG_SIZE)

struct export_scsi_options {
	const char *state_dir;   /* made if missing; borrowed */
	const char *secrets_dir; /* NULL: no CHAP; borrowed */
	bool direct_io;
	unsigned low_space; /* percent of a pool; 0: nobody is told */
};

struct export_scsi {
	struct target_scsi scsi; /* points into what follows */
	struct chap_secrets secrets;
	char state_path[PATH_MAX];
	char tag[EXPORT_SCSI_TAG_SIZE];
};

/* Could the extent @name be that, by its secrets? Before it is promised. */
int export_scsi_check(const struct export_scsi_options *options,
		      const char *name, const struct extent_scsi *asked,
		      struct error *err);

/*
 * What initiators log in to that are not to go on with another incarnation
 * (exports_incarnation()): @ret has EXPORT_SCSI_NAME_SIZE bytes.
 */
void export_scsi_name(const struct extent_record *record,
		      const char *incarnation, char *ret);

/*
 * @block_size   that was asked for; 0: none was
 * @incarnation  borrowed for the call
 * @ret  to be wiped with export_scsi_done(), also after a failure
 *
 * An extent whose secrets are there and can't be read is an error: it is
 * never served without them.
 */
int export_scsi_make(const struct export_scsi_options *options,
		     const struct extent *extent, uint64_t block_size,
		     const char *incarnation, struct export_scsi *ret,
		     struct error *err);
void export_scsi_done(struct export_scsi *scsi);

/* The extent is deleted: nothing of it stays. */
void export_scsi_forget(const struct export_scsi_options *options,
			const struct extent *extent);

#endif
