/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver shows by HTTP: /metrics; /healthz, 200 while the process
 * serves; /readyz, 503 with the reason while the records cannot be read.
 */
#ifndef CSI_PAGES_H
#define CSI_PAGES_H

#include "csi/call/call.h"
#include "rpc/http.h"

/* http_start(); @csi is borrowed until http_stop(). */
int csi_pages_start(struct csi *csi, const char *address, struct http **ret,
		    struct error *err);

#endif
