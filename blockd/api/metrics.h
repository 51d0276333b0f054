/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics of blockd, in Prometheus's text format: pools and exports. */
#ifndef BLOCKD_METRICS_H
#define BLOCKD_METRICS_H

#include "base/error.h"
#include "blockd/api/service.h"
#include "rpc/http.h"

/*
 * Serve it at @address (rpc/http.h) until http_stop().
 *
 * @service  borrowed until then
 */
int metrics_start(const char *address, struct service *service,
		  struct http **ret, struct error *err);

#endif
