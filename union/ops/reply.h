/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The border between libfuse and the operations: the request that a thread
 * serves, and the replies. libfuse does not tell all of a request (request.h).
 * It does not set all of a reply either. So all replies go by a function of
 * ours (fuse_session_custom_io()). That function keeps them (reply_cache.h) and
 * sets the rest. Numbers are those of linux/fuse.h, protocol 7.40.
 */
#ifndef UNION_REPLY_H
#define UNION_REPLY_H

#include "union/view/unionfs.h"

/*
 * Talk to the kernel by @fd (taken). After the session's mount, before its
 * first request. 0 or -errno.
 */
int reply_setup(struct unionfs *fs, int fd);

/*
 * Note where this thread has the requests for which it calls libfuse
 * (borrowed), until NULL is noted.
 */
void request_serve(struct request *request);

/*
 * Get the request that this thread serves; the second in a handler, whose @req
 * and caller are added to it. Only handlers of libfuse use these: all other
 * functions get the request as an argument.
 */
struct request *request_served(void);
struct request *request_of(fuse_req_t req);

/*
 * Get the node of a request. NULL, and an error is replied. -ESTALE: there is
 * no such node; -EIO: all copies of it are on failed branches.
 */
struct node *op_node(struct request *request, fuse_ino_t ino);

/* Reply with an entry or with the error @r (0 or -errno). */
void op_reply_entry(struct request *request, int r,
		    const struct fuse_entry_param *entry);

/* Reply with no more than success or the error @r. */
void op_reply(struct request *request, int r);

/*
 * Reply as fuse_reply_open() does, or with an @entry as fuse_reply_create(),
 * for a file that is passed through to @backing_id, or is not (0).
 */
int op_reply_open(struct request *request, const struct fuse_entry_param *entry,
		  struct fuse_file_info *info, int32_t backing_id);

#endif
