/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/slack.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

int slack_open(struct error *err)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return error_set(err, errno, "timerfd: %s", strerror(errno));
	return fd;
}

void slack_later(int fd)
{
	const struct itimerspec once = {
		.it_value = {.tv_sec = SLACK_AFTER_MS / 1000,
			     .tv_nsec = SLACK_AFTER_MS % 1000 * 1000000L}};

	if (fd >= 0)
		(void)timerfd_settime(fd, 0, &once, NULL); /* a good value */
}

void slack_return(int fd)
{
	uint64_t times;

	/* It is not when a call has ended meanwhile: once more, later. */
	if (read(fd, &times, sizeof(times)) > 0)
		(void)malloc_trim(0);
}
