/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/extent_scsi.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/uuid_name.h"
#include "target/export/iscsi_name.h"

static int target_check(const char *target, struct error *err)
{
	if (strlen(target) >= EXTENT_TARGET_SIZE)
		return error_set(err, EINVAL,
				 "a target's name has at most %d bytes",
				 EXTENT_TARGET_SIZE - 1);
	return iscsi_name_check_target(target, err);
}

int extent_scsi_make(const char *target, uint64_t lun, const char *account,
		     struct extent_scsi *ret, struct error *err)
{
	bool named = target && target[0];
	int r = named ? target_check(target, err) : 0;

	if (r == 0 && account && account[0])
		r = name_check("account", account, err);
	if (r < 0)
		return r;
	if (lun > EXTENT_LUN_MAX)
		return error_set(err, EINVAL,
				 "LUN %" PRIu64 " is none: 0 to %d", lun,
				 EXTENT_LUN_MAX);
	if (lun && !named)
		return error_set(err, EINVAL,
				 "LUN %" PRIu64 " of which target? A target of "
				 "its own has LUN 0",
				 lun);
	*ret = (struct extent_scsi){.lun = (unsigned)lun};
	(void)snprintf(ret->target, sizeof(ret->target), "%s",
		       named ? target : "");
	(void)snprintf(ret->account, sizeof(ret->account), "%s",
		       account ? account : "");
	return 0;
}

bool extent_scsi_same(const struct extent_scsi *a, const struct extent_scsi *b)
{
	return strcmp(a->target, b->target) == 0 && a->lun == b->lun &&
	       strcmp(a->account, b->account) == 0;
}

const char *extent_scsi_target(const struct extent_scsi *scsi, const char *name,
			       char *buf)
{
	if (scsi->target[0])
		memcpy(buf, scsi->target, sizeof(scsi->target));
	else
		(void)snprintf(buf, EXTENT_TARGET_SIZE, "%s:%s",
			       TARGET_ISCSI_PREFIX, name);
	return buf;
}
