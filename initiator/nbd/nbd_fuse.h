/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device over NBD as a file: a FUSE file system with two names, `extent` (the
 * data, direct I/O only) and `state` (one line, nbd_parts_state()).
 *
 * One thread does it all. It takes every request that waits in /dev/fuse, sends
 * them to the server in one call, and passes the replies on. So there is no
 * lock and no hand-over between threads, and at depth work is batched.
 *
 * The file system sits under a mounted block device, so it must not wait for
 * memory that only writing to that device could free. All buffers are mapped
 * and locked at the start. Only libfuse still allocates: one small calloc() for
 * each request. The heap is locked, never trimmed and grown beforehand
 * (nbd_fuse_main.c). Should even that heap grow, PR_SET_IO_FLUSHER keeps the
 * kernel from writing to devices on this thread's account.
 *
 * A process that is killed has left in memory which requests it had not
 * answered (nbd_fuse_memory.h). The next one goes on with these first.
 */
#ifndef INITIATOR_NBD_FUSE_H
#define INITIATOR_NBD_FUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "initiator/nbd/nbd_fuse_memory.h"
#include "initiator/nbd/nbd_parts.h"
#include "initiator/nbd/nbd_program.h"
#include "initiator/nbd/nbd_stored.h"
#include "initiator/nbd/nbd_ublk.h"

struct nbd_fuse;

/* Borrowed objects stay until nbd_fuse_free(). */
struct nbd_fuse_options {
	const char *mount_point; /* an existing directory */
	const char *name;        /* shown as the mount's source */
	bool read_only;
	struct nbd_parts *parts; /* borrowed */
	/* The file of the parts, read again when the file grows; NULL: none. */
	const char *parts_file;         /* borrowed */
	struct nbd_kept *kept;          /* told of a growth; borrowed */
	struct nbd_fuse_memory *memory; /* borrowed */
	/*
	 * The connection of the process before, if there was one. It is taken,
	 * also on failure. -1: none.
	 */
	int fuse_fd;
	struct nbd_stored *stored; /* the launcher is looked for; borrowed */
};

/*
 * Mount, or go on with the connection and the memory of the process before.
 * -ENODEV: no FUSE here. -ENOTCONN: it is not mounted there any more.
 */
int nbd_fuse_new(const struct nbd_fuse_options *options, struct nbd_fuse **ret,
		 struct error *err);

/* The connection, borrowed. */
int nbd_fuse_fd(const struct nbd_fuse *fuse);

/*
 * Serve until it is unmounted, and a ublk device beside it (NULL: none). 0 or a
 * negative errno.
 */
int nbd_fuse_run(struct nbd_fuse *fuse, struct nbd_ublk *ublk);

/* Unmount and free. NULL is fine. */
void nbd_fuse_free(struct nbd_fuse *fuse);

#endif
