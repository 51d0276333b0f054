/* SPDX-License-Identifier: Apache-2.0 */
/* mount -o remount,... of a union: what mount(8)'s helper does. */
#ifndef UNION_REMOUNT_H
#define UNION_REMOUNT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "base/error.h"

#define REMOUNT_TEXT_MAX 8184 /* bytes with NUL */

enum remount_step {
	REMOUNT_CHECK, /* can all of it be? Nothing is changed */
	REMOUNT_APPLY, /* the mount has been changed: follow, and do the rest */
};

/* Asked of the server, of the union's root. */
struct remount_call {
	uint16_t step;
	uint16_t whole; /* the options are all there are: mount(8)'s helper */
	int32_t error;  /* of the answer: an errno, or 0 */
	char text[REMOUNT_TEXT_MAX]; /* SPEC, newline, options; the error */
};

#define REMOUNT_IOCTL _IOWR(0xf5, 1, struct remount_call)

/*
 * Are these the arguments of trib-union for one? @whole: by mount(8), which
 * leaves out what is so by default, and repeats what is so already.
 */
bool remount_is_wanted(int argc, char **argv);

/* Do it. 0; or -errno with @err, and all is as it was. */
int remount(int argc, char **argv, bool whole, struct error *err);

#endif
