/* SPDX-License-Identifier: Apache-2.0 */
/* Names of targets that initiators log in to. */
#ifndef TARGET_ISCSI_NAME_H
#define TARGET_ISCSI_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "target/target.h"

#define ISCSI_NAME_MAX 223 /* bytes; RFC 7143 4.2.7.1 */

/*
 * "NAME", or "NAME:EPOCH" when the export has an epoch.
 *
 * @spec             has a @scsi
 * @ret_base_length  bytes in front of ":EPOCH"
 *
 * -EINVAL: no iSCSI name, or one that ends like an epoch: it would be another
 * export's.
 */
int iscsi_name_of_export(const struct target_export *spec,
			 char ret[static ISCSI_NAME_MAX + 1],
			 size_t *ret_base_length, struct error *err);

/* The name in @scsi->name by itself: the same check. */
int iscsi_name_check_target(const char *name, struct error *err);

/*
 * Tell whether @name may be an iSCSI name (RFC 7143 4.2.7). A name is up to
 * ISCSI_NAME_MAX bytes of letters, digits, '-', '.', ':' and characters outside
 * ASCII. Nothing else is checked: a prefix (iqn., eui., naa.) is not asked for.
 */
bool iscsi_name_ok(const char *name);

#endif
