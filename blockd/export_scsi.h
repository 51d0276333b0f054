/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an extent is to iSCSI initiators: a disk at LUN 0 of a target of its
 * own, named after it (target/target.h).
 *
 * Secrets for CHAP are files of a directory: NAME for the extent of that
 * name, else "default", else there is no CHAP (docs/iscsi.md). Reservations
 * that are to survive loss of power are in another, a file for each extent,
 * named by its id.
 */
#ifndef BLOCKD_EXPORT_SCSI_H
#define BLOCKD_EXPORT_SCSI_H

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"
#include "blockd/extent.h"
#include "target/iscsi_chap.h"
#include "target/target.h"

struct export_scsi_options {
	const char *state_dir;   /* made if missing; borrowed */
	const char *secrets_dir; /* NULL: no CHAP; borrowed */
	bool direct_io;
};

struct export_scsi {
	struct target_scsi scsi; /* points into what follows */
	struct iscsi_chap_secrets secrets;
	char state_path[PATH_MAX];
};

/*
 * @ret  to be wiped with export_scsi_done(), also after a failure
 *
 * An extent whose secrets are there and can't be read is an error: it is
 * never served without them.
 */
int export_scsi_make(const struct export_scsi_options *options,
		     const struct extent *extent, struct export_scsi *ret,
		     struct error *err);
void export_scsi_done(struct export_scsi *scsi);

/* The extent is deleted: nothing of it stays. */
void export_scsi_forget(const struct export_scsi_options *options,
			const struct extent *extent);

#endif
