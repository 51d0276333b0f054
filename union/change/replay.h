/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays of requests for a name: a killed server was doing the request, and it
 * comes again (reply_cache.h). The branches show how much of it had been done.
 * The kernel holds the directories of the names until the request is answered.
 * So their content is as the request found it, or as the request made it. Only
 * where others change the branches, too, is the content read beforehand.
 *
 * Without reply_cache.h nothing is noted, and none of these returns true.
 */
#ifndef UNION_REPLAY_H
#define UNION_REPLAY_H

#include "union/change/place.h"
#include "union/view/lookup.h"

/* Note that @name is absent, before it is made in @dir. */
void replay_note_absent(struct unionfs *fs, struct request *request,
			struct node *dir, const char *name);

/* Was the inode @handle given the @name in @dirfd already? */
bool replay_is_linked(const struct request *request, int dirfd,
		      const char *name, const struct handle *handle);

/*
 * Find a file that was made already. 1: @ret says where, its result is -1; 0:
 * it was not made; or -errno.
 */
int replay_find_made(struct unionfs *fs, const struct request *request,
		     struct node *parent, const struct to_place *what,
		     struct placed *ret);

/*
 * Note the first of @hits, found as @name, before it gets another name or none.
 */
void replay_note_hit(struct request *request, const struct hit *hit,
		     const char *name);

/*
 * Did that happen already? @hits is found as @name now; @count is as
 * lookup_needed() returned it.
 */
bool replay_went(const struct request *request, const struct hit *hits,
		 int count, const char *name);

#endif
