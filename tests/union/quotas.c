/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/quotas.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ROOMY         1 /* which file system has no limits */
#define PROJECT       77
#define SPACE_MOST_KB 96
#define NAMES_MOST    10

/* Ids that calls are done with, and that new files of a directory may have. */
static const unsigned ids[] = {1000, 2000, 3000};

/* Which limits a file system has, of one run. */
static unsigned type_of(const struct quotas *q, unsigned i)
{
	static const unsigned types[] = {USRQUOTA, GRPQUOTA, PRJQUOTA};
	struct dice dice = q->dice;

	while (i--)
		(void)dice_next(&dice);
	return types[dice_roll(&dice, array_size(types))];
}

static int open_fs(const struct quotas *q, unsigned i)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/fs%u", q->dir, i);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int set_limit(int fd, unsigned type, unsigned id, uint64_t bytes,
		     uint64_t names)
{
	/* Rounded up: blocks of a quota are 1 KiB. */
	struct if_dqblk limit = {.dqb_bhardlimit = (bytes + 1023) / 1024,
				 .dqb_ihardlimit = names,
				 .dqb_valid = QIF_LIMITS};

	return syscall(SYS_quotactl_fd, fd, QCMD(Q_SETQUOTA, type), id,
		       &limit) < 0
		       ? -errno
		       : 0;
}

static int get(int fd, unsigned type, unsigned id, struct if_dqblk *ret)
{
	memset(ret, 0, sizeof(*ret));
	return syscall(SYS_quotactl_fd, fd, QCMD(Q_GETQUOTA, type), id, ret) < 0
		       ? -errno
		       : 0;
}

static int lift(int fd)
{
	unsigned i;
	int r = set_limit(fd, PRJQUOTA, PROJECT, 0, 0);

	for (i = 0; i < array_size(ids) && r == 0; i++) {
		r = set_limit(fd, USRQUOTA, ids[i], 0, 0);
		if (r == 0)
			r = set_limit(fd, GRPQUOTA, ids[i], 0, 0);
	}
	return r;
}

/* All in @branch is of the project. */
static int make_project(const char *branch)
{
	auto_close int fd = open(branch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fsxattr attr;

	if (fd < 0 || ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
		return -errno;
	attr.fsx_projid = PROJECT;
	attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	return ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0 ? -errno : 0;
}

int quotas_prepare(struct quotas *q, uint64_t seed, struct error *err)
{
	unsigned i, on;
	int r = 0;

	if (!q->file_systems)
		return error_set(err, EINVAL, "no file system is there");
	dice_init(&q->dice, seed ^ 0x9407a);
	for (i = 0; i < q->file_systems && r == 0; i++) {
		auto_close int fd = open_fs(q, i);

		r = lift(fd);
	}
	for (i = 0; i < q->count && r == 0; i++) {
		on = i % q->file_systems;
		if (on != ROOMY && type_of(q, on) == PRJQUOTA)
			r = make_project(q->branches[i]);
	}
	return r < 0 ? error_set(err, -r, "quotas: %s", strerror(-r)) : 0;
}

static int begin_one(struct dice *dice, int fd, unsigned type, unsigned id)
{
	struct if_dqblk now;
	int r = get(fd, type, id, &now);

	return r < 0 ? r
		     : set_limit(fd, type, id,
				 now.dqb_curspace +
					 1024 * (1 + dice_roll(dice,
							       SPACE_MOST_KB)),
				 now.dqb_curinodes + 1 +
					 dice_roll(dice, NAMES_MOST));
}

int quotas_begin(struct quotas *q, struct error *err)
{
	struct dice dice = q->dice;
	unsigned i, j, type;
	int r = 0;

	for (i = 0; i < q->file_systems && r == 0; i++) {
		auto_close int fd = open_fs(q, i);

		type = type_of(q, i);
		if (i == ROOMY)
			continue;
		if (type == PRJQUOTA)
			r = begin_one(&dice, fd, type, PROJECT);
		for (j = 0; j < array_size(ids) && r == 0 && type != PRJQUOTA;
		     j++)
			r = begin_one(&dice, fd, type, ids[j]);
	}
	return r < 0 ? error_set(err, -r, "quotas: %s", strerror(-r)) : 0;
}

static int check_one(int fd, unsigned i, unsigned type, unsigned id, char *said)
{
	struct if_dqblk now;
	int r = get(fd, type, id, &now);

	if (r == 0 && now.dqb_curspace <= now.dqb_bhardlimit * 1024 &&
	    now.dqb_curinodes <= now.dqb_ihardlimit)
		return 0;
	(void)snprintf(said, QUOTAS_SAY_MAX,
		       "fs%u: %s %u has %llu bytes of %llu KiB and %llu names "
		       "of %llu\n",
		       i,
		       type == USRQUOTA   ? "user"
		       : type == GRPQUOTA ? "group"
					  : "project",
		       id, (unsigned long long)now.dqb_curspace,
		       (unsigned long long)now.dqb_bhardlimit,
		       (unsigned long long)now.dqb_curinodes,
		       (unsigned long long)now.dqb_ihardlimit);
	return 1;
}

int quotas_check(const struct quotas *q, char said[QUOTAS_SAY_MAX])
{
	unsigned i, j, type;
	int r = 0;

	for (i = 0; i < q->file_systems && r == 0; i++) {
		auto_close int fd = open_fs(q, i);

		type = type_of(q, i);
		if (i == ROOMY)
			continue;
		if (type == PRJQUOTA)
			r = check_one(fd, i, type, PROJECT, said);
		for (j = 0; j < array_size(ids) && r == 0 && type != PRJQUOTA;
		     j++)
			r = check_one(fd, i, type, ids[j], said);
	}
	return r;
}
