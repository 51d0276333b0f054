/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors that a supervisor keeps for the next server, each by its
 * token: fd_store.h.
 */
#ifndef UNION_FD_STORE_SERVER_H
#define UNION_FD_STORE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fd_store_server {
	struct fd_store_entry {
		uint64_t token;
		int fd; /* owned */
	} * items;
	size_t count, size;
};

/* Add @fd, which is taken. 0 or -ENOMEM: then it is closed. */
int fd_store_server_add(struct fd_store_server *held, uint64_t token, int fd);

bool fd_store_server_has(const struct fd_store_server *held, uint64_t token);

/* Get the descriptor of @token, borrowed; -1: there is none. */
int fd_store_server_fd(const struct fd_store_server *held, uint64_t token);

/* Close the descriptor of @token, if there is one. */
void fd_store_server_drop(struct fd_store_server *held, uint64_t token);

/* Send all by fd_store_send(), FD_STORE_END last. 0 or -errno. */
int fd_store_server_send(const struct fd_store_server *held, int socket);

/* Close all. */
void fd_store_server_done(struct fd_store_server *held);

#endif
