/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation at a time on one volume in this process: the second is
 * refused, not queued (CSI: ABORTED). Only what nobody has called for, a
 * repair, is waited for. Other processes are kept out by the store's leases.
 */
#ifndef CSI_HOLDS_H
#define CSI_HOLDS_H

#include <pthread.h>
#include <stdbool.h>

#include "volume/record/volume_record.h"

struct csi_hold {
	struct csi_hold *next;
	const char *what; /* "CreateVolume"; borrowed for ever */
	char name[RECORD_NAME_SIZE];
	bool background; /* others wait for it, CSI_HOLD_WAIT_MS at most */
};

#define CSI_HOLD_WAIT_MS 20000

struct csi_holds {
	pthread_mutex_t lock;   /* guards @first; no other is taken inside */
	pthread_cond_t changed; /* one has ended */
	struct csi_hold *first;
};

void csi_holds_init(struct csi_holds *holds);
void csi_holds_done(struct csi_holds *holds);

/*
 * Take @name until csi_hold_end(). @hold is the caller's and stays where it
 * is meanwhile; its @background is set by the caller. NULL, or what another
 * one is doing with that name.
 */
const char *csi_hold_begin(struct csi_holds *holds, struct csi_hold *hold,
			   const char *name, const char *what);
void csi_hold_end(struct csi_holds *holds, struct csi_hold *hold);

#endif
