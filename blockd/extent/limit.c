/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/extent/limit.h"

#include <assert.h>

#include "base/blockdev/blockdev.h"

#define SECOND_NS UINT64_C(1000000000)

static_assert((uint64_t)BLOCKDEV_LENGTH_MAX <= UINT64_MAX / SECOND_NS,
	      "a length in nanoseconds does not overflow");

void limit_set(struct limit *limit, const struct extent_limits *rates)
{
	*limit = (struct limit){.rates = *rates};
}

bool limit_is_set(const struct limit *limit)
{
	return limit->rates.iops || limit->rates.bytes_per_second;
}

/* @amount is at most BLOCKDEV_LENGTH_MAX. */
static uint64_t limit_take_one(uint64_t *full_ns, uint64_t rate,
			       uint64_t amount, uint64_t now_ns)
{
	uint64_t start_ns = now_ns;

	if (rate == 0 || amount == 0)
		return now_ns;
	if (*full_ns > now_ns + LIMIT_BURST_NS)
		start_ns = *full_ns - LIMIT_BURST_NS;
	if (*full_ns < now_ns)
		*full_ns = now_ns;
	*full_ns += amount * SECOND_NS / rate;
	return start_ns;
}

uint64_t limit_take(struct limit *limit, uint64_t now_ns, uint64_t bytes)
{
	uint64_t one = limit_take_one(&limit->operations_full_ns,
				      limit->rates.iops, 1, now_ns);
	uint64_t other = limit_take_one(&limit->bytes_full_ns,
					limit->rates.bytes_per_second, bytes,
					now_ns);

	return one > other ? one : other;
}
