/* SPDX-License-Identifier: Apache-2.0 */
#include "union/supervisor/supervisor_state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "union/state/fd_store.h"
#include "union/state/fuse_connection.h"

/* Get the attributes of @path without asking the server. */
static int device_at(const char *path, struct statx *ret)
{
	return statx(AT_FDCWD, path,
		     AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW,
		     0, ret);
}

void supervisor_note_device(struct supervisor *h)
{
	auto_close int fd = -1;
	struct device device = {0};
	struct statx now;

	if (device_at(h->mountpoint, &now) == 0)
		device = (struct device){now.stx_dev_major, now.stx_dev_minor,
					 true};
	h->device = device;
	if (!h->launcher.socket || !device.known)
		return;
	/* Without it the next supervisor does not unmount by force. */
	fd = file_memfd("device");
	if (fd >= 0 && fd_write_all(fd, &device, sizeof(device)) == 0)
		(void)supervisor_store_copy(h, STORED_DEVICE, fd);
}

bool supervisor_is_connected(const struct supervisor *h)
{
	struct pollfd fuse = {
		.fd = fd_store_server_fd(&h->held, FD_STORE_FUSE)};

	return fuse.fd >= 0 && poll(&fuse, 1, 0) >= 0 &&
	       !(fuse.revents & POLLERR);
}

/*
 * Unmount our mount by force, which ends the connection though a server that
 * hangs has it.
 */
static void unmount_ours(const struct supervisor *h)
{
	struct statx now;

	if (device_at(h->mountpoint, &now) == 0 &&
	    now.stx_dev_major == h->device.major &&
	    now.stx_dev_minor == h->device.minor)
		(void)umount2(h->mountpoint,
			      MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW);
}

/*
 * Unmount a dead mount. The server that mounted was killed before it could say
 * so: a mount that is dead then is ours, and goes. A mount that is not dead is
 * another's, or there is none.
 */
static void unmount_dead(const struct supervisor *h)
{
	int fd = open(h->mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOTCONN)
		(void)umount2(h->mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW);
	fd_close(fd);
}

void supervisor_let_go(struct supervisor *h)
{
	/* A server that has not ended has the connection, too. Where the kernel
	 * cannot be told to abort, what is not unmounted here ends with that
	 * server. */
	if (supervisor_is_connected(h))
		(void)fuse_connection_abort(
			fd_store_server_fd(&h->held, FD_STORE_FUSE));
	if (h->mounts && h->device.known)
		unmount_ours(h);
	fd_store_server_done(&h->held);
	if (h->mounts && !h->device.known)
		unmount_dead(h);
	h->mounts = h->device.known = false;
}
