/* SPDX-License-Identifier: Apache-2.0 */
#include "union/open/passthrough.h"

#include <errno.h>
#include <stdint.h>
#include <sys/ioctl.h>

#include "union/state/request.h"

struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define DEV_IOC_BACKING_OPEN  _IOW(229, 1, struct backing_map)
#define DEV_IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)

/*
 * Use our own ioctl: libfuse's calls for these two say no errno, which we need.
 */
int passthrough_open(struct unionfs *fs, int fd, int32_t *ret)
{
	struct backing_map map = {.fd = fd};
	int id = ioctl(fuse_session_fd(fs->session), DEV_IOC_BACKING_OPEN,
		       &map);

	if (id <= 0)
		return id < 0 ? -errno : -EIO;
	*ret = id;
	return 0;
}

void passthrough_close(struct unionfs *fs, int32_t backing_id)
{
	uint32_t id = (uint32_t)backing_id;

	/* Nothing can fail where passthrough works. */
	(void)ioctl(fuse_session_fd(fs->session), DEV_IOC_BACKING_CLOSE, &id);
}

void passthrough_init(struct unionfs *fs, uint64_t offered)
{
	fs->passthrough = fs->want_passthrough && offered & REQUEST_PASSTHROUGH;
}
