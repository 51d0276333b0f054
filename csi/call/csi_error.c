/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/csi_error.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

/* The first row that fits; method NULL: any. */
static const struct {
	const char *method;
	int error;
	enum rpc_code code;
} rows[] = {
	/* NOT_FOUND is for the source; this is a node of the parameters. */
	{"CreateVolume", ENOENT, RPC_INVALID_ARGUMENT},
	/* The volume is being deleted: once that is done the name is free. */
	{"CreateVolume", EBUSY, RPC_ABORTED},
	{"ControllerExpandVolume", EBUSY, RPC_ABORTED},
	/*
	 * FAILED_PRECONDITION is "in use" here: external-resizer (inUseError())
	 * then waits until no pod uses the volume.
	 */
	{"ControllerExpandVolume", ENOENT, RPC_UNAVAILABLE},
	{"ControllerExpandVolume", EOPNOTSUPP, RPC_OUT_OF_RANGE},
	/*
	 * The size is not possible. Kubernetes' resizer takes this code as
	 * final (external-resizer, IsInfeasibleError()), so that the claim may
	 * be lowered again. After RESOURCE_EXHAUSTED it would repeat the call
	 * for ever.
	 */
	{"ControllerExpandVolume", ENOSPC, RPC_OUT_OF_RANGE},
	{"ControllerExpandVolume", E2BIG, RPC_OUT_OF_RANGE},
	{"CreateVolume", EOPNOTSUPP, RPC_INVALID_ARGUMENT},
	/* A member of a group, which cannot be deleted alone. */
	{"DeleteSnapshot", EPERM, RPC_INVALID_ARGUMENT},
	/* The volume is there; a node or an extent of it is not. */
	{"NodeStageVolume", ENOENT, RPC_FAILED_PRECONDITION},
	{"NodePublishVolume", ENOENT, RPC_FAILED_PRECONDITION},
	{"NodeExpandVolume", ENOENT, RPC_FAILED_PRECONDITION},
	/* A file system that a person has to repair first. */
	{"NodeStageVolume", EUCLEAN, RPC_FAILED_PRECONDITION},
	{"NodePublishVolume", EUCLEAN, RPC_FAILED_PRECONDITION},
	/* The target path, which is the caller's. */
	{"NodePublishVolume", ENOTEMPTY, RPC_FAILED_PRECONDITION},
	{"NodePublishVolume", ENOTDIR, RPC_FAILED_PRECONDITION},
	/* A mounted file system cannot grow for this process. */
	{"NodeExpandVolume", EPERM, RPC_FAILED_PRECONDITION},
	/*
	 * The record keeps what was begun: the same call goes on with it.
	 * DEADLINE_EXCEEDED and CANCELLED would be the client's own.
	 */
	{NULL, ETIMEDOUT, RPC_UNAVAILABLE},
	{NULL, ECANCELED, RPC_ABORTED},
	/* Somebody else changed the record meanwhile. */
	{NULL, ESTALE, RPC_ABORTED},
	/* The node has as many volumes as it takes. */
	{"ControllerPublishVolume", EDQUOT, RPC_RESOURCE_EXHAUSTED},
	/* So many nodes have it already (VOLUME_ATTACHMENTS_MAX). */
	{"ControllerPublishVolume", E2BIG, RPC_RESOURCE_EXHAUSTED},
	{NULL, E2BIG, RPC_INVALID_ARGUMENT},
	{NULL, ENAMETOOLONG, RPC_INVALID_ARGUMENT},
	/* Ours, not the caller's, whose permissions are not in question. */
	{NULL, EPERM, RPC_INTERNAL},
	{NULL, EACCES, RPC_INTERNAL},
	/* UNIMPLEMENTED means that the RPC is not there. */
	{NULL, EOPNOTSUPP, RPC_FAILED_PRECONDITION},
};

enum rpc_code csi_code(const char *method, int error)
{
	for (size_t i = 0; i < array_size(rows); i++)
		if (rows[i].error == -error &&
		    (!rows[i].method || strcmp(rows[i].method, method) == 0))
			return rows[i].code;
	if (error >= 0)
		return RPC_INTERNAL;
	return rpc_code_from_errno(-error);
}
