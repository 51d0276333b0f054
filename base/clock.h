/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t clock_ms(void);

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t clock_ns(void);

/* Seconds since 1970. */
int64_t clock_wall_s(void);

#endif
