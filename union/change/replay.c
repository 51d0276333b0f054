/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/replay.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/state/reply_cache.h"

static bool was_noted(const struct request *request, enum reply_cache_note note,
		      struct reply_cache_noted *ret)
{
	return reply_cache_noted(request, ret) && ret->note == note;
}

void replay_note_absent(struct unionfs *fs, struct request *request,
			struct node *dir, const char *name)
{
	struct hit *hits;
	int n = 0;

	/* Else the kernel knows that the name is absent. */
	if (fs->shared && reply_cache_wants_note(request))
		n = lookup_all(fs, dir, name, &hits);
	if (n > 0)
		lookup_hits_done(hits, n);
	if (n == 0)
		reply_cache_note(request, REPLY_CACHE_ABSENT);
}

bool replay_is_linked(const struct request *request, int dirfd,
		      const char *name, const struct handle *handle)
{
	struct reply_cache_noted noted;

	return was_noted(request, REPLY_CACHE_ABSENT, &noted) &&
	       handle_is_at(dirfd, name, handle);
}

int replay_find_made(struct unionfs *fs, const struct request *request,
		     struct node *parent, const struct to_place *what,
		     struct placed *ret)
{
	struct reply_cache_noted noted;
	struct hit *hits;
	int n, r = 0;

	if (!what->name || !was_noted(request, REPLY_CACHE_ABSENT, &noted))
		return 0;
	n = lookup_all(fs, parent, what->name, &hits);
	if (n <= 0)
		return n;
	if ((hits[0].st.st_mode & S_IFMT) == what->type) {
		ret->dir = take_ptr(hits[0].fd);
		ret->branch = hits[0].dir->branch;
		ret->result = -1;
		r = 1;
	}
	lookup_hits_done(hits, n);
	return r;
}

void replay_note_hit(struct request *request, const struct hit *hit,
		     const char *name)
{
	struct handle handle;

	/* Without a note a replay may fail, as if the file were gone. */
	if (reply_cache_wants_note(request) &&
	    handle_get(hit->fd->fd, name, &handle) == 0)
		reply_cache_note_file(request, hit->dir->branch, &handle);
}

static bool is_noted_hit(const struct hit *hit, const char *name,
			 const struct reply_cache_noted *noted)
{
	struct handle there;

	return hit->dir->branch == noted->branch &&
	       (handle_get(hit->fd->fd, name, &there) < 0 ||
		handle_equal(&there, &noted->handle));
}

bool replay_went(const struct request *request, const struct hit *hits,
		 int count, const char *name)
{
	struct reply_cache_noted noted;
	int i;

	if (!was_noted(request, REPLY_CACHE_PRESENT, &noted))
		return false;
	for (i = 0; i < count; i++)
		if (is_noted_hit(&hits[i], name, &noted))
			return false;
	return count > 0 || count == -ENOENT;
}
