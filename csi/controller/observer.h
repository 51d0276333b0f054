/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of the leader among controllers (volume/op/leader_election.h). The
 * leader checks for lost nodes and unhealthy volumes, and writes the results
 * into the records, where every controller finds them.
 *
 * Checks run every OBSERVER_PERIOD_S. They also run when a call met a silent
 * node, then at most every OBSERVER_PAUSE_S. After a check the leader runs a
 * scrub (volume/scrub/scrub.h), if the last one is OBSERVER_SCRUB_S ago.
 *
 * The leader also publishes the room for claims (capacity_publish.h), every
 * STORE_BEAT_S, and within OBSERVER_ROOM_S of a call here that changed it.
 */
#ifndef CSI_OBSERVER_H
#define CSI_OBSERVER_H

#include "csi/call/call.h"

#define OBSERVER_PERIOD_S 60
#define OBSERVER_PAUSE_S  5
#define OBSERVER_ROOM_S   1
#define OBSERVER_SCRUB_S  3600

struct observer;

/*
 * Take part in the election and begin. @csi is borrowed until observer_stop().
 * Its metrics tell which process leads and the results of the checks.
 */
int observer_start(struct csi *csi, struct observer **ret, struct error *err);
/* Something may have changed: look soon. NULL is fine; any thread. */
void observer_look(struct observer *observer);
/* The room for claims may have changed. NULL is fine; any thread. */
void observer_room_changed(struct observer *observer);
/*
 * End the election (another one leads then); waits for a question to a silent
 * node. NULL is fine.
 */
void observer_stop(struct observer *observer);

#endif
