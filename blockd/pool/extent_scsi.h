/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The LUN and iSCSI target of an exported extent, and the account that logs in.
 */
#ifndef BLOCKD_EXTENT_SCSI_H
#define BLOCKD_EXTENT_SCSI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * bytes with the NUL. Less than the 223 of RFC 7143 4.2.7.1: an epoch, and a
 * tag, come behind.
 */
#define EXTENT_TARGET_SIZE  181
#define EXTENT_LUN_MAX      255
#define EXTENT_ACCOUNT_SIZE 64 /* bytes with the NUL; name_check() */

struct extent_scsi {
	char target[EXTENT_TARGET_SIZE]; /* "": one of its own */
	unsigned lun;                    /* of @target; 0 without one */
	/* A file of the secrets' directory; "": see export_scsi.h */
	char account[EXTENT_ACCOUNT_SIZE];
};

/*
 * As somebody asks for it.
 *
 * @target   NULL or "": the extent's own
 * @account  NULL or "": none is named
 * @ret      set only on success
 *
 * -EINVAL says what is wrong.
 */
int extent_scsi_make(const char *target, uint64_t lun, const char *account,
		     struct extent_scsi *ret, struct error *err);

bool extent_scsi_same(const struct extent_scsi *a, const struct extent_scsi *b);

/*
 * The target's name without epoch, of the extent @name. @buf:
 * EXTENT_TARGET_SIZE bytes; returns it.
 */
const char *extent_scsi_target(const struct extent_scsi *scsi, const char *name,
			       char *buf);

#endif
