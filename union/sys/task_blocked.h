/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads in a system call that does not return. Such a thread cannot end, and
 * neither can its process, even by a kill.
 */
#ifndef UNION_TASK_BLOCKED_H
#define UNION_TASK_BLOCKED_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Find a thread of @process that waits in one call (state D, proc(5)) now and
 * for @patience_ms more. Returns its id, or 0: there is none. When no thread
 * waits now, 0 is returned at once.
 */
pid_t task_blocked_thread(pid_t process, int patience_ms);

/* Tell the same of that thread alone. */
bool task_is_blocked(pid_t process, pid_t thread, int patience_ms);

#endif
