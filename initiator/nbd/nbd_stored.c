/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_stored.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"

int nbd_stored_begin(struct nbd_stored *s, const char *const *argv, int socket,
		     struct error *err)
{
	int r;

	*s = (struct nbd_stored){.launcher = {.socket = NULL}};
	r = socket < 0 ? 0 : fd_store_server_receive(&s->held, socket);
	if (r < 0)
		return error_set(err, -r, "take over from the launcher: %s",
				 strerror(-r));
	if (launcher_mirror_init(&s->launcher, argv, NBD_STORED_FUSE) < 0) {
		fd_store_server_done(&s->held);
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	}
	s->launcher.moves = socket >= 0;
	return 0;
}

int nbd_stored_take(const struct nbd_stored *s, uint64_t token)
{
	int fd = fd_store_server_fd(&s->held, token);

	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int nbd_stored_add(struct nbd_stored *s, uint64_t token, int fd)
{
	if (!s->launcher.socket)
		return 0;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd_store_server_add(&s->held, token, fd);
}

void nbd_stored_serve(struct nbd_stored *s)
{
	if (s->held.mirrored)
		fd_store_server_say_ready(&s->held);
	launcher_mirror_look(&s->launcher, &s->held);
}

int nbd_stored_poll(const struct nbd_stored *s, struct pollfd *ret)
{
	*ret = (struct pollfd){
		.fd = s->held.mirrored ? s->held.mirror : -1,
		.events = POLLIN,
	};
	return launcher_mirror_wait_ms(&s->launcher, &s->held);
}

void nbd_stored_run(struct nbd_stored *s, const struct pollfd *fd)
{
	if (fd->revents) /* nothing comes but its end */
		fd_store_server_unmirror(&s->held);
	launcher_mirror_look(&s->launcher, &s->held);
}

void nbd_stored_end(struct nbd_stored *s)
{
	fd_store_server_done(&s->held);
	launcher_mirror_done(&s->launcher);
}
