/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/space.h"

#include "blockd/pool/extent_record.h"

static uint64_t minimum(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t subtract(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t space_floor(uint64_t configured, uint64_t size)
{
	uint64_t floor = size / 100;

	if (configured)
		return configured;
	if (floor < SPACE_FLOOR_MIN)
		return SPACE_FLOOR_MIN;
	return minimum(floor, SPACE_FLOOR_MAX);
}

/* Percent of a value without overflow on the way. */
static uint64_t percent(uint64_t value, unsigned percents)
{
	return add(value / 100 > UINT64_MAX / percents ? UINT64_MAX
						       : value / 100 * percents,
		   value % 100 * percents / 100);
}

struct space space_count(const struct space_policy *policy,
			 const struct space_medium *medium, uint64_t reserved,
			 uint64_t elsewhere)
{
	struct space space = {0};
	uint64_t ours = add(medium->allocated, medium->free);

	space.floor = space_floor(policy->floor, medium->size);
	ours = subtract(subtract(ours, elsewhere), space.floor);
	space.capacity = policy->capacity ? minimum(policy->capacity, ours)
					  : ours;
	space.limit = percent(space.capacity, policy->overcommit_percent);
	if (medium->free > space.floor)
		space.room = subtract(space.limit, reserved);
	space.available = minimum(space.room, EXTENT_SIZE_MAX) / EXTENT_ALIGN *
			  EXTENT_ALIGN;
	if (space.available < EXTENT_SIZE_MIN)
		space.available = 0;
	return space;
}
