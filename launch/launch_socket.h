/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LAUNCH_LAUNCH_SOCKET_H
#define LAUNCH_LAUNCH_SOCKET_H

#include <sys/types.h>

#include "base/error.h"

struct launch_socket {
	int fd; /* listens, SOCK_SEQPACKET */
	const char *path;
	dev_t device; /* of the file at @path */
	ino_t inode;
};

/*
 * Listen at @path (borrowed), mode 0600. What a server that is no more left
 * there is replaced. -EADDRINUSE: something else is there.
 */
int launch_socket_open(const char *path, struct launch_socket *ret,
		       struct error *err);

/* Its file goes, unless it is another's by now. */
void launch_socket_close(struct launch_socket *socket);

#endif
