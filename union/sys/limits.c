/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/limits.h"

#include <sys/resource.h>

void limits_raise(void)
{
	static const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit limit;

	/* A limit that cannot be raised stays lower. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	if (setrlimit(RLIMIT_FSIZE, &none) < 0 &&
	    getrlimit(RLIMIT_FSIZE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_FSIZE, &limit);
	}
}
