/* SPDX-License-Identifier: Apache-2.0 */
/* Mount options of a person, in the forms that mount(2) and the union take. */
#ifndef VOLUME_MOUNT_OPTIONS_H
#define VOLUME_MOUNT_OPTIONS_H

#include <stdbool.h>

#include "base/error.h"

#define MOUNT_OPTIONS_MAX 4000 /* bytes with NUL; mount(2) takes a page */

struct mount_options {
	unsigned long flags;          /* MS_*, for each branch */
	char data[MOUNT_OPTIONS_MAX]; /* for each branch's file system */
	char view[MOUNT_OPTIONS_MAX]; /* for -o of the union; "": none */
	bool degraded; /* mount it also without splits that are lost for good */
};

/*
 * @text     comma separated; a value may be in double quotes, and then hold
 *           commas. NULL: none
 * @fs_type  of the branches
 *
 * Only what cannot break a volume, or its attachment, is taken. -EINVAL names
 * a refused option.
 */
int mount_options_parse(const char *text, const char *fs_type,
			struct mount_options *ret, struct error *err);

#endif
