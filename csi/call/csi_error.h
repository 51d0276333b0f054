/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the errors of volume.h to the codes a container orchestrator acts on,
 * in one table: those of rpc.h, except where the specification means
 * something else by them.
 */
#ifndef CSI_ERROR_H
#define CSI_ERROR_H

#include "rpc/rpc.h"

/*
 * @method  "CreateVolume"
 * @error   negative errno
 *
 * Never OK. Not final, so that the caller goes on with the same call:
 * ABORTED and UNAVAILABLE.
 */
enum rpc_code csi_code(const char *method, int error);

#endif
