/* SPDX-License-Identifier: Apache-2.0 */
/* A request (initiator.h), as a record has it. */
#ifndef INITIATOR_ATTACH_REQUEST_H
#define INITIATOR_ATTACH_REQUEST_H

#include "initiator/transport/transport.h"

/* -EINVAL: a text is wrong, the size is, or the parts are. */
int attach_request_check(const struct initiator_request *q, struct error *err);

/* Fill all of a record but its id, for transport @t; @why: the reason for it.
 */
void attach_request_fill(struct record *r, const struct initiator_request *q,
			 const struct transport *t, const char *why);

/* Tell whether the attachment is what is asked for, perhaps grown. */
bool attach_request_is_same(const struct attachment *a,
			    const struct initiator_request *q);

#endif
