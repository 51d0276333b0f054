/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/stale_mounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/kernel/mount_ns.h"
#include "volume/mount/union_process.h"

/* "36 35 98:0 /root /target options - type source options" */
static int stale_mounts_line(const char *line, const char *volume, dev_t alive)
{
	static const char type[] = " - " UNION_FS_TYPE " ";
	const char *at = strstr(line, type);
	size_t length = strlen(volume);
	dev_t device;
	int target;

	if (!at || strncmp(at + strlen(type), volume, length) != 0 ||
	    at[strlen(type) + length] != ' ')
		return 0;
	return mount_ns_line(line, &device, &target) && device != alive;
}

struct search {
	const char *volume;
	dev_t alive;
	char *user;
};

static int stale_search(void *context, const struct mount_ns *space)
{
	const struct search *s = context;
	auto_free char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, space->mounts) > 0)
		if (stale_mounts_line(line, s->volume, s->alive)) {
			mount_ns_user(space, s->user);
			return 1;
		}
	return 0;
}

int stale_mounts_find(const char *volume, dev_t alive, char *ret)
{
	struct search s = {volume, alive, ret};

	return mount_ns_walk(stale_search, &s);
}
