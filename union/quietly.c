/* SPDX-License-Identifier: Apache-2.0 */
#include "union/quietly.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "union/naming.h"

int quietly_begin(struct unionfs *fs, unsigned branch, int fd,
		  struct quietly *ret)
{
	struct copy *copy = NULL;
	struct node *node;
	struct stat st;
	int r = handle_get(fd, "", &ret->handle);

	if (r < 0)
		return r;
	node = node_hold(&fs->nodes, branch, &ret->handle);
	ret->mark = node ? naming_mark(node) : 0;
	r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0) {
		ret->times[0] = st.st_atim;
		ret->times[1] = st.st_mtim;
		ret->change.shown = st.st_ctim;
		copy = node ? node_copy_on(node, branch) : NULL;
	}
	if (copy)
		ret->change.shown = node_shown_ctime(&fs->nodes, copy,
						     &st.st_ctim);
	if (node)
		node_let_go(&fs->nodes, node);
	return r;
}

/* What was made by a user meanwhile is not to look older than it is. */
static void touch(int fd)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  {.tv_nsec = UTIME_NOW}};

	(void)utimensat(fd, "", times, AT_EMPTY_PATH);
}

/* @node: NULL: nobody knows the directory. */
static void set_back(struct unionfs *fs, const struct node *node,
		     unsigned branch, int fd, struct quietly *quietly)
{
	struct stat st;

	if (node && !naming_is_still(node, quietly->mark))
		return;
	/* A wrong time is no harm. */
	(void)utimensat(fd, "", quietly->times, AT_EMPTY_PATH);
	if (fstat(fd, &st) < 0)
		return;
	if (node && !naming_is_still(node, quietly->mark)) {
		touch(fd);
		return;
	}
	quietly->change.after = st.st_ctim;
	node_change_quietly(&fs->nodes, branch, &quietly->handle,
			    &quietly->change);
}

void quietly_end(struct unionfs *fs, unsigned branch, int fd,
		 struct quietly *quietly)
{
	struct node *node = node_hold(&fs->nodes, branch, &quietly->handle);

	set_back(fs, node, branch, fd, quietly);
	if (node)
		node_let_go(&fs->nodes, node);
}
