/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device of several extents where the kernel has device mapper: a mapper
 * device over one attachment for each extent. Such a part is an attachment like
 * any other, in the state directory STATE_DIR/ID.joined, with its number as its
 * id. So each part has its own transport and its own top device. It is
 * exchanged, cut off and made direct on its own, and a part that does not
 * answer holds only its own requests.
 */
#ifndef INITIATOR_ATTACH_JOINED_H
#define INITIATOR_ATTACH_JOINED_H

#include "initiator/transport/transport.h"

/* Tell whether this machine can make one. */
bool attach_joined_possible(void);

/* Tell whether the device asked for is to be one. */
bool attach_joined_wanted(const struct initiator_request *q);

/* Tell whether the attachment is such a device, or what is left of one. */
bool attach_joined_is(const struct attachment *a);

/*
 * initiator_attach() of one, in place of what is there. Each part of a device
 * that is there is attached again, which mends, exchanges or grows it. Then the
 * device follows. After an error the device is as it was.
 *
 * @loaded  there is a record
 */
int attach_joined(struct attachment *a, bool loaded,
		  const struct initiator_request *q,
		  struct initiator_device *ret, struct error *err);

/*
 * Tell the device and its health. Returns true when it can only be made anew.
 */
bool attach_joined_examine(struct attachment *a, struct initiator_device *ret);

/* initiator_get_part(). */
int attach_joined_part(const char *state_dir, const char *id, unsigned part,
		       struct initiator_device *ret, struct error *err);

/* initiator_fence(). */
int attach_joined_fence(struct attachment *a, bool held_elsewhere,
			struct error *err);

/* Undo all of it, and forget it. -EBUSY. */
int attach_joined_remove(struct attachment *a, struct error *err);

#endif
