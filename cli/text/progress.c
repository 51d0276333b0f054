/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define WIPE "\r\033[K" /* ECMA-48 EL: erase to the end of the line */

void progress_show(void *context, const char *step, unsigned done,
		   unsigned total, const char *text)
{
	struct progress *progress = context;
	int64_t now = clock_ms();

	(void)step; /* for programs */
	if (!progress->start_ms)
		progress->start_ms = now;
	if (isatty(STDERR_FILENO)) {
		(void)fprintf(stderr, WIPE "[%u/%u] %.60s", done, total, text);
		progress->on_line = true;
		return;
	}
	if (done < total && now - progress->start_ms >= PROGRESS_QUIET_MS)
		(void)fprintf(stderr, "[%u/%u] %s\n", done, total, text);
}

void progress_end(struct progress *progress)
{
	if (progress->on_line)
		(void)fputs(WIPE, stderr);
	progress->on_line = false;
}
