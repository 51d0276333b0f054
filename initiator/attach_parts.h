/* SPDX-License-Identifier: Apache-2.0 */
/* The exports of a request (initiator.h), beside those of an attachment. */
#ifndef INITIATOR_ATTACH_PARTS_H
#define INITIATOR_ATTACH_PARTS_H

#include "initiator/device/parts.h"
#include "initiator/transport/transport.h"

/*
 * Make the list of the exports of a request, also of one. -EINVAL: they make no
 * device of the size asked for. Returned owned.
 */
int attach_parts_of(const struct initiator_request *q, struct parts **ret,
		    struct error *err);
/* Check that of a request for several. */
int attach_parts_check(const struct initiator_request *q, struct error *err);

/* Make the name of the attachment's file of parts. */
void attach_parts_name(const struct attachment *a, char *ret, size_t size);

/* Tell whether those asked for are those that are there, perhaps grown. */
bool attach_parts_same(const struct attachment *a,
		       const struct initiator_request *q);

#endif
