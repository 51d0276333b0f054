/* SPDX-License-Identifier: Apache-2.0 */
/* Whose an epoch of an export is, and which may follow it. */
#ifndef BLOCKD_EXPORT_EPOCH_H
#define BLOCKD_EXPORT_EPOCH_H

#include "blockd/export/exports.h"

/* Tell whether the export was granted to one of them, or to nobody. */
bool export_grant_is_of(const struct extent_export *export,
			const char *const *grants, size_t n);

/*
 * Refuse an epoch that is over, of another attachment, or that would end an
 * attachment which the request does not name: -ESTALE.
 */
int export_epoch_check(const struct extent *extent,
		       const struct exports_request *request,
		       struct error *err);

#endif
