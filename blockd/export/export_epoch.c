/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/export/export_epoch.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

bool export_grant_is_of(const struct extent_export *export,
			const char *const *grants, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(export->grant, grants[i]) == 0)
			return true;
	}
	return !export->grant[0];
}

int export_epoch_check(const struct extent *extent,
		       const struct exports_request *request, struct error *err)
{
	const struct extent_export *now = &extent->record.export;
	const char *name = extent->record.name;

	if (!now->exists)
		return 0;
	if (request->epoch < now->epoch)
		return error_set(err, ESTALE,
				 "extent '%s' is at epoch %" PRIu64
				 ", epoch %" PRIu64 " is over",
				 name, now->epoch, request->epoch);
	if (request->epoch == now->epoch &&
	    strcmp(request->grant, now->grant) != 0)
		return error_set(err, ESTALE,
				 "epoch %" PRIu64
				 " of extent '%s' was granted to another "
				 "attachment",
				 now->epoch, name);
	if (request->epoch > now->epoch && now->active &&
	    now->n_initiators > 0 &&
	    !export_grant_is_of(now, request->over, request->n_over))
		return error_set(err, ESTALE,
				 "extent '%s' is served at epoch %" PRIu64
				 " to an attachment that the claim to epoch "
				 "%" PRIu64 " does not name",
				 name, now->epoch, request->epoch);
	return 0;
}
