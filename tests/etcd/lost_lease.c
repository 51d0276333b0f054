/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lost_lease LOCATION: take the lease on volume "lost" and make its record; say
 * "held". After a line of input, when somebody has removed the lease, no write
 * of the record may succeed, and the lease is noticed to be lost.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/op/store_open.h"
#include "volume/store/lease_table.h"

#define KIND RECORD_KIND_VOLUME
#define NAME "lost"

static void must(const char *what, int r, int want, const struct error *err)
{
	if (r == want)
		return;
	(void)fprintf(stderr, "%s: %d, not %d: %s\n", what, r, want,
		      error_text(err));
	exit(1);
}

int main(int argc, char **argv)
{
	char version[RECORD_VERSION_SIZE], line[16];
	struct error err = {0};
	struct store *store = NULL;
	const struct store_ops *ops;
	int r;

	if (argc != 2)
		return 2;
	must("open", store_open(argv[1], &store, &err), 0, &err);
	ops = store->ops;
	must("lease", ops->lease(store, KIND, NAME, "testing", &err), 0, &err);
	must("create", ops->create(store, KIND, NAME, "{}", version, &err), 0,
	     &err);
	must("swap",
	     ops->compare_and_swap(store, KIND, NAME, version, "{\"a\":1}",
				   version, &err),
	     0, &err);
	(void)puts("held");
	(void)fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	r = ops->compare_and_swap(store, KIND, NAME, version, "{}", NULL, &err);
	must("swap without the lease", r, -ESTALE, &err);
	must("remove without the lease",
	     ops->remove(store, KIND, NAME, version, &err), -ESTALE, &err);
	for (int s = 0; ops->holds(store, KIND, NAME, NULL) == 0; s++) {
		must("still held", s > 2 * LEASE_S, 0, NULL);
		(void)poll(NULL, 0, 1000);
	}
	ops->release(store, KIND, NAME);
	must("remove", ops->remove(store, KIND, NAME, version, &err), 0, &err);
	store_close(store);
	return 0;
}
