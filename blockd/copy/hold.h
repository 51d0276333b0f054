/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds: named sets of extents whose content stays as it is for a moment. Each
 * has a time limit, after which it lapses by itself and the writes go on. A cut
 * under a hold asks afterwards whether the hold lasted.
 *
 * The gates of the extents hold the writes that come through blockd. A file
 * system that is mounted on a loop device over an extent's data file is frozen
 * (blockd/local/freeze.h).
 *
 * Any thread; a function may wait for as long as the hold may last.
 */
#ifndef BLOCKD_HOLD_H
#define BLOCKD_HOLD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct extent;
struct holds;

#define HOLD_EXTENTS_MAX 256
#define HOLD_MS_MAX      10000

/*
 * @state_dir the place of notes of frozen file systems; those left frozen thaw
 */
int holds_new(const char *state_dir, struct holds **ret, struct error *err);
/* Ends all. NULL is fine. */
void holds_free(struct holds *holds);

/*
 * @id       up to 36 bytes
 * @extents  1 to HOLD_EXTENTS_MAX, none twice; references are taken
 * @alone    they are cut one by one, each at one instant of the kernel. Then a
 *           local device without a file system may hold them
 *
 * 0: all writes that were under way have ended. The same hold again begins its
 * time anew. -ESTALE: a hold of that id has ended; -EEXIST: it holds others;
 * -EBUSY: a local device without a file system writes to one; -ETIMEDOUT: the
 * writes under way did not end in time.
 */
int holds_begin(struct holds *holds, const char *id,
		struct extent *const *extents, size_t n, unsigned timeout_ms,
		bool alone, struct error *err);

/* All that have begun. */
void holds_end_all(struct holds *holds);

/* False: there is none, or it has lapsed. */
bool holds_end(struct holds *holds, const char *id);

/* -ESTALE: it has lapsed, there is none, or it does not hold all of these. */
int holds_check(struct holds *holds, const char *id,
		struct extent *const *extents, size_t n, struct error *err);

#endif
