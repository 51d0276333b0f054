/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, RFC 4648 4: with padding, no line breaks. */
#ifndef VOLUME_BASE64_H
#define VOLUME_BASE64_H

#include <stddef.h>

/* Returned owned; NULL without memory. */
char *base64_encode(const void *data, size_t length);

/*
 * Returned owned, with a NUL after it that @ret_length does not count. NULL:
 * bad text, or no memory.
 */
char *base64_decode(const char *text, size_t *ret_length);

#endif
