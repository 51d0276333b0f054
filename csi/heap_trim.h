/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Give freed memory back to the system, once no call came for
 * HEAP_TRIM_AFTER_MS. The reason: malloc keeps memory below any block in use.
 * After many calls at once that is as much as an idle driver needs. Nothing
 * wakes while no call comes.
 *
 *	int fd = heap_trim_open(err);      a timer, for poll(2)
 *	heap_trim_later(fd);               after each call; any thread
 *	if (readable) heap_trim_now(fd);
 */
#ifndef CSI_HEAP_TRIM_H
#define CSI_HEAP_TRIM_H

#include "base/error.h"

#define HEAP_TRIM_AFTER_MS 1000

/* A descriptor, the caller's. */
int heap_trim_open(struct error *err);
/* -1 is fine: nobody gives it back then. */
void heap_trim_later(int fd);
void heap_trim_now(int fd);

#endif
