/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/heap_trim.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

int heap_trim_open(struct error *err)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return error_set(err, errno, "timerfd: %s", strerror(errno));
	return fd;
}

void heap_trim_later(int fd)
{
	const struct itimerspec once = {
		.it_value = {.tv_sec = HEAP_TRIM_AFTER_MS / 1000,
			     .tv_nsec = HEAP_TRIM_AFTER_MS % 1000 * 1000000L}};

	if (fd >= 0)
		(void)timerfd_settime(fd, 0, &once, NULL); /* a good value */
}

void heap_trim_now(int fd)
{
	uint64_t times;

	/*
	 * The timer is not readable when a call has ended meanwhile: trim
	 * later.
	 */
	if (read(fd, &times, sizeof(times)) > 0)
		(void)malloc_trim(0);
}
