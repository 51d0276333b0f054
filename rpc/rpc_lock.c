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
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/cleanup.h"
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

static int taken(int fd, const char *socket_path, struct error *err)
{
	char text[16] = "", who[32] = "";
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	long pid = n > 0 ? strtol(text, NULL, 10) : 0;

	if (pid > 0)
		(void)snprintf(who, sizeof(who), " (pid %ld)", pid);
	return error_set(err, EADDRINUSE,
			 "another process%s serves unix:%s; stop it, or "
			 "choose another address",
			 who, socket_path);
}

/* Try to lock. 1: locked; 0: the file was replaced meanwhile, try again. */
static int try_lock(const char *path, const char *socket_path, int *ret_fd,
		    struct error *err)
{
	auto_close int fd = open(
		path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat ours, there;

	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? taken(fd, socket_path, err)
			       : error_set(err, errno, "lock '%s': %s", path,
					   strerror(errno));
	/* Its last owner may have unlinked it between our open and flock. */
	if (fstat(fd, &ours) < 0 || stat(path, &there) < 0 ||
	    ours.st_ino != there.st_ino || ours.st_dev != there.st_dev)
		return 0;
	/* Only for the text above: the lock itself is the kernel's. */
	if (ftruncate(fd, 0) < 0 || dprintf(fd, "%d\n", (int)getpid()) < 0)
		return error_set(err, errno ? errno : EIO, "write '%s': %s",
				 path, strerror(errno));
	*ret_fd = take_fd(&fd);
	return 1;
}

/* Does somebody listen there? A program without our lock is left alone, too. */
static bool somebody_listens(const char *socket_path)
{
	auto_close int fd = socket(
		AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	if (fd < 0)
		return false;
	memcpy(un.sun_path, socket_path, strlen(socket_path) + 1);
	/* EAGAIN: its queue is full. */
	return connect(fd, (const struct sockaddr *)&un, sizeof(un)) == 0 ||
	       errno == EAGAIN;
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
	if (somebody_listens(socket_path)) {
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
