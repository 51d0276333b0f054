/* SPDX-License-Identifier: Apache-2.0 */
#include "union/quietly.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "union/naming.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock, which nobody holds while a branch is asked: */
static struct quietly *begun; /* the last first */
static uint64_t ended;

/* Begin with what others that have begun there are to set back. */
static bool join(const struct node *node, struct quietly *quietly)
{
	const struct quietly *other;

	for (other = begun; other; other = other->next) {
		if (other->branch != quietly->branch ||
		    !handle_equal(&other->handle, &quietly->handle) ||
		    (node && !naming_is_still(node, other->mark)))
			continue;
		*quietly = *other;
		return true;
	}
	return false;
}

/* As it is now. */
static int read_times(struct unionfs *fs, const struct node *node, int fd,
		      struct quietly *ret)
{
	const struct copy *copy = node ? node_copy_on(node, ret->branch) : NULL;
	struct stat st;

	ret->mark = node ? naming_mark(node) : 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	ret->times[0] = st.st_atim;
	ret->times[1] = st.st_mtim;
	ret->shown = copy ? node_shown_ctime(&fs->nodes, copy, &st)
			  : st.st_ctim;
	return 0;
}

/*
 * @since  @ended, from before the times were read; UINT64_MAX: they were not.
 *         Who ends meanwhile may have set them back after that
 */
static bool enter(const struct node *node, struct quietly *quietly,
		  uint64_t *since)
{
	bool ready;

	pthread_mutex_lock(&lock);
	ready = join(node, quietly) || ended == *since;
	*since = ended;
	if (ready) {
		quietly->next = begun;
		begun = quietly;
	}
	pthread_mutex_unlock(&lock);
	return ready;
}

int quietly_begin(struct unionfs *fs, unsigned branch, int fd,
		  struct quietly *ret)
{
	uint64_t since = UINT64_MAX;
	struct node *node;
	int r = handle_get(fd, "", &ret->handle);

	if (r < 0)
		return r;
	ret->branch = branch;
	node = node_hold(&fs->nodes, branch, &ret->handle);
	while (r == 0 && !enter(node, ret, &since))
		r = read_times(fs, node, fd, ret);
	if (node)
		node_let_go(&fs->nodes, node);
	return r;
}

static void leave(const struct quietly *quietly)
{
	struct quietly **at = &begun;

	pthread_mutex_lock(&lock);
	while (*at != quietly)
		at = &(*at)->next;
	*at = quietly->next;
	ended++;
	pthread_mutex_unlock(&lock);
}

/* What was made by a user meanwhile is not to look older than it is. */
static void touch(int fd)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
					  {.tv_nsec = UTIME_NOW}};

	(void)utimensat(fd, "", times, AT_EMPTY_PATH);
}

static bool is_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/*
 * The change time is not to be seen. Another that ends now may have changed it
 * once more, and said so first.
 */
static void hide_change(struct unionfs *fs, const struct node *node, int fd,
			const struct quietly *quietly)
{
	struct quiet_change change = {.shown = quietly->shown};
	struct stat st;

	while (fstat(fd, &st) == 0 && !is_time(&st.st_ctim, &change.after)) {
		if (node && !naming_is_still(node, quietly->mark)) {
			touch(fd);
			return;
		}
		change.after = st.st_ctim;
		change.modified = st.st_mtim;
		node_change_quietly(&fs->nodes, quietly->branch,
				    &quietly->handle, &change);
	}
}

/* @node: NULL: nobody knows the directory. */
static void set_back(struct unionfs *fs, const struct node *node, int fd,
		     struct quietly *quietly)
{
	if (node && !naming_is_still(node, quietly->mark))
		return;
	/* A wrong time is no harm. */
	(void)utimensat(fd, "", quietly->times, AT_EMPTY_PATH);
	hide_change(fs, node, fd, quietly);
}

void quietly_end(struct unionfs *fs, int fd, struct quietly *quietly)
{
	struct node *node = node_hold(&fs->nodes, quietly->branch,
				      &quietly->handle);

	set_back(fs, node, fd, quietly);
	leave(quietly);
	if (node)
		node_let_go(&fs->nodes, node);
}
