/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress of long work, on standard error. On a terminal it is one line that
 * is overwritten. Elsewhere it is a line for each step, once the work takes
 * long.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	int64_t start_ms; /* of the first step; 0: none yet */
	bool on_line;     /* a line is shown and not ended */
};

#define PROGRESS_QUIET_MS 2000 /* shorter work shows nothing off a terminal */

/* A volume_progress; @context is a struct progress. */
void progress_show(void *context, const char *step, unsigned done,
		   unsigned total, const char *text);

/* Wipe the line. */
void progress_end(struct progress *progress);

#endif
