/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node_show.h"

#include <errno.h>
#include <string.h>
#include <sys/mount.h>

#include "csi/bind.h"
#include "csi/capability.h"
#include "volume/union_process.h"

bool node_show_is_ours(const struct mount_info *info, const char *volume)
{
	return strcmp(info->fs_type, UNION_FS_TYPE) == 0 &&
	       strcmp(info->source, volume) == 0;
}

static uint64_t attributes_of(const publish_request *request)
{
	return capability_mount_attributes(request->volume_capability) |
	       (request->readonly ? MOUNT_ATTR_RDONLY : 0);
}

/* What is there of before: a dead mount, or one with other attributes. */
static int clear(const char *volume, const char *target, struct error *err)
{
	struct mount_info info;
	int r = bind_find(target, &info, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (!node_show_is_ours(&info, volume))
		return error_set(err, EBUSY,
				 "'%s' is a mount point of something else",
				 target);
	return mounts_remove(info.target, true, err);
}

int node_show(const char *volume, const publish_request *request,
	      struct error *err)
{
	const char *source = request->staging_target_path;
	const char *target = request->target_path;
	uint64_t attributes = attributes_of(request);
	int r;

	if (bind_is_made(source, target, attributes))
		return 0;
	r = clear(volume, target, err);
	if (r == 0)
		r = bind_target_make(target, err);
	if (r < 0) {
		(void)error_prefix(err, "target_path: ");
		return r;
	}
	r = bind_make(source, target, attributes, 0, err);
	if (r < 0)
		(void)bind_target_remove(target, NULL); /* it was empty */
	return r;
}

int node_show_restore(const publish_request *request, struct error *err)
{
	return bind_make(request->target_path, request->staging_target_path, 0,
			 attributes_of(request), err);
}

int node_hide(const char *volume, const char *target, struct error *err)
{
	struct mount_info info;
	int r = bind_find(target, &info, err);

	if (r == 0 && !node_show_is_ours(&info, volume))
		return error_set(err, EBUSY,
				 "what is mounted at '%s' is not this volume; "
				 "it is left alone",
				 target);
	if (r == 0)
		r = mounts_remove(info.target, false, err);
	if (r == 0 || r == -ENOENT)
		r = bind_target_remove(target, err);
	return r;
}
