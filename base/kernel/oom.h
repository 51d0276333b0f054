/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weight of a process when memory is short: oom_score_adj of proc(5), -1000
 * to 1000. Children inherit it.
 */
#ifndef BASE_KERNEL_OOM_H
#define BASE_KERNEL_OOM_H

#include <sys/types.h>

#include "base/error.h"

/*
 * Never killed for memory. Of a cgroup that is killed as a whole
 * (memory.oom.group), such a process alone is left.
 */
#define OOM_NEVER (-1000)

/* Read the weight of this process. 0 or -errno. */
int oom_read(int *ret);

/*
 * Set the weight of this process to OOM_NEVER. Without CAP_SYS_RESOURCE it
 * stays as it is. Returns the weight it had, 0 if that cannot be read.
 */
int oom_protect(void);

/*
 * Set the weight of @pid; 0: of this process. 0 or -errno. -EACCES: less than
 * it ever was needs CAP_SYS_RESOURCE.
 */
int oom_set(pid_t pid, int score);

/*
 * process_start() (base/process.h) from a protected process: @score is the
 * weight of what is started from its first instruction.
 */
int oom_start(int score, const char *const *argv, int log_fd, int pass_fd,
	      pid_t *ret_pid, struct error *err);

#endif
