/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that calls have freed goes back to the system: malloc keeps what lies
 * below anything still in use, and after many calls at once that is as much
 * as an idle driver needs. Once nobody has called for SLACK_AFTER_MS somebody
 * gives it back; while nobody calls nothing wakes.
 *
 *	int fd = slack_open(err);         a timer, for poll(2)
 *	slack_later(fd);                  after each call; any thread
 *	if (readable) slack_return(fd);
 */
#ifndef CSI_SLACK_H
#define CSI_SLACK_H

#include "base/error.h"

#define SLACK_AFTER_MS 1000

/* A descriptor, the caller's. */
int slack_open(struct error *err);
/* -1 is fine: nobody gives it back then. */
void slack_later(int fd);
void slack_return(int fd);

#endif
