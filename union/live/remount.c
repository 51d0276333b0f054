/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/remount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/config/options.h"
#include "union/live/mount_strict.h"

struct asked {
	const char *spec, *target; /* of the command line */
	char list[REMOUNT_TEXT_MAX];
	bool remounts, whole;
};

static void add_option(struct asked *asked, const char *list)
{
	size_t n = strlen(asked->list);
	struct union_change change = {0};
	struct error unused = {0};

	(void)snprintf(asked->list + n, sizeof(asked->list) - n, "%s%s",
		       n ? "," : "", list); /* a page of mount(8) fits */
	(void)union_options_change(NULL, list, &change, &unused);
	asked->remounts = asked->remounts || change.words.remount;
	union_change_done(&change);
}

static void read_arguments(int argc, char **argv, struct asked *ret)
{
	int i;

	memset(ret, 0, sizeof(*ret));
	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
			add_option(ret, argv[++i]);
		else if (strncmp(argv[i], "-o", 2) == 0)
			add_option(ret, argv[i] + 2);
		else if (argv[i][0] == '-')
			continue;
		else if (!ret->spec)
			ret->spec = argv[i];
		else if (!ret->target)
			ret->target = argv[i];
	}
}

bool remount_is_wanted(int argc, char **argv)
{
	struct asked asked;

	read_arguments(argc, argv, &asked);
	return asked.remounts;
}

static int ask_union(int fd, enum remount_step step, const struct asked *asked,
		     struct error *err)
{
	struct remount_call call = {.step = step, .whole = asked->whole};

	(void)snprintf(call.text, sizeof(call.text), "%.*s\n%.*s",
		       REMOUNT_TEXT_MAX / 2 - 2, asked->spec,
		       REMOUNT_TEXT_MAX / 2 - 2, asked->list); /* checked */
	if (ioctl(fd, REMOUNT_IOCTL, &call) < 0)
		return error_set(err, errno,
				 "'%s': its server knows no such "
				 "change: %s",
				 asked->target, strerror(errno));
	call.text[sizeof(call.text) - 1] = '\0';
	return call.error ? error_set(err, call.error, "%s", call.text) : 0;
}

/* Change the options of the file system: ro, sync. */
static int change_fs(int root, unsigned said, unsigned set)
{
	auto_close int fd = -1;
	int r = 0;

	if (!(said & (MOUNT_FS_RO | MOUNT_FS_SYNC)))
		return 0;
	fd = fspick(root, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
	if (fd < 0)
		return -errno;
	if (said & MOUNT_FS_RO)
		r = fsconfig(fd, FSCONFIG_SET_FLAG,
			     set & MOUNT_FS_RO ? "ro" : "rw", NULL, 0);
	if (r == 0 && said & MOUNT_FS_SYNC)
		r = fsconfig(fd, FSCONFIG_SET_FLAG,
			     set & MOUNT_FS_SYNC ? "sync" : "async", NULL, 0);
	if (r == 0)
		r = fsconfig(fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0);
	return r < 0 ? -errno : 0;
}

static int change_mount(int root, uint64_t said, uint64_t set)
{
	struct mount_attr attr = {.attr_set = set & said,
				  .attr_clr = said & ~set};

	if (said & MOUNT_ATTR__ATIME)
		attr.attr_clr |= MOUNT_ATTR__ATIME;
	return said && mount_setattr(root, "", AT_EMPTY_PATH, &attr,
				     sizeof(attr)) < 0
		       ? -errno
		       : 0;
}

static int change_all_mounts(int root, const struct mount_words *to)
{
	int r = to->bind ? 0 : change_fs(root, to->fs_said, to->fs_set);

	return r < 0 ? r : change_mount(root, to->said, to->set);
}

static int open_root(const struct asked *asked, struct error *err)
{
	auto_close int fd = -1;

	if (!asked->target)
		return error_set(err, EINVAL,
				 "remount needs a source and a directory");
	if (strlen(asked->spec) >= REMOUNT_TEXT_MAX / 2 - 2 ||
	    strlen(asked->list) >= REMOUNT_TEXT_MAX / 2 - 2)
		return error_set(err, E2BIG, "the options are too long");
	fd = open(asked->target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? error_set(err, errno, "'%s': %s", asked->target,
				  strerror(errno))
		      : take_fd(&fd);
}

/* Say what stays, because a branch of the union has it. */
static void say_kept(const struct asked *asked, const char *path, uint64_t said,
		     uint64_t set)
{
	char words[32];

	mount_strict_kept(path, said & ~set, words);
	if (*words)
		log_warning("'%s' stays %s, as a branch of it is; mount it "
			    "with the opposite",
			    asked->target, words + 1);
}

int remount(int argc, char **argv, bool whole, struct error *err)
{
	struct asked asked;
	struct union_change change = {0};
	struct mount_words before;
	auto_free char *path = NULL;
	auto_close int root = -1;
	int r;

	read_arguments(argc, argv, &asked);
	asked.whole = whole;
	root = open_root(&asked, err);
	if (root < 0)
		return root;
	path = realpath(asked.target, NULL);
	if (!path || !mount_strict_own(path, &before))
		return error_set(err, EINVAL, "'%s' is no mount of a union",
				 asked.target);
	r = union_options_change(NULL, asked.list, &change, err);
	if (r == 0)
		r = ask_union(root, REMOUNT_CHECK, &asked, err);
	if (r < 0) {
		union_change_done(&change);
		return r;
	}
	if (whole)
		mount_words_complete(&change.words, &before);
	r = change_all_mounts(root, &change.words);
	if (r < 0)
		r = error_set(err, -r, "'%s': %s", asked.target, strerror(-r));
	else
		r = ask_union(root, REMOUNT_APPLY, &asked, err);
	if (r < 0) {
		before.said &= change.words.said;
		before.fs_said &= change.words.fs_said;
		(void)change_all_mounts(root, &before); /* @err counts */
	} else {
		say_kept(&asked, path, change.words.said, change.words.set);
	}
	union_change_done(&change);
	return r;
}
