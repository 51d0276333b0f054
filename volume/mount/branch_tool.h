/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that work on a branch's device: mkfs, checks, growing. */
#ifndef VOLUME_BRANCH_TOOL_H
#define VOLUME_BRANCH_TOOL_H

#include "base/process.h"

/*
 * process_run() of one of them, alone on @device: it keeps the device locked
 * (device_lock()) until it ends, also when we are killed meanwhile. Whoever
 * works on the device next, or takes it away, waits for it.
 */
int branch_tool_run(const char *device, const char *const *argv, int cancel_fd,
		    struct process_result *ret, struct error *err);

#endif
