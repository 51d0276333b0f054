/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel gives a request that found no entry of its queue free (uring.h) to
 * the next one that is given back with a reply, not to one that is registered
 * (fs/fuse/dev_uring.c, 6.14 to 6.18: fuse_uring_do_register() looks at no
 * list, fuse_uring_commit_fetch() does). Where every entry of a queue was busy,
 * or had been taken from the kernel, such a request would wait until somebody
 * else asks on the same CPU. So who registers one then has the kernel ask
 * something itself: FUSE_NOTIFY_RETRIEVE of no bytes, to which it "replies" by
 * a request like any other, FUSE_NOTIFY_REPLY.
 */
#ifndef UNION_KICK_H
#define UNION_KICK_H

struct unionfs;

/*
 * Have such a request come to the queue of the CPU that the calling thread is
 * on, and return at once. It is asked of a regular file (kernels since 2026
 * take no other); where the kernel knows none, a thread that is made for it
 * asks for the attributes of the mount point by its path.
 *
 * 0 or -errno: -ENOTCONN: it is unmounted; -EAGAIN: no thread can be made.
 */
int kick(struct unionfs *fs);

#endif
