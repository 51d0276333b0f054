/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/cleanup.h"
#include "rpc/rpc.h"

static const char *const names[] = {
	[RPC_OK] = "OK",
	[RPC_CANCELLED] = "CANCELLED",
	[RPC_UNKNOWN] = "UNKNOWN",
	[RPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
	[RPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
	[RPC_NOT_FOUND] = "NOT_FOUND",
	[RPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
	[RPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
	[RPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
	[RPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
	[RPC_ABORTED] = "ABORTED",
	[RPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
	[RPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
	[RPC_INTERNAL] = "INTERNAL",
	[RPC_UNAVAILABLE] = "UNAVAILABLE",
	[RPC_DATA_LOSS] = "DATA_LOSS",
	[RPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

/* Used both ways: the first row that fits. */
static const struct {
	int error;
	enum rpc_code code;
} rows[] = {
	{0, RPC_OK},
	{EINVAL, RPC_INVALID_ARGUMENT},
	{ENOENT, RPC_NOT_FOUND},
	{EEXIST, RPC_ALREADY_EXISTS},
	{ENOSPC, RPC_RESOURCE_EXHAUSTED},
	{EBUSY, RPC_FAILED_PRECONDITION},
	{ESTALE, RPC_FAILED_PRECONDITION},
	{EAGAIN, RPC_ABORTED},
	{ERANGE, RPC_OUT_OF_RANGE},
	{EPERM, RPC_PERMISSION_DENIED},
	{EACCES, RPC_PERMISSION_DENIED},
	{EACCES, RPC_UNAUTHENTICATED},
	{EOPNOTSUPP, RPC_UNIMPLEMENTED},
	{ETIMEDOUT, RPC_DEADLINE_EXCEEDED},
	{ECANCELED, RPC_CANCELLED},
	{EHOSTUNREACH, RPC_UNAVAILABLE},
};

const char *rpc_code_name(enum rpc_code code)
{
	return (unsigned)code < array_size(names) ? names[code] : "UNKNOWN";
}

enum rpc_code rpc_code_from_errno(int error)
{
	for (size_t i = 0; i < array_size(rows); i++)
		if (rows[i].error == error)
			return rows[i].code;
	return RPC_INTERNAL;
}

int rpc_code_to_errno(enum rpc_code code)
{
	for (size_t i = 0; i < array_size(rows); i++)
		if (rows[i].code == code)
			return rows[i].error;
	return EIO;
}
