/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t clock_ms(void);

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t clock_ns(void);

/* @ms from now on CLOCK_MONOTONIC. */
struct timespec clock_deadline(int64_t ms);

/* Seconds since 1970. */
int64_t clock_wall_s(void);

/* Milliseconds since 1970. */
int64_t clock_wall_ms(void);

#endif
