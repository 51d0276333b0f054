/* SPDX-License-Identifier: Apache-2.0 */
/* What the asker does, and the line in which it tells. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "blockd/local/local_ask.h"

#define SYS_BLOCK "/sys/block"

/* The device by its number, where /dev has no node for it. */
static int open_by_number(const char *name)
{
	char path[sizeof(SYS_BLOCK) + LOCAL_NAME_MAX + sizeof("//dev")];
	char node[64];
	unsigned major_number, minor_number;
	FILE *file;
	int fd, n;

	(void)snprintf(path, sizeof(path), SYS_BLOCK "/%s/dev", name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	n = fscanf(file, "%u:%u", &major_number, &minor_number);
	(void)fclose(file); /* was only read */
	if (n != 2)
		return -EIO;
	(void)snprintf(node, sizeof(node), "/run/.tributary-loop-%d-%u",
		       (int)getpid(), minor_number);
	(void)unlink(node);
	if (mknod(node, S_IFBLK | 0600, makedev(major_number, minor_number)) <
	    0)
		return -errno;
	fd = open(node, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (fd < 0)
		fd = -errno;
	(void)unlink(node);
	return fd;
}

static int open_device(const char *name)
{
	char path[sizeof("/dev/") + LOCAL_NAME_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "/dev/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0)
		return fd;
	return errno == ENOENT ? open_by_number(name) : -errno;
}

void local_answer_get(const char *name, struct local_answer *ret)
{
	struct local_answer answer = {0};
	struct loop_info64 info;
	auto_close int fd = open_device(name);

	if (fd < 0)
		answer.error = -fd;
	else if (ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		answer.error = errno;
	else
		answer = (struct local_answer){
			.bound = true,
			.read_only = info.lo_flags & LO_FLAGS_READ_ONLY,
			.device = info.lo_device,
			.inode = info.lo_inode,
		};
	if (answer.error == ENXIO || answer.error == ENOENT ||
	    answer.error == ENODEV)
		answer.error = 0; /* it has gone, or holds nothing */
	*ret = answer;
}

/* ---- the line ---- */

const char *local_answer_format(const struct local_answer *answer, char *buf)
{
	if (answer->error)
		(void)snprintf(buf, LOCAL_ANSWER_MAX, "error %d\n",
			       answer->error);
	else if (!answer->bound)
		(void)snprintf(buf, LOCAL_ANSWER_MAX, "free\n");
	else
		(void)snprintf(buf, LOCAL_ANSWER_MAX,
			       "%s device=%" PRIu64 " inode=%" PRIu64 "\n",
			       answer->read_only ? "reads" : "writes",
			       answer->device, answer->inode);
	return buf;
}

int local_answer_parse(const char *text, struct local_answer *ret)
{
	struct local_answer answer = {0};
	char again[LOCAL_ANSWER_MAX];

	if (sscanf(text, "error %d", &answer.error) != 1)
		answer.error = 0;
	answer.read_only = strncmp(text, "reads ", 6) == 0;
	answer.bound = answer.read_only || strncmp(text, "writes ", 7) == 0;
	if (answer.bound &&
	    sscanf(strchr(text, ' '), " device=%" SCNu64 " inode=%" SCNu64,
		   &answer.device, &answer.inode) != 2)
		return -EBADMSG;
	/* Only what we would have written ourselves. */
	if (strcmp(local_answer_format(&answer, again), text) != 0)
		return -EBADMSG;
	*ret = answer;
	return 0;
}
