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

void stuck_servers_reap(struct stuck_servers *servers,
			struct fd_store_server *held)
{
	siginfo_t info;
	unsigned i;

	for (i = 0; i < FD_STORE_STUCK_MAX; i++) {
		info.si_pid = 0;
		if (servers->pidfds[i] < 0 ||
		    waitid(P_PIDFD, (id_t)servers->pidfds[i], &info,
			   WEXITED | WNOHANG) < 0 ||
		    !info.si_pid)
			continue;
		log_info("the server %d, which was killed before, has ended",
			 info.si_pid);
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
