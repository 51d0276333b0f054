/* SPDX-License-Identifier: Apache-2.0 */
#include "union/config/mount_words.h"

#include <errno.h>
#include <string.h>
#include <sys/mount.h>

#include "base/cleanup.h"

/* Attributes that end on a mount when no option says them. */
#define ENDING                                                      \
	(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | \
	 MOUNT_ATTR_NODIRATIME | MOUNT_ATTR_NOSYMFOLLOW)

#define OF_BRANCHES "it is the file systems' of the branches: mount those so"
#define PROPAGATION \
	"how mounts spread is set once it is mounted: mount --make-..."
#define ANOTHER "it is mounted from elsewhere so: mount --bind, --move"

#define SAYS(attribute)   .said = (attribute), .set = (attribute)
#define ENDS(attribute)   .said = (attribute)
#define ACCESS(attribute) .said = MOUNT_ATTR__ATIME, .set = (attribute)
#define FS_SAYS(flag)     .fs_said = (flag), .fs_set = (flag)
#define FS_ENDS(flag)     .fs_said = (flag)
#define LIBFUSE           .libfuse = true

static const struct row {
	const char *name;
	uint64_t said, set;       /* MOUNT_ATTR_* */
	unsigned fs_said, fs_set; /* MOUNT_FS_* */
	bool libfuse;             /* any libfuse takes it */
	/* Access time that this option ends, if it only ends another. */
	uint64_t ends;
	const char *refusal;
} rows[] = {
	{.name = "ro", SAYS(MOUNT_ATTR_RDONLY), FS_SAYS(MOUNT_FS_RO), LIBFUSE},
	{.name = "rw", ENDS(MOUNT_ATTR_RDONLY), FS_ENDS(MOUNT_FS_RO), LIBFUSE},
	{.name = "nosuid", SAYS(MOUNT_ATTR_NOSUID), LIBFUSE},
	{.name = "suid", ENDS(MOUNT_ATTR_NOSUID), LIBFUSE},
	{.name = "nodev", SAYS(MOUNT_ATTR_NODEV), LIBFUSE},
	{.name = "dev", ENDS(MOUNT_ATTR_NODEV), LIBFUSE},
	{.name = "noexec", SAYS(MOUNT_ATTR_NOEXEC), LIBFUSE},
	{.name = "exec", ENDS(MOUNT_ATTR_NOEXEC), LIBFUSE},
	{.name = "nosymfollow", SAYS(MOUNT_ATTR_NOSYMFOLLOW)},
	{.name = "symfollow", ENDS(MOUNT_ATTR_NOSYMFOLLOW)},
	{.name = "sync", FS_SAYS(MOUNT_FS_SYNC), LIBFUSE},
	{.name = "async", FS_ENDS(MOUNT_FS_SYNC), LIBFUSE},
	{.name = "dirsync", FS_SAYS(MOUNT_FS_DIRSYNC), LIBFUSE},
	{.name = "noatime", ACCESS(MOUNT_ATTR_NOATIME), LIBFUSE},
	{.name = "relatime", ACCESS(MOUNT_ATTR_RELATIME)},
	{.name = "strictatime", ACCESS(MOUNT_ATTR_STRICTATIME)},
	{.name = "atime",
	 ACCESS(MOUNT_ATTR_RELATIME),
	 .ends = MOUNT_ATTR_NOATIME},
	{.name = "nostrictatime",
	 ACCESS(MOUNT_ATTR_RELATIME),
	 .ends = MOUNT_ATTR_STRICTATIME},
	{.name = "nodiratime", SAYS(MOUNT_ATTR_NODIRATIME)},
	{.name = "diratime", ENDS(MOUNT_ATTR_NODIRATIME)},
	/* Options that are the rule in a union anyhow. */
	{.name = "noiversion"},
	{.name = "nomand"},
	{.name = "loud"},
	{.name = "norelatime",
	 .refusal = "say which access times there are instead: strictatime or "
		    "noatime"},
	{.name = "lazytime", .refusal = OF_BRANCHES},
	{.name = "nolazytime", .refusal = OF_BRANCHES},
	{.name = "iversion",
	 .refusal = "the kernel counts no versions of a FUSE file system's "
		    "files"},
	{.name = "mand",
	 .refusal = "there are no mandatory locks in Linux any more: leave it "
		    "out"},
	{.name = "rbind", .refusal = ANOTHER},
	{.name = "move", .refusal = ANOTHER},
	{.name = "private", .refusal = PROPAGATION},
	{.name = "rprivate", .refusal = PROPAGATION},
	{.name = "slave", .refusal = PROPAGATION},
	{.name = "rslave", .refusal = PROPAGATION},
	{.name = "rshared", .refusal = PROPAGATION},
	{.name = "unbindable", .refusal = PROPAGATION},
	{.name = "runbindable", .refusal = PROPAGATION},
};

static void take_row(struct mount_words *words, const struct row *row)
{
	if (row->ends && words->said & MOUNT_ATTR__ATIME &&
	    (words->set & MOUNT_ATTR__ATIME) != row->ends)
		return;
	words->said |= row->said;
	words->set = (words->set & ~row->said) | row->set;
	words->fs_said |= row->fs_said;
	words->fs_set = (words->fs_set & ~row->fs_said) | row->fs_set;
}

static const struct row *find_word(const char *word, size_t length)
{
	for (size_t i = 0; i < array_size(rows); i++)
		if (strlen(rows[i].name) == length &&
		    strncmp(rows[i].name, word, length) == 0)
			return &rows[i];
	return NULL;
}

int mount_words_take(struct mount_words *words, const char *word,
		     bool *ret_libfuse, struct error *err)
{
	const struct row *row = find_word(word, strlen(word));

	if (ret_libfuse)
		*ret_libfuse = row && row->libfuse;
	if (row && row->refusal)
		return error_set(err, EINVAL, "option '%s': %s", word,
				 row->refusal);
	if (row)
		take_row(words, row);
	else if (strcmp(word, "remount") == 0)
		words->remount = true;
	else if (strcmp(word, "bind") == 0)
		words->bind = true;
	else if (strcmp(word, "silent") == 0)
		words->silent = true;
	else
		return -ENOENT;
	return 0;
}

/*
 * End noatime when no word says it: mount(8) leaves it out to end it. Other
 * access times stay without a word, as in mount(2).
 */
static void complete_access(struct mount_words *words,
			    const struct mount_words *now)
{
	if (words->said & MOUNT_ATTR__ATIME ||
	    (now->set & MOUNT_ATTR__ATIME) != MOUNT_ATTR_NOATIME)
		return;
	words->said |= MOUNT_ATTR__ATIME;
	words->set |= MOUNT_ATTR_RELATIME;
}

void mount_words_complete(struct mount_words *words,
			  const struct mount_words *now)
{
	complete_access(words, now);
	if (!words->bind)
		words->fs_said |= MOUNT_FS_SYNC;
	words->said |= ENDING;
	/* An access time is one of several: it differs as a whole. */
	if ((words->set & MOUNT_ATTR__ATIME) == (now->set & MOUNT_ATTR__ATIME))
		words->said &= ~MOUNT_ATTR__ATIME;
	words->said &= (words->set ^ now->set) | MOUNT_ATTR__ATIME;
	words->fs_said &= words->fs_set ^ now->fs_set;
}

/* Take all words of a list from proc(5) that are known. */
static void take_all(struct mount_words *words, const char *list)
{
	for (; *list; list += strcspn(list, ","), list += *list == ',') {
		const struct row *row = find_word(list, strcspn(list, ","));

		if (row && !row->refusal)
			take_row(words, row);
	}
}

void mount_words_of_mount(const char *options, struct mount_words *ret)
{
	memset(ret, 0, sizeof(*ret));
	/* Defaults, which proc(5) does not list. */
	take_all(ret, "rw,suid,dev,exec,symfollow,strictatime,diratime");
	take_all(ret, options);
	ret->fs_said = ret->fs_set = 0;
}

void mount_words_of_fs(const char *options, struct mount_words *ret)
{
	struct mount_words all = {0};

	take_all(&all, options);
	ret->fs_said = MOUNT_FS_RO | MOUNT_FS_SYNC | MOUNT_FS_DIRSYNC;
	ret->fs_set = all.fs_set;
}
