/* SPDX-License-Identifier: Apache-2.0 */
/* The same thing for many items at a time, each on a thread that may block. */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stddef.h>

/*
 * Call @each for 0..@count-1 on up to @threads threads (the caller's is one
 * of them); returns when all have returned.
 */
void parallel_run(size_t count, unsigned threads,
		  void (*each)(void *context, size_t index), void *context);

#endif
