/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPC_TEXT_H
#define RPC_TEXT_H

#include <stddef.h>

#define RPC_TEXT_MAX 1024 /* bytes of a status text with its NUL */

/*
 * Clean @length bytes: make them valid UTF-8 without control characters (RFC
 * 3629). A bad byte becomes '?', a control character a space. The text is cut
 * at a character's edge to fit @size (at least 1) with its NUL. Returns @buf.
 */
char *rpc_text_clean(char *buf, size_t size, const char *text, size_t length);

/* Parse the errno named by @length bytes ("ENOSPC"); 0 for anything else. */
int rpc_errno_parse(const char *name, size_t length);

#endif
