/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mounts that the system call of a waiting thread is for. The process may
 * have been killed, and its main thread may have ended (proc(5):
 * /proc/PID/task/TID/stat, syscall, fdinfo). Nothing here asks a file system,
 * so nothing hangs with it.
 */
#ifndef UNION_TASK_SYSCALL_H
#define UNION_TASK_SYSCALL_H

#include <sys/types.h>

enum in_call {
	IN_CALL_NONE,   /* it has ended, or ends: it calls for nothing more */
	IN_CALL_KERNEL, /* of /dev/fuse: for the kernel, and for no branch */
	IN_CALL_MOUNTS,
	IN_CALL_UNKNOWN, /* it waits, and that cannot be told */
	IN_CALL_GOES_ON, /* it does not wait: it will have ended soon */
};

/*
 * Tell what the system call of @thread is for.
 *
 * @ret_mounts  the ids of the mounts (as name_to_handle_at(2) has them) for
 *              IN_CALL_MOUNTS; the second is -1 for a call of one file
 */
enum in_call task_syscall_get(pid_t process, pid_t thread, int ret_mounts[2]);

#endif
