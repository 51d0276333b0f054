/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls have freed goes back to the system: malloc keeps what lies
 * below anything still in use, and after many calls at once that is as much
 * as an idle driver needs. Once nobody has called for HEAP_TRIM_AFTER_MS
 *somebody gives it back; while nobody calls nothing wakes.
 *
 *	int fd = heap_trim_open(err);         a timer, for poll(2)
 *	heap_trim_later(fd);                  after each call; any thread
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
