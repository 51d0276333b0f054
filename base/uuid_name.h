/* SPDX-License-Identifier: Apache-2.0 */
/* Names and identities. */
#ifndef BASE_UUID_NAME_H
#define BASE_UUID_NAME_H

#include "base/error.h"

#define UUID_TEXT_SIZE 37  /* 36 characters and NUL */
#define NAME_TEXT_MAX  128 /* bytes; CSI's limit on a name (csi.proto) */

/* A new random UUID, lower case; returns @buf (UUID_TEXT_SIZE bytes). */
char *uuid_make(char *buf);

/* The kernel's boot id, lower-case UUID; -errno when /proc is missing. */
int boot_id_read(char *buf);

/*
 * A name of ours (pool, extent, volume, node): 1 to 63 of a-z 0-9 . _ -,
 * first and last a letter or digit, no "..". It is safe as a file name, in a
 * path, in an NBD export name before '@', and in a DNS label list.
 * -EINVAL with the rule that was broken; @what names the thing.
 */
int name_check(const char *what, const char *name, struct error *err);

#endif
