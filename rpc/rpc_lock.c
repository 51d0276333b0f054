/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library replaces a live server's socket without a word. At the end it
 * unlinks its own path, even if another server owns it then. So a lock comes
 * first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/file_lock.h"
#include "base/unix_served.h"
#include "rpc/rpc_internal.h"

/*
 * Make the path of the lock: beside the socket, or in @dir. There it is named
 * after the whole path, so that no two sockets have the same ('/' is written
 * "%2f", '%' is "%25").
 */
static int lock_path(char *ret, size_t size, const char *socket_path,
		     const char *dir, struct error *err)
{
	char name[3 * RPC_PATH_MAX + 1] = "";
	size_t n = 0;

	for (const char *s = socket_path; *s; s++) {
		if (*s == '/' || *s == '%')
			n += (size_t)sprintf(name + n, "%%%02x", *s);
		else
			name[n++] = *s;
	}
	name[n] = '\0';
	n = (size_t)(dir ? snprintf(ret, size, "%s/%s.lock", dir, name)
			 : snprintf(ret, size, "%s.lock", socket_path));
	if (n >= size)
		return error_set(err, ENAMETOOLONG,
				 "the lock of unix:%s in '%.200s': its path is "
				 "too long",
				 socket_path, dir ? dir : "");
	return 0;
}

/* Try to lock. 1: locked; 0: the file was replaced meanwhile, try again. */
static int try_lock(const char *path, const char *socket_path, int *ret_fd,
		    struct error *err)
{
	auto_close int fd = open(
		path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	char who[FILE_LOCK_WHO_MAX];
	struct stat ours, there;
	int r;

	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	r = file_lock_take(fd, who);
	if (r == -EBUSY)
		return error_set(err, EADDRINUSE,
				 "unix:%s is served by %s; stop it, or choose "
				 "another address",
				 socket_path, who);
	if (r < 0)
		return error_set(err, -r, "lock '%s': %s", path, strerror(-r));
	/* Its last owner may have unlinked it between our open and flock. */
	if (fstat(fd, &ours) < 0 || stat(path, &there) < 0 ||
	    ours.st_ino != there.st_ino || ours.st_dev != there.st_dev)
		return 0;
	r = file_lock_sign(fd);
	if (r < 0)
		return error_set(err, -r, "write '%s': %s", path, strerror(-r));
	*ret_fd = take_fd(&fd);
	return 1;
}

/* Does a process listen there? A program without our lock is left alone, too.
 */
static bool is_served(const char *socket_path)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	memcpy(un.sun_path, socket_path, strlen(socket_path) + 1);
	return unix_served(&un, SOCK_STREAM) == 1;
}

int rpc_lock_take(const char *socket_path, const char *dir,
		  struct rpc_lock *ret, struct error *err)
{
	struct rpc_lock lock = {.fd = -1};
	int r = lock_path(lock.path, sizeof(lock.path), socket_path, dir, err);

	if (r < 0)
		return r;
	do
		r = try_lock(lock.path, socket_path, &lock.fd, err);
	while (r == 0);
	if (r < 0)
		return r;
	if (is_served(socket_path)) {
		rpc_lock_release(&lock);
		return error_set(err, EADDRINUSE,
				 "another program listens on unix:%s, without "
				 "our lock; stop it, or choose another address",
				 socket_path);
	}
	*ret = lock;
	return 0;
}

void rpc_lock_release(struct rpc_lock *lock)
{
	if (lock->fd < 0)
		return;
	/* While still locked: nobody else's file can be there. */
	(void)unlink(lock->path);
	fd_close(lock->fd);
	lock->fd = -1;
}
