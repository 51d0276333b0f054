/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/mount_strict.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/submount.h"
#include "union/live/remounted.h"

#define TABLE       "/proc/self/mountinfo" /* proc(5) */
#define FS_TYPE     "fuse.trib-union"      /* as mount.c has it mounted */
#define SETTLE_MS   200                    /* changes together are one */
#define OPTIONS_MAX 256 /* of a mount, not of its file system */

/* Not every libfuse takes these. */
#define LATER \
	(MOUNT_ATTR__ATIME | MOUNT_ATTR_NODIRATIME | MOUNT_ATTR_NOSYMFOLLOW)

static const struct {
	const char *word, *opposite;
	uint64_t attribute;
} flags[] = {
	{"nosuid", "suid", MOUNT_ATTR_NOSUID},
	{"nodev", "dev", MOUNT_ATTR_NODEV},
	{"noexec", "exec", MOUNT_ATTR_NOEXEC},
};

/* One union a process. */
static struct {
	pthread_mutex_t lock;  /* of looking; innermost */
	_Atomic uint64_t said; /* what the union's options say, either way */
	pthread_t thread;
	int stop;  /* an eventfd; -1: there is no thread */
	int table; /* of mounts: readable when it has changed */
	struct unionfs *fs;
} strict = {.lock = PTHREAD_MUTEX_INITIALIZER, .stop = -1, .table = -1};

static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (; list && *list; list += strcspn(list, ",")) {
		list += strspn(list, ",");
		if (strncmp(list, word, length) == 0 &&
		    (list[length] == ',' || !list[length]))
			return true;
	}
	return false;
}

void mount_strict_say(uint64_t which, uint64_t said)
{
	strict.said = (strict.said & ~which) | said;
}

uint64_t mount_strict_said(void)
{
	return strict.said;
}

void mount_strict_begin(const char *mount_flags)
{
	strict.said = 0;
	for (size_t i = 0; i < array_size(flags); i++)
		if (has_word(mount_flags, flags[i].word) ||
		    has_word(mount_flags, flags[i].opposite))
			strict.said |= flags[i].attribute;
}

/* ---- the table of mounts ---- */

struct seen {
	uint64_t wanted; /* of the branches */
	const struct branch *why[array_size(flags)];
	bool mounted; /* the union is what is seen at its mount point */
	uint64_t has; /* attributes of the union, then */
	struct mount_words own; /* and all else that it has */
};

static uint64_t mount_attributes_of(const char *options)
{
	uint64_t set = 0;

	for (size_t i = 0; i < array_size(flags); i++)
		if (has_word(options, flags[i].word))
			set |= flags[i].attribute;
	return set;
}

static bool is_mount_of(const struct unionfs *fs, unsigned i,
			const struct branch *joining, int mount)
{
	const struct branch *branch = i < fs->branches.count
					      ? fs->branches.items[i]
					      : joining;

	return branch && !(branch->flags & BRANCH_GONE) &&
	       atomic_load(&branch->mount_id) == mount;
}

static void see_branches(const struct unionfs *fs, const struct branch *joining,
			 int mount, uint64_t attributes, struct seen *seen)
{
	unsigned count = fs->branches.count;

	for (unsigned i = 0; attributes && i < count + 1; i++) {
		if (!is_mount_of(fs, i, joining, mount))
			continue;
		seen->wanted |= attributes;
		for (size_t k = 0; k < array_size(flags); k++)
			if (attributes & flags[k].attribute && !seen->why[k])
				seen->why[k] = i < count ? fs->branches.items[i]
							 : joining;
	}
}

static const char *last_field(char *line)
{
	const char *field;

	line[strcspn(line, "\n")] = '\0';
	field = strrchr(line, ' ');
	return field ? field + 1 : line;
}

/* The last line of a mount point is what is seen there. */
static void see_line(const struct unionfs *fs, const struct branch *joining,
		     char *line, struct seen *seen)
{
	auto_free char *target = NULL;
	char options[OPTIONS_MAX];
	const char *type = strstr(line, " - ");
	int mount;

	if (sscanf(line, "%d %*d %*s %*s %ms %255s", &mount, &target,
		   options) != 3)
		return;
	see_branches(fs, joining, mount, mount_attributes_of(options), seen);
	submount_unescape(target);
	if (!fs->mountpoint || strcmp(target, fs->mountpoint) != 0)
		return;
	seen->mounted = type &&
			strncmp(type + 3, FS_TYPE " ", sizeof(FS_TYPE)) == 0;
	seen->has = mount_attributes_of(options);
	mount_words_of_mount(options, &seen->own);
	mount_words_of_fs(last_field(line), &seen->own);
}

static int see(const struct unionfs *fs, const struct branch *joining,
	       struct seen *ret)
{
	FILE *file = fopen(TABLE, "re");
	auto_free char *line = NULL;
	size_t size = 0;

	*ret = (struct seen){0};
	if (!file)
		return -errno;
	while (getline(&line, &size, file) > 0)
		see_line(fs, joining, line, ret);
	(void)fclose(file); /* was only read */
	ret->wanted &= ~strict.said;
	return 0;
}

/* ---- the union's mount ---- */

static void log_seen(const struct unionfs *fs, const struct seen *seen,
		     uint64_t news)
{
	for (size_t i = 0; i < array_size(flags); i++)
		if (news & flags[i].attribute && seen->why[i])
			log_warning("'%s' is %s, because branch '%s' is; the "
				    "option '%s' keeps it from that",
				    fs->mountpoint, flags[i].word,
				    seen->why[i]->path, flags[i].opposite);
}

/* ",nosuid,nodev": 32 bytes hold all of them. */
static void put_words(uint64_t attributes, char *ret)
{
	*ret = '\0';
	for (size_t i = 0; i < array_size(flags); i++) {
		if (!(attributes & flags[i].attribute))
			continue;
		(void)strcat(ret, ",");
		(void)strcat(ret, flags[i].word);
	}
}

void mount_strict_options(struct unionfs *fs, char *ret)
{
	struct seen seen;

	if (see(fs, NULL, &seen) < 0)
		seen.wanted = 0;
	put_words(seen.wanted, ret);
	log_seen(fs, &seen, seen.wanted);
}

void mount_strict_of(const char *mountpoint, const char *mount_flags, char *ret)
{
	auto_free char *path = realpath(mountpoint, NULL);
	const struct unionfs fs = {.mountpoint = path};
	struct seen seen = {0};

	mount_strict_begin(mount_flags);
	/* A caller that is not root gets two of them anyway: fusermount3(1). */
	if (path && geteuid() == 0 && see(&fs, NULL, &seen) == 0 &&
	    seen.mounted)
		seen.has &= ~strict.said;
	else
		seen.has = 0;
	put_words(seen.has, ret);
}

void mount_strict_kept(const char *mountpoint, uint64_t attributes, char *ret)
{
	struct mount_words own;

	*ret = '\0';
	if (mount_strict_own(mountpoint, &own))
		put_words(own.set & attributes, ret);
}

int mount_strict_look(struct unionfs *fs, const struct branch *joining)
{
	struct mount_attr change = {0};
	struct seen seen;
	int r;

	pthread_mutex_lock(&strict.lock);
	r = see(fs, joining, &seen);
	change.attr_set = seen.wanted & ~seen.has;
	change.attr_clr = seen.has & ~seen.wanted & ~strict.said &
			  (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			   MOUNT_ATTR_NOEXEC);
	if (r == 0 && seen.mounted && (change.attr_set || change.attr_clr)) {
		if (mount_setattr(AT_FDCWD, fs->mountpoint, AT_NO_AUTOMOUNT,
				  &change, sizeof(change)) < 0)
			r = -errno;
		/* A flag that the kernel does not let us clear may stay. */
		if (r < 0 && !change.attr_set)
			r = 0;
		else if (r == 0)
			log_seen(fs, &seen, change.attr_set);
	}
	pthread_mutex_unlock(&strict.lock);
	return r;
}

bool mount_strict_own(const char *mountpoint, struct mount_words *ret)
{
	const struct unionfs fs = {.mountpoint = mountpoint};
	struct seen seen;

	if (see(&fs, NULL, &seen) < 0 || !seen.mounted)
		return false;
	*ret = seen.own;
	return true;
}

int mount_strict_follow(struct unionfs *fs, struct error *err)
{
	struct mount_words now;
	int r = mount_strict_look(fs, NULL);

	if (r < 0)
		return error_set(err, -r,
				 "it could not become as strict as its "
				 "branches: %s",
				 strerror(-r));
	/* Not seen, as it is detached, or hidden: it stays as it was. */
	return mount_strict_own(fs->mountpoint, &now)
		       ? remounted_follow(fs, &now, err)
		       : 0;
}

/* Set the options that libfuse does not take for the mount. */
static int set_said(const struct unionfs *fs)
{
	const struct mount_words *words = &fs->options->words;
	uint64_t said = words->said & LATER;
	struct mount_attr change = {.attr_set = words->set & said,
				    .attr_clr = said & ~words->set};

	if (said & MOUNT_ATTR__ATIME)
		change.attr_clr |= MOUNT_ATTR__ATIME;
	return said && mount_setattr(AT_FDCWD, fs->mountpoint, AT_NO_AUTOMOUNT,
				     &change, sizeof(change)) < 0
		       ? -errno
		       : 0;
}

/* ---- the thread ---- */

static void *follow(void *unused)
{
	struct pollfd fds[] = {{.fd = strict.stop, .events = POLLIN},
			       {.fd = strict.table, .events = POLLPRI}};

	(void)unused;
	while (poll(fds, array_size(fds), -1) < 0 || !fds[0].revents) {
		struct error err = {0};

		if (poll(fds, 1, SETTLE_MS) > 0)
			break;
		if (mount_strict_follow(strict.fs, &err) < 0)
			log_warning("'%s': %s", strict.fs->mountpoint,
				    error_text(&err));
	}
	return NULL;
}

int mount_strict_start(struct unionfs *fs, bool fresh, struct error *err)
{
	struct error why = {0};
	int r;

	strict.fs = fs;
	r = fresh ? set_said(fs) : 0;
	if (r < 0)
		return error_set(err, -r, "set the options of the mount: %s",
				 strerror(-r));
	/* Changes from here on wake the thread; those before are looked for
	 * here. */
	strict.table = open(TABLE, O_RDONLY | O_CLOEXEC);
	if (strict.table < 0)
		return error_set(err, errno, "follow mounts: %s: %s", TABLE,
				 strerror(errno));
	r = mount_strict_follow(fs, &why);
	if (r < 0 && fresh && fs->branches.atime_said)
		return error_set(err, -r, "%s", error_text(&why));
	if (r < 0)
		log_warning("'%s': %s", fs->mountpoint, error_text(&why));
	strict.stop = eventfd(0, EFD_CLOEXEC);
	if (strict.stop < 0)
		return error_set(err, errno, "follow mounts: %s",
				 strerror(errno));
	r = pthread_create(&strict.thread, NULL, follow, NULL);
	if (r != 0)
		fd_close(take_fd(&strict.stop));
	return r ? error_set(err, r, "follow mounts: %s", strerror(r)) : 0;
}

void mount_strict_stop(void)
{
	if (strict.stop < 0)
		return;
	(void)eventfd_write(strict.stop, 1); /* it cannot be full */
	(void)pthread_join(strict.thread, NULL);
	fd_close(take_fd(&strict.stop));
	fd_close(take_fd(&strict.table));
}
