/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of the driver by HTTP: /metrics, /healthz and /readyz. The status of
 * /healthz is 200 while the process serves. The status of /readyz is 503 with
 * the reason while the records cannot be read.
 */
#ifndef CSI_PAGES_H
#define CSI_PAGES_H

#include "csi/call/call.h"
#include "rpc/http.h"

/* http_start(); @csi is borrowed until http_stop(). */
int csi_pages_start(struct csi *csi, const char *address, struct http **ret,
		    struct error *err);

#endif
