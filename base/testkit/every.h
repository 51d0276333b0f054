/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_EVERY_H
#define BASE_EVERY_H

#include <stdlib.h>
#include <unistd.h>

/*
 * Tests that try each step of something (kills, failed writes, losses of power)
 * take every N-th step of it; N is $EVERY, or 1. `make check` takes each step
 * without a sanitizer, and every fourth step under one.
 */

/* Return N: 1 or more. */
static inline unsigned every(void)
{
	const char *text = getenv("EVERY");
	unsigned n = text ? (unsigned)strtoul(text, NULL, 0) : 1;

	return n ? n : 1;
}

/* Return the first step to take, 0 to N - 1: another at each call and run. */
static inline unsigned every_first(void)
{
	static unsigned calls;

	return ((unsigned)getpid() + calls++) % every();
}

#endif
