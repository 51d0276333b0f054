/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the planner's tests. */
#ifndef VOLUME_PLANNER_TEST_KIT_H
#define VOLUME_PLANNER_TEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "volume/plan/planner.h"

#define SMALL_MAX 8 /* pools in a random case, so that subsets can be tried */

static uint64_t seed = 0x9e3779b97f4a7c15;

static inline uint64_t random_below(uint64_t n)
{
	seed ^= seed << 13; /* xorshift64, Marsaglia 2003 */
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static inline struct volume_spec spec_of(uint64_t capacity)
{
	struct volume_spec spec = {.capacity = capacity};
	struct error err = {0};

	assert_int_equal(volume_spec_check(&spec, &err), 0);
	return spec;
}

static inline struct planner_pool pool_of(const char *node, uint64_t available)
{
	return (struct planner_pool){
		.node = node,
		.pool = "p",
		.available = available,
		.online = true,
	};
}

#endif
