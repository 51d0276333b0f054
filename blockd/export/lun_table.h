/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of LUNs: which exported extent is which LUN of which iSCSI target.
 * With it two extents never have one LUN, also while one of them is being
 * changed. And the LUNs of a target agree on the initiators that may log in.
 * Epochs do not count: one LUN of a name is one extent's. For all threads.
 */
#ifndef BLOCKD_LUN_TABLE_H
#define BLOCKD_LUN_TABLE_H

#include "base/error.h"
#include "blockd/pool/extent_record.h"

struct lun_table;

struct lun_table *lun_table_new(void);
void lun_table_free(struct lun_table *claims); /* NULL is fine */

/*
 * Give @extent the LUN of @scsi, beside the one that it has, until
 * lun_table_settle(). Again: 0.
 *
 * -EEXIST another extent has it, which is named; -EINVAL: another LUN of that
 * target has another account, which is named; -ENOMEM.
 */
int lun_table_take(struct lun_table *claims, const char *extent,
		   const struct extent_scsi *scsi, struct error *err);

/* Take away all LUNs of @extent but @scsi (NULL: all). */
void lun_table_settle(struct lun_table *claims, const char *extent,
		      const struct extent_scsi *scsi);

#endif
