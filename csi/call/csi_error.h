/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codes of CSI for the errors of volume.h, in one table. They are those of
 * rpc.h, except where the specification gives them another meaning.
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
