/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start a long-lived program through trib-launch, so that it outlives the
 * caller, as a process of the launcher's cgroup and mount namespace. Callers
 * find the program again by /proc. So the launcher has to share our PID
 * namespace and our paths.
 */
#ifndef LAUNCH_LAUNCH_CLIENT_H
#define LAUNCH_LAUNCH_CLIENT_H

#include <sys/types.h>

#include "base/error.h"

/*
 * process_start() (base/process.h), but in the launcher at @socket when that
 * is neither NULL nor "". The launcher uses only the file name of argv[0], in
 * its own directory. The process is the launcher's child: it
 * is never ours to reap.
 *
 * -EHOSTUNREACH: no launcher is there, or it does not answer. Others as the
 * launcher has them, or process_start().
 */
int launch_start(const char *socket, const char *const *argv, int log_fd,
		 int pass_fd, pid_t *ret_pid, struct error *err);

/*
 * Where a launcher stores the descriptors of what it starts: the path of a
 * socket, in the environment. Not set: it does not.
 */
#define LAUNCH_STORE_VARIABLE "TRIB_LAUNCH_STORE"

/*
 * Have the launcher at @socket store descriptors of this process, and start
 * @argv in its place when it is killed: launch_store.h. @argv[0] is the name of
 * a program. @log_fd is its standard output and error. Waits for nothing.
 *
 * @other_than  a socket to a launcher that is not to be asked; -1: none
 * @ret_fd      connected: send what is to be stored. It is hung up by a
 *              launcher that refuses, or ends.
 *
 * -EHOSTUNREACH: no launcher is there, or it is busy. -EALREADY: the launcher
 * is the one of @other_than. -E2BIG, -ENOMEM.
 */
int launch_store_begin(const char *socket, const char *const *argv, int log_fd,
		       int other_than, int *ret_fd, struct error *err);

#endif
