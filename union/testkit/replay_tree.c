/* SPDX-License-Identifier: Apache-2.0 */
#include "union/testkit/replay_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch.h"
#include "union/testkit/replay_acts.h"

#include <cmocka.h>

__attribute__((format(printf, 2, 3))) static void say(struct replay_tree *tree,
						      const char *format, ...)
{
	size_t room = sizeof(tree->data) - tree->used;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(tree->data + tree->used, room, format, args);
	va_end(args);
	assert_true(n >= 0 && (size_t)n < room);
	tree->used += (size_t)n;
}

static int is_listed(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 &&
	       strcmp(entry->d_name, "..") != 0;
}

static void describe_dir(int dirfd, const char *path, struct replay_tree *tree);

static void describe(int dirfd, const char *path, const char *name,
		     struct replay_tree *tree)
{
	char whole[300], value[64] = "", at[64];
	auto_close int fd = -1;
	struct stat st;
	ssize_t n;

	(void)snprintf(whole, sizeof(whole), "%s/%s", path, name);
	/* Files kept in the work directory have the time in their names. */
	if (strstr(path, BRANCH_WORK_DIR)) {
		if (strncmp(name, "hidden-", 7) == 0)
			say(tree, "hidden\n");
		return;
	}
	assert_int_equal(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	if (strcmp(name, BRANCH_WORK_DIR) != 0)
		say(tree, "%s %o %u", whole, st.st_mode,
		    S_ISDIR(st.st_mode) ? 0 : (unsigned)st.st_nlink);
	fd = openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", fd);
	n = getxattr(at, ACT_ATTRIBUTE, value, sizeof(value));
	if (n > 0 && !S_ISLNK(st.st_mode))
		say(tree, " [%.*s]", (int)n, value);
	if (S_ISREG(st.st_mode)) {
		fd_close(fd);
		fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
		n = read(fd, value, sizeof(value));
		say(tree, " '%.*s'", (int)n, value);
	}
	if (strcmp(name, BRANCH_WORK_DIR) != 0)
		say(tree, "\n");
	if (S_ISDIR(st.st_mode))
		describe_dir(fd, whole, tree);
}

static void describe_dir(int dirfd, const char *path, struct replay_tree *tree)
{
	struct dirent **entries;
	int i, n = scandirat(dirfd, ".", &entries, is_listed, alphasort);

	assert_true(n >= 0);
	for (i = 0; i < n; i++) {
		describe(dirfd, path, entries[i]->d_name, tree);
		free(entries[i]);
	}
	free(entries);
}

void replay_tree_describe(const char *top, struct replay_tree *tree)
{
	auto_close int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	tree->used = 0;
	describe_dir(fd, "", tree);
}
