/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and durations as people write them. */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

#define SIZE_TEXT_MAX 32 /* bytes, enough for any size_format() */

/*
 * "4096", "64KiB", "1.5GiB", "2Gi", "2G" (binary too), "10GB" (decimal).
 * -EINVAL with the reason for anything else, negative or past INT64_MAX.
 */
int size_parse(const char *text, uint64_t *ret_bytes, struct error *err);

/* "1.50 GiB", "512 B"; returns @buf (at least SIZE_TEXT_MAX bytes). */
const char *size_format(char *buf, uint64_t bytes);

/* Round up to a multiple of @unit (not 0); -ERANGE past UINT64_MAX. */
int size_round_up(uint64_t value, uint64_t unit, uint64_t *ret);

#endif
