/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/csi_pages.h"

#include "base/cleanup.h"

#define OK          200
#define UNAVAILABLE 503
#define PLAIN       "text/plain; charset=utf-8"

static unsigned write_metrics(void *csi_, FILE *out)
{
	struct csi *csi = csi_;

	csi_metrics_write(&csi->metrics, csi_mode_name(csi->mode), out);
	return OK;
}

/* Write the page: that it is written is the answer. */
static unsigned write_health(void *csi, FILE *out)
{
	(void)csi;
	(void)fputs("ok\n", out);
	return OK;
}

static unsigned write_ready(void *csi, FILE *out)
{
	struct error err = {0};

	if (csi_check_store(csi, &err) == 0)
		return write_health(csi, out);
	(void)fprintf(out, "the records of volumes cannot be read: %s\n",
		      error_text(&err));
	return UNAVAILABLE;
}

int csi_pages_start(struct csi *csi, const char *address, struct http **ret,
		    struct error *err)
{
	static const struct http_page pages[] = {
		{"/metrics", CSI_METRICS_TYPE, write_metrics},
		{"/healthz", PLAIN, write_health},
		{"/readyz", PLAIN, write_ready},
	};

	return http_start(address, pages, array_size(pages), csi, ret, err);
}
