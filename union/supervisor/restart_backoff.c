/* SPDX-License-Identifier: Apache-2.0 */
#include "union/supervisor/restart_backoff.h"

/* Tell the @n-th pause of a row, from 0. */
static int doubled(unsigned n, int max_ms)
{
	int ms = PACE_FIRST_MS;

	while (n-- && ms < max_ms)
		ms *= 2;
	return ms < max_ms ? ms : max_ms;
}

int restart_backoff_next(struct restart_backoff *pace, int64_t served_ms,
			 bool by_itself)
{
	if (served_ms < 0) {
		if (pace->unserved == PACE_TRIES)
			return -1;
		return doubled(pace->unserved++, PACE_UNSERVED_MS);
	}
	pace->unserved = 0;
	if (served_ms >= PACE_LIVED_MS)
		pace->soon = 0;
	if (!by_itself || served_ms >= PACE_SOON_MS)
		return 0;
	if (pace->soon < PACE_FREE) {
		pace->soon++;
		return 0;
	}
	return doubled(pace->soon++ - PACE_FREE, PACE_SERVED_MS);
}
