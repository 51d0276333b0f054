/* SPDX-License-Identifier: Apache-2.0 */
/* The top device of an attachment (initiator/device/top_device.h). */
#ifndef INITIATOR_ATTACH_TOP_H
#define INITIATOR_ATTACH_TOP_H

#include "initiator/transport/transport.h"

/* Make the device that its users have, where the kernel has device mapper. */
int attach_top_make(struct attachment *a, struct error *err);

/*
 * Let record.device, record.size be what is below it, while it is in use.
 * Without one: 0.
 */
int attach_top_follow(struct attachment *a, struct error *err);

/* Take it away. -EBUSY: in use. Without device mapper there is none: 0. */
int attach_top_remove(struct attachment *a, struct error *err);

/*
 * Cut the users of an attachment off. Requests below are made to end first, or
 * the fence would wait for them.
 */
int attach_top_cut_off(struct attachment *a, struct error *err);

/* initiator_fence() of a loaded attachment. */
int attach_top_fence(struct attachment *a, bool held_elsewhere,
		     struct error *err);

/* Say whether this machine can have them, and what their absence costs. */
void attach_top_probe(struct initiator_capability *ret);

#endif
