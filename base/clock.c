/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <assert.h>

int64_t clock_ns(void)
{
	struct timespec ts;
	int r = clock_gettime(CLOCK_MONOTONIC, &ts);

	assert(r == 0); /* it is always there */
	(void)r;
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_ms(void)
{
	return clock_ns() / 1000000;
}

struct timespec clock_deadline(int64_t ms)
{
	int64_t at = clock_ns() + ms * 1000000;

	return (struct timespec){at / 1000000000, at % 1000000000};
}

int64_t clock_wall_s(void)
{
	return time(NULL);
}

int64_t clock_wall_ms(void)
{
	struct timespec ts;
	int r = clock_gettime(CLOCK_REALTIME, &ts);

	assert(r == 0); /* it is always there */
	(void)r;
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}
