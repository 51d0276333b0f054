/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CSI services on one socket: the methods of each mode, and the frame of
 * each call. The request is checked, the call is logged, an error of volume.h
 * becomes a code.
 */
#ifndef CSI_SERVICE_H
#define CSI_SERVICE_H

#include <stddef.h>

#include "csi/call/call.h"

int csi_init(struct csi *csi, enum csi_mode mode,
	     const struct volume_config *config, struct error *err);
/* After the server has stopped; also after a failed csi_init(). */
void csi_done(struct csi *csi);

/* For rpc_server_options; borrowed for ever. */
const struct rpc_method *csi_methods(enum csi_mode mode, size_t *ret_count);

/* identity.c */
int csi_get_plugin_info(struct csi_call *c, const void *in, void *out);
int csi_get_plugin_capabilities(struct csi_call *c, const void *in, void *out);
int csi_probe(struct csi_call *c, const void *in, void *out);

#endif
