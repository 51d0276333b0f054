/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors that a process stores for the next one, each by its token:
 * fd_store_message.h. A supervisor has them for the next server of its union,
 * and the launcher for the next supervisor.
 *
 * A supervisor has a mirror of its store, in the launcher. A descriptor is sent
 * there as soon as it is added. A mirror that was left, since the launcher was
 * behind or another one is there, is out of date. A mark says so, in memory
 * that both have: nobody goes on with that mirror.
 */
#ifndef LAUNCH_FD_STORE_SERVER_H
#define LAUNCH_FD_STORE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tokens from here on are for the mirror alone: no server is sent them. */
#define FD_STORE_PRIVATE (UINT64_C(1) << 63)
#define FD_STORE_MARK    (UINT64_MAX - 1) /* of the mirror's own mark */

struct fd_store_server {
	struct fd_store_entry {
		uint64_t token;
		int fd; /* owned */
	} * items;
	size_t count, size;
	bool mirrored;
	/* Owned, while @mirrored: a socket to the launcher, and a memfd. */
	int mirror, mark;
};

/* Add @fd, which is taken. 0 or -ENOMEM: then it is closed. */
int fd_store_server_add(struct fd_store_server *held, uint64_t token, int fd);

bool fd_store_server_has(const struct fd_store_server *held, uint64_t token);

/* Get the descriptor of @token, borrowed; -1: there is none. */
int fd_store_server_fd(const struct fd_store_server *held, uint64_t token);

/* Close the descriptor of @token, if there is one. */
void fd_store_server_drop(struct fd_store_server *held, uint64_t token);

/*
 * Send by fd_store_send(), FD_STORE_END last: all below FD_STORE_PRIVATE, or
 * all. 0 or -errno.
 */
int fd_store_server_send(const struct fd_store_server *held, int socket);
int fd_store_server_send_all(const struct fd_store_server *held, int socket);

/*
 * Begin a mirror at the other side of @socket, which is taken: send all. The
 * mirror before is left. A mirror that takes nothing for MIRROR_WAIT_MS, or is
 * gone, is left, too: @mirrored says so from then on.
 */
#define MIRROR_WAIT_MS 500
void fd_store_server_mirror(struct fd_store_server *held, int socket);
/* Tell the mirror that all goes well. */
void fd_store_server_say_ready(struct fd_store_server *held);
void fd_store_server_unmirror(struct fd_store_server *held);

/*
 * Begin with what the other side of @socket has stored, in its
 * fd_store_server_send_all(). @socket is taken; the mirror is there from then
 * on. 0, or -errno: all that came is closed. -ESTALE: that mirror was left.
 */
int fd_store_server_receive(struct fd_store_server *held, int socket);

/*
 * Give the buffers of @socket room for all, so that sending them does not wait.
 * More than the system allows takes CAP_NET_ADMIN; without it they have that.
 */
void fd_store_server_make_room(const struct fd_store_server *held, int socket);

/*
 * Close all. A mirror is told that there is nothing to go on with. Wait until
 * it has closed all, too, MIRROR_END_MS at most: the file systems of these
 * files are busy until then.
 */
#define MIRROR_END_MS 2000
void fd_store_server_done(struct fd_store_server *held);

#endif
