/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UNIX_SERVED_H
#define BASE_UNIX_SERVED_H

#include <sys/un.h>

/*
 * Tell whether a process listens on a unix socket. A listener that has ended,
 * or is ending, is waited for, FILE_LOCK_MS at most. A child of it may have the
 * socket until it executes its program (file_lock.h).
 *
 * @type  SOCK_STREAM or SOCK_SEQPACKET
 *
 * Returns 1 (a process listens), 0 (none does: the path may be left of a killed
 * one), or connect(2)'s error.
 */
int unix_served(const struct sockaddr_un *address, int type);

#endif
