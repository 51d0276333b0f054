/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unix_served.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file_lock.h"
#include "base/process.h"

/* Will the process that called listen(2) there serve us? unix(7) */
static bool listener_stays(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);
	unsigned long long ticks;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 ||
	    peer.pid <= 0) /* not seen from here */
		return true;
	return process_start_time(peer.pid, &ticks) == 0 &&
	       !process_is_ending(peer.pid, ticks);
}

int unix_served(const struct sockaddr_un *address, int type)
{
	int64_t left, end_ms = clock_ms() + FILE_LOCK_MS;

	do {
		auto_close int fd = socket(
			AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		struct pollfd end = {.fd = fd}; /* POLLHUP, POLLERR */

		if (fd < 0)
			return -errno;
		if (connect(fd, (const struct sockaddr *)address,
			    sizeof(*address)) < 0)
			return errno == EAGAIN ? 1 /* its queue is full */
			       : errno == ECONNREFUSED ? 0
						       : -errno;
		if (listener_stays(fd))
			return 1;
		left = end_ms - clock_ms();
		(void)poll(&end, 1, left > 0 ? (int)left : 0);
	} while (left > 0);
	return 1;
}
