/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/branch_failed.h"

#include <errno.h>

atomic_ullong branch_failed_set[BRANCH_MAX / 64];
atomic_uint branch_doubted;

bool branch_is_failure(int r)
{
	switch (r) {
	case -EIO:
	case -ESHUTDOWN:
	case -EUCLEAN:
	case -EBADMSG: /* a checksum, of ext4 and XFS */
	case -ENODEV:
	case -ENXIO:
	case -ETIMEDOUT: return true;
	default: return false;
	}
}
