/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One quiesce: its extents, and the devices that are suspended for them.
 * blockd/copy/quiesce.h has what it is for.
 *
 * The thread that begins or ends a quiesce makes these calls, without a lock.
 */
#ifndef BLOCKD_QUIESCE_HOLD_H
#define BLOCKD_QUIESCE_HOLD_H

#include <stdint.h>
#include <sys/queue.h>

#include "base/dm/mapper.h"
#include "base/uuid_name.h"
#include "blockd/copy/quiesce.h"

struct quiesce {
	char id[UUID_TEXT_SIZE];
	struct extent **extents;      /* owned, with a reference each */
	struct freeze **frozen;       /* owned; NULL for those that need none */
	struct freeze *above;         /* owned; the volume's device, or NULL */
	char device[MAPPER_NAME_MAX]; /* that one's UUID; "": none */
	/* Owned; those that their pool holds, and how it went. */
	bool *held;
	struct error *errors; /* owned, parallel: of a call for each */
	int *results;         /* owned, parallel */
	size_t n;
	size_t n_closed;  /* gates, of the first ones */
	int64_t until_ms; /* clock_ms() */
	bool alone;       /* quiesce_begin() */
	bool beginning;   /* nobody but who begins it may touch it */
	bool prepared;    /* and not begun */
	LIST_ENTRY(quiesce) in_list;
};

/*
 * Make one that is beginning. Parameters of quiesce_begin(). NULL: no memory.
 */
struct quiesce *quiesce_new(const char *id, struct extent *const *extents,
			    size_t n, const char *device);
/* Free a quiesce that holds nothing, or nothing any more. */
void quiesce_free(struct quiesce *quiesce);

/*
 * Do all that takes long: processes start, file systems are written out, tables
 * are loaded. Writes go on meanwhile. Errors of quiesce_begin(); then
 * quiesce_release() ends it.
 *
 * @frozen_fd  STATE/frozen; borrowed until the release
 */
int quiesce_prepare(struct quiesce *quiesce, int frozen_fd, struct error *err);
/* Suspend what was prepared, and close the gates. Errors as above. */
int quiesce_hold(struct quiesce *quiesce, struct error *err);
/*
 * Let the extents go, and free the quiesce. It is out of every list. False:
 * some were not held all the time.
 */
bool quiesce_release(struct quiesce *quiesce);

#endif
