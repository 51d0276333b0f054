/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/branch_tool.h"

#include "base/cleanup.h"
#include "initiator/device/device.h"

int branch_tool_run(const char *device, const char *const *argv, int cancel_fd,
		    struct process_result *ret, struct error *err)
{
	auto_close int lock = -1;
	int r = device_lock(device, &lock, err);

	return r < 0 ? r
		     : process_run_holding(argv, NULL, lock, -1, cancel_fd, ret,
					   err);
}
