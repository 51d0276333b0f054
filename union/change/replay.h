/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for a name that a server was doing when it was killed comes again
 * (see reply_cache.h): how much of it had been done is read from the branches.
 * The kernel holds the directories of the names until it is answered, so what
 * is there now is what the request found or what it made of it. Only where
 * others change the branches, too, is it asked beforehand what is there.
 *
 * Without reply_cache.h nothing is noted and none of these says yes.
 */
#ifndef UNION_REPLAY_H
#define UNION_REPLAY_H

#include "union/change/place.h"
#include "union/view/lookup.h"

/* Before @name is made in @dir, which needs it to be absent. */
void replay_note_absent(struct unionfs *fs, struct node *dir, const char *name);

/* Was the inode @handle given the @name in @dirfd already? */
bool replay_is_linked(int dirfd, const char *name, const struct handle *handle);

/*
 * place_new(), unless it was made already, of @type (S_IFMT bits). Then @ret
 * says where, its result is -1, and this returns 1. 0: it is made; or -errno.
 */
int replay_place(struct unionfs *fs, fuse_req_t req, struct node *parent,
		 const struct to_place *what, mode_t type, struct placed *ret);

/* Before the first of @hits, found as @name, gets another name or none. */
void replay_note_hit(const struct hit *hit, const char *name);

/*
 * Did that happen already? @hits is what is found as @name now; @count as
 * lookup_needed() returned it.
 */
bool replay_went(const struct hit *hits, int count, const char *name);

#endif
