/* SPDX-License-Identifier: Apache-2.0 */
#include "union/supervisor/stuck_servers.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/log.h"

void stuck_servers_init(struct stuck_servers *servers)
{
	unsigned i;

	for (i = 0; i < FD_STORE_STUCK_MAX; i++)
		servers->pidfds[i] = -1;
}

static unsigned find_place(const struct stuck_servers *servers)
{
	unsigned i = 0;

	while (i < FD_STORE_STUCK_MAX && servers->pidfds[i] >= 0)
		i++;
	return i;
}

bool stuck_servers_fit(const struct stuck_servers *servers)
{
	return find_place(servers) < FD_STORE_STUCK_MAX;
}

void stuck_servers_resume(struct stuck_servers *servers,
			  const struct fd_store_server *held)
{
	unsigned i;
	int fd;

	for (i = 0; i < FD_STORE_STUCK_MAX; i++) {
		fd = fd_store_server_fd(held, FD_STORE_STUCK + i);
		if (fd >= 0)
			servers->pidfds[i] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
}

bool stuck_servers_add(struct stuck_servers *servers,
		       struct fd_store_server *held, int pidfd)
{
	unsigned i = find_place(servers);
	int copy = i < FD_STORE_STUCK_MAX ? fcntl(pidfd, F_DUPFD_CLOEXEC, 0)
					  : -1;

	if (copy < 0 || fd_store_server_add(held, FD_STORE_STUCK + i, copy) < 0)
		return false;
	servers->pidfds[i] = pidfd;
	return true;
}

unsigned stuck_servers_poll(const struct stuck_servers *servers,
			    struct pollfd *ret)
{
	unsigned i, count = 0;

	for (i = 0; i < FD_STORE_STUCK_MAX; i++)
		if (servers->pidfds[i] >= 0)
			ret[count++] = (struct pollfd){.fd = servers->pidfds[i],
						       .events = POLLIN};
	return count;
}

/* Has it ended? It may be the child of an earlier supervisor. */
static bool has_ended(int pidfd)
{
	struct pollfd process = {.fd = pidfd, .events = POLLIN};
	siginfo_t info = {0};

	if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) == 0)
		return info.si_pid;
	return errno == ECHILD && poll(&process, 1, 0) > 0;
}

void stuck_servers_reap(struct stuck_servers *servers,
			struct fd_store_server *held)
{
	unsigned i;

	for (i = 0; i < FD_STORE_STUCK_MAX; i++) {
		if (servers->pidfds[i] < 0 || !has_ended(servers->pidfds[i]))
			continue;
		log_info("a server that was killed before has ended");
		fd_store_server_drop(held, FD_STORE_STUCK + i);
		fd_close(take_fd(&servers->pidfds[i]));
	}
}

void stuck_servers_done(struct stuck_servers *servers)
{
	unsigned i;

	for (i = 0; i < FD_STORE_STUCK_MAX; i++)
		fd_close(take_fd(&servers->pidfds[i]));
}
