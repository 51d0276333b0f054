/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that work on a branch's device: mkfs, checks, growing. */
#ifndef VOLUME_BRANCH_TOOL_H
#define VOLUME_BRANCH_TOOL_H

#include "base/process.h"

/*
 * Run one of these programs by process_run(), alone on @device. The program
 * keeps the device locked (device_lock()) until it ends, also when we are
 * killed meanwhile. The next user of the device, or a detach, waits for the
 * program.
 */
int branch_tool_run(const char *device, const char *const *argv, int cancel_fd,
		    struct process_result *ret, struct error *err);

#endif
