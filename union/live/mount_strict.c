/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/mount_strict.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/submount.h"

#define FS_TYPE     "fuse.trib-union" /* as mount.c has it mounted */
#define OPTIONS_MAX 256               /* of a mount, not of its file system */

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
} strict = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
	FILE *file = fopen(MOUNT_STRICT_TABLE, "re");
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
