/* SPDX-License-Identifier: Apache-2.0 */
#include "union/supervisor/supervisor_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "union/state/fd_store.h"

int supervisor_store_copy(struct supervisor *h, uint64_t token, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : fd_store_server_add(&h->held, token, copy);
}

int supervisor_store_server(struct supervisor *h, struct error *err)
{
	int r = 0;

	if (h->launcher.socket)
		r = supervisor_store_copy(h, STORED_SERVER, h->pidfd);
	if (h->launcher.socket && r == 0)
		r = supervisor_store_copy(h, STORED_SOCKET, h->socket);
	return r < 0 ? error_set(err, -r, "store the server's descriptors: %s",
				 strerror(-r))
		     : 0;
}

void supervisor_forget_server(struct supervisor *h)
{
	fd_store_server_drop(&h->held, STORED_SOCKET);
	fd_store_server_drop(&h->held, STORED_SERVER);
}

/* Skip the message that the killed supervisor was at, if it is done. */
static void skip_done(struct supervisor *h)
{
	struct pollfd socket = {.fd = h->socket, .events = POLLIN};
	struct fd_store_message message;
	int fd, r;

	if (poll(&socket, 1, 0) <= 0)
		return;
	r = fd_store_peek(h->socket, &message, &fd);
	fd_close(fd);
	if (r == 1 && message.op == FD_STORE_ADD &&
	    fd_store_server_has(&h->held, message.token))
		fd_store_skip(h->socket);
}

bool supervisor_take_left(struct supervisor *h)
{
	h->pidfd = fcntl(fd_store_server_fd(&h->held, STORED_SERVER),
			 F_DUPFD_CLOEXEC, 0);
	h->socket = fcntl(fd_store_server_fd(&h->held, STORED_SOCKET),
			  F_DUPFD_CLOEXEC, 0);
	if (h->pidfd >= 0) {
		h->pid = process_of_pidfd(h->pidfd);
		(void)pidfd_send_signal(h->pidfd, SIGKILL, NULL, 0);
	}
	if (h->pidfd >= 0 && h->socket >= 0) {
		skip_done(h);
		h->ends = true;
		return true;
	}
	supervisor_forget_server(h);
	fd_close(take_fd(&h->socket));
	fd_close(take_fd(&h->pidfd));
	return false;
}

void supervisor_take_device(struct supervisor *h)
{
	int fd = fd_store_server_fd(&h->held, STORED_DEVICE);
	struct device device;

	h->mounts = fd >= 0 &&
		    pread(fd, &device, sizeof(device), 0) == sizeof(device);
	if (h->mounts)
		h->device = device;
}
