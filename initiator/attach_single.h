/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attachments by one transport: of one extent, or of several that trib-nbd
 * makes one device. The calls are those of initiator.h, on an attachment whose
 * state directory is locked.
 */
#ifndef INITIATOR_ATTACH_SINGLE_H
#define INITIATOR_ATTACH_SINGLE_H

#include "initiator/device/parts.h"
#include "initiator/transport/transport.h"

#define ATTACH_SINGLE_GROW \
	"it has several parts, and grows when it is attached with all of them"

/* initiator_attach(). @loaded: there is a record. */
int attach_single(struct attachment *a, bool loaded,
		  const struct initiator_request *q,
		  struct initiator_device *ret, struct error *err);

/* Tell whether attach_single() lets what is there serve the request. */
bool attach_single_stays(struct attachment *a,
			 const struct initiator_request *q);

/* Undo all of it, whatever transport made it, and forget it. -EBUSY. */
int attach_single_remove(struct attachment *a, struct error *err);

/*
 * Grow it to @size bytes; errors of initiator_resize().
 *
 * @asked  its parts; NULL: those it has
 */
int attach_single_grow(struct attachment *a, const struct parts *asked,
		       uint64_t size, struct error *err);

/*
 * Tell the device and its health. Returns true when it can only be made anew.
 */
bool attach_single_examine(struct attachment *a, struct initiator_device *ret);

/* Tell what a record says of its device; not the health. */
void attach_single_describe(const struct record *r,
			    struct initiator_device *ret);

/* The transports of initiator_probe(), in the order of transports[]. */
size_t attach_single_probe(struct initiator_capability *ret, size_t max);

#endif
