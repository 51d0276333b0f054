/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launcher_mirror.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/launch_client.h"

int launcher_mirror_init(struct launcher_mirror *mirror,
			 const char *const *argv, uint64_t needs)
{
	const char *socket = getenv(LAUNCH_STORE_VARIABLE);
	size_t count = 0, i;

	*mirror = (struct launcher_mirror){.needs = needs,
					   .pause_ms = LAUNCHER_PAUSE_MS};
	if (!socket || !*socket)
		return 0;
	while (argv[count])
		count++;
	mirror->argv = calloc(count + 1, sizeof(*mirror->argv));
	if (!mirror->argv)
		return -ENOMEM;
	for (i = 0; i < count; i++)
		mirror->argv[i] = argv[i];
	mirror->socket = socket;
	return 0;
}

void launcher_mirror_done(struct launcher_mirror *mirror)
{
	free(mirror->argv);
	*mirror = (struct launcher_mirror){0};
}

/* Is there something to go on with, and the right launcher may not have it? */
static bool is_missing(const struct launcher_mirror *mirror,
		       const struct fd_store_server *held)
{
	return mirror->socket && (!held->mirrored || mirror->moves) &&
	       fd_store_server_has(held, mirror->needs);
}

int launcher_mirror_wait_ms(const struct launcher_mirror *mirror,
			    const struct fd_store_server *held)
{
	int64_t left = mirror->next_ms - clock_ms();

	return !is_missing(mirror, held) ? -1 : left > 0 ? (int)left : 0;
}

void launcher_mirror_look(struct launcher_mirror *mirror,
			  struct fd_store_server *held)
{
	int64_t now = clock_ms();
	int fd, r;

	if (!is_missing(mirror, held) || now < mirror->next_ms)
		return;
	/* A mirror that was there for long starts the pauses again. */
	mirror->pause_ms = now - mirror->next_ms > LAUNCHER_PAUSE_MAX_MS
				   ? LAUNCHER_PAUSE_MS
				   : mirror->pause_ms * 2;
	if (mirror->pause_ms > LAUNCHER_PAUSE_MAX_MS)
		mirror->pause_ms = LAUNCHER_PAUSE_MAX_MS;
	mirror->next_ms = now + mirror->pause_ms;
	r = launch_store_begin(mirror->socket, mirror->argv, STDERR_FILENO,
			       held->mirrored ? held->mirror : -1, &fd, NULL);
	if (r == 0)
		fd_store_server_mirror(held, fd);
	if (r == 0 || r == -EALREADY)
		mirror->moves = false;
}
