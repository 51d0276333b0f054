/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quiesces: named sets of extents whose content stays as it is for a moment.
 * Each has a time limit, after which it lapses by itself and the writes go on.
 * A cut under a quiesce asks afterwards whether the quiesce lasted.
 *
 * The gates of the extents stop the writes that come through blockd. A loop
 * device over an extent's data file is frozen by what lies on it
 * (blockd/local/freeze.h). A device with direct runs is held by its pool,
 * before the gates are closed: it waits for requests that pass them. A volume's
 * device of this node is frozen first of all, as its file system then writes to
 * extents, those of other nodes, too.
 *
 * What takes long is prepared before the first device is suspended. Those of
 * the extents are then suspended, and resumed, all at the same time.
 *
 * Any thread; a function may wait for as long as the quiesce may last.
 */
#ifndef BLOCKD_QUIESCE_H
#define BLOCKD_QUIESCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct extent;
struct quiesces;

#define QUIESCE_EXTENTS_MAX 256
#define QUIESCE_MS_MAX      10000

/*
 * @state_dir the place of notes of frozen file systems; those left frozen thaw
 */
int quiesces_new(const char *state_dir, struct quiesces **ret,
		 struct error *err);
/* Ends all. NULL is fine. */
void quiesces_free(struct quiesces *quiesces);

enum quiesce_flags {
	/*
	 * The snapshots need no common instant. Then a local device without a
	 * file system may keep the extents open.
	 */
	QUIESCE_ALONE = 1,
	/*
	 * Only make ready: processes start, file systems are written out. It is
	 * begun by the same call without this flag, or ended. Writes go on.
	 */
	QUIESCE_PREPARE = 2,
};

/*
 * @id       up to 36 bytes
 * @extents  up to QUIESCE_EXTENTS_MAX, none twice; references are taken
 * @device   UUID of a mapper device to freeze; "": none
 * @flags    enum quiesce_flags
 *
 * 0: all writes that were under way have ended. The same quiesce again begins
 * its time anew. -ESTALE: a quiesce of that id has ended; -EEXIST: it has
 * others; -EBUSY: a local device without a file system writes to one;
 * -ETIMEDOUT: the writes under way did not end in time. -ENOENT: no @device.
 */
int quiesce_begin(struct quiesces *quiesces, const char *id,
		  struct extent *const *extents, size_t n, const char *device,
		  unsigned timeout_ms, unsigned flags, struct error *err);

/* All that have begun. */
void quiesces_end(struct quiesces *quiesces);

/* False: there is none, it has lapsed, or some extents were not held so long.
 */
bool quiesce_end(struct quiesces *quiesces, const char *id);

/* -ESTALE: it has lapsed, there is none, or it does not have all of these. */
int quiesce_check(struct quiesces *quiesces, const char *id,
		  struct extent *const *extents, size_t n, struct error *err);

#endif
