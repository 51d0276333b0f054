/* SPDX-License-Identifier: Apache-2.0 */
/* The request of mount -o remount,... to the server of a union. */
#ifndef UNION_REMOUNT_CALL_H
#define UNION_REMOUNT_CALL_H

#include <stdint.h>
#include <sys/ioctl.h>

#define REMOUNT_TEXT_MAX 8184 /* bytes with NUL */

enum remount_step {
	REMOUNT_CHECK, /* can all of it be? Nothing is changed */
	REMOUNT_APPLY, /* the mount has been changed: follow, and do the rest */
};

/* Request to the server, an ioctl of the union's root. */
struct remount_call {
	uint16_t step;
	uint16_t whole; /* the options are all there are: mount(8)'s helper */
	int32_t error;  /* of the answer: an errno, or 0 */
	char text[REMOUNT_TEXT_MAX]; /* SPEC, newline, options; the error */
};

#define REMOUNT_IOCTL _IOWR(0xf5, 1, struct remount_call)

#endif
