/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher stores for a trib-nbd (launch/launcher_mirror.h): the FUSE
 * connection and the requests' memory. When the process is killed, whatever is
 * killed with it, the launcher starts the next, which goes on with both.
 */
#ifndef INITIATOR_NBD_STORED_H
#define INITIATOR_NBD_STORED_H

#include <poll.h>
#include <stdint.h>

#include "base/error.h"
#include "launch/fd_store_server.h"
#include "launch/launcher_mirror.h"

/* Tokens. */
#define NBD_STORED_MEMORY 1
#define NBD_STORED_FUSE   2 /* added last: with it, somebody can go on */

struct nbd_stored {
	struct fd_store_server held;
	struct launcher_mirror launcher;
};

/*
 * Begin.
 *
 * @argv    as launcher_mirror_init() has it; its words are borrowed
 * @socket  of the launcher that started us to go on, taken; -1: it did not
 */
int nbd_stored_begin(struct nbd_stored *stored, const char *const *argv,
		     int socket, struct error *err);

/* Get a copy of what a process before had stored, owned; -1: there is none. */
int nbd_stored_take(const struct nbd_stored *stored, uint64_t token);

/* Store a copy of @fd. 0 or -errno. */
int nbd_stored_add(struct nbd_stored *stored, uint64_t token, int fd);

/* Say that this process serves. A launcher is looked for, if there is one. */
void nbd_stored_serve(struct nbd_stored *stored);

/* Fill what to wait for. Returns how long at most; ms, -1: for ever. */
int nbd_stored_poll(const struct nbd_stored *stored, struct pollfd *ret);
/* Look for the launcher if it is gone and it is time, after poll(). */
void nbd_stored_run(struct nbd_stored *stored, const struct pollfd *fd);

/* End: nobody goes on. */
void nbd_stored_end(struct nbd_stored *stored);

#endif
