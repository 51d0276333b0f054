/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/unix_served.h"

#define BACKLOG 64

/* Is it a socket that nobody serves? */
static bool is_left_over(const struct sockaddr_un *address)
{
	struct stat st;

	/* Connecting to a plain file is refused with the same error. */
	return lstat(address->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       unix_served(address, SOCK_SEQPACKET) == 0;
}

static int bind_to(int fd, const struct sockaddr_un *address)
{
	mode_t mask = umask(0177);
	int r = bind(fd, (const struct sockaddr *)address, sizeof(*address));

	r = r < 0 ? -errno : 0;
	(void)umask(mask);
	return r;
}

static int listen_at(const char *path, int *ret_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	auto_close int fd = socket(
		AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	r = bind_to(fd, &address);
	if (r == -EADDRINUSE && is_left_over(&address) && unlink(path) == 0)
		r = bind_to(fd, &address);
	if (r == 0 && listen(fd, BACKLOG) < 0)
		r = -errno;
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int launch_socket_open(const char *path, struct launch_socket *ret,
		       struct error *err)
{
	struct launch_socket opened = {.fd = -1, .path = path};
	struct stat st;
	int r = listen_at(path, &opened.fd);

	if (r < 0)
		return error_set(err, -r, "socket '%s': %s", path,
				 strerror(-r));
	if (stat(path, &st) == 0) {
		opened.device = st.st_dev;
		opened.inode = st.st_ino;
	}
	*ret = opened;
	return 0;
}

void launch_socket_close(struct launch_socket *socket)
{
	struct stat st;

	if (stat(socket->path, &st) == 0 && st.st_dev == socket->device &&
	    st.st_ino == socket->inode)
		(void)unlink(socket->path); /* a stale one is replaced */
	fd_close(take_fd(&socket->fd));
}
