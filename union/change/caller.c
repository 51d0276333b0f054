/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/caller.h"

#include <linux/capability.h>
#include <stdio.h>

#define GROUPS_ASKED 1024 /* those beyond are not seen */

bool caller_has(const struct request *request, int capability)
{
	FILE *status;
	unsigned long long caps = 0;
	char path[64], line[256];

	if (request->uid != 0)
		return false;
	(void)snprintf(path, sizeof(path), "/proc/%d/status",
		       (int)request->pid);
	status = fopen(path, "re");
	if (!status) /* Root of another pid namespace is believed. */
		return request->pid == 0;
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	(void)fclose(status); /* was only read */
	return caps >> capability & 1;
}

bool caller_is_admin(const struct request *request)
{
	return caller_has(request, CAP_SYS_ADMIN);
}

bool caller_is_in_group(const struct request *request, gid_t gid)
{
	gid_t groups[GROUPS_ASKED];
	int i, n;

	if (request->gid == gid)
		return true;
	n = fuse_req_getgroups(request->req, GROUPS_ASKED, groups);
	for (i = 0; i < n && i < GROUPS_ASKED; i++)
		if (groups[i] == gid)
			return true;
	return false;
}
