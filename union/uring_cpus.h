/* SPDX-License-Identifier: Apache-2.0 */
/* How many queues the kernel has: one for each CPU that there may be. */
#ifndef UNION_URING_CPUS_H
#define UNION_URING_CPUS_H

#define URING_CPUS_MAX 8192 /* NR_CPUS of x86-64 at most */

/* 1 to URING_CPUS_MAX; -errno when the kernel does not say. */
int uring_cpus_possible(void);

/* The same of its list, as "0-3,8\n"; -EINVAL: it is none. */
int uring_cpus_parse(const char *list);

/*
 * Threads, each with an entry, for each of so many queues, so that there are
 * not too many in all.
 *
 * @threads  wanted; 1 or more
 */
unsigned uring_cpus_threads(unsigned queues, unsigned threads);

#endif
