/* SPDX-License-Identifier: Apache-2.0 */
/* Copy the content of a file to one on another file system; holes stay. */
#ifndef UNION_COPY_DATA_H
#define UNION_COPY_DATA_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A callback after each piece: @bytes were copied. 0 to go on, or a negative
 * errno, with which the copying ends. The callback may wait, to keep a rate.
 */
struct copy_pace {
	int (*step)(void *context, uint64_t bytes);
	void *context;
};

/*
 * Make bytes [@at, @end) of the file @to as those of @from; bytes past the end
 * of @from are left out. Lengths are not changed but by data.
 *
 * @fresh  nothing is there yet in @to
 * @pace   NULL: none
 *
 * 0 or -errno.
 */
int copy_data(int from, int to, uint64_t at, uint64_t end, bool fresh,
	      const struct copy_pace *pace);

#endif
