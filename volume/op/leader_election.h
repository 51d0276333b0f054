/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Election of one leader among processes that use the same store. The leader
 * holds a lease and renews it for as long as it lives.
 *
 *	volume_election_join(ctx, "controller", changed, self, &election, err);
 *	...
 *	if (volume_election_leads(election)) ...work of the leader...
 *	...
 *	volume_election_leave(election);
 *
 * A leader that leaves gives the lease back. Another process leads within
 * VOLUME_ELECTION_TRY_MS and its half. A leader that dies is followed at once
 * by a process on its machine. Elsewhere its lease expires first, by the
 * store's clock (Kubernetes: 18 s after the last renewal; local: at once). A
 * leader that cannot renew knows 3 s before others may take over (Kubernetes:
 * 15 s after the last renewal), whatever its own clock says.
 */
#ifndef VOLUME_LEADER_ELECTION_H
#define VOLUME_LEADER_ELECTION_H

#include <stdbool.h>

#include "base/error.h"
#include "volume/volume.h"

#define VOLUME_ELECTION_TRY_MS 2000 /* and up to half of it more, by chance */
#define VOLUME_ELECTION_CHECK_MS \
	2000 /* between checks of a leader that it still leads */

struct volume_election;

/*
 * Called when this process begins to lead or ceases to, and when the reason why
 * it does not lead changes in kind. The calls come from a thread of the
 * election, never two at once.
 *
 * @leading  may work; until a call with false, or volume_election_leads() is
 *	  false
 * @text     for a log: who leads instead, or what failed. Borrowed
 *
 * After false, work of a leader has to stop within 3 s. The callback must not
 * call volume_election_leave().
 */
typedef void (*volume_election_changed)(void *context, bool leading,
					const char *text);

/*
 * Take part in the election @name (as name_check() has it). Does not wait
 * for its outcome, nor for the store to answer.
 *
 * @ctx      borrowed until volume_election_leave()
 * @changed  may be NULL
 *
 * -EINVAL: the name; -ENOMEM, -EAGAIN: no thread.
 */
int volume_election_join(struct volume_context *ctx, const char *name,
			 volume_election_changed changed, void *context,
			 struct volume_election **ret, struct error *err);

/* Does this process lead now? Any thread; asks no server. */
bool volume_election_leads(struct volume_election *election);

/*
 * Leave the election. A leader's callback gets false first, then the lease is
 * given back, which takes some seconds at most. Another process may be in a
 * call to the store, and waits for its end. NULL is fine.
 */
void volume_election_leave(struct volume_election *election);

#endif
