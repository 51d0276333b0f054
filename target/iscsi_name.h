/* SPDX-License-Identifier: Apache-2.0 */
/* What initiators log in to is called. */
#ifndef TARGET_ISCSI_NAME_H
#define TARGET_ISCSI_NAME_H

#include <stddef.h>

#include "base/error.h"
#include "target/iscsi_text.h"
#include "target/target.h"

/*
 * "NAME", or "NAME:EPOCH" when the export has an epoch.
 *
 * @spec             has a @scsi
 * @ret_base_length  bytes in front of ":EPOCH"
 *
 * -EINVAL: no iSCSI name, or one that ends like an epoch: it would be another
 * export's.
 */
int iscsi_target_name(const struct target_export *spec,
		      char ret[static ISCSI_NAME_MAX + 1],
		      size_t *ret_base_length, struct error *err);

/* The name in @scsi->name by itself: the same check. */
int iscsi_target_name_check(const char *name, struct error *err);

#endif
