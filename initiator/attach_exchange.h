/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchange of the device below a top device in use. Its program died, its
 * server moved, or a newer program has to serve it. Users of the top device
 * keep that. Their requests wait meanwhile; those that were in flight to a dead
 * device have failed.
 *
 * The content must be the same, with writes that were acknowledged and not
 * flushed: the same exports at the same epoch, of the same incarnation.
 *
 * A call that is killed leaves the top device suspended, or over a device that
 * is going. Its record is not ready then, and the next attach exchanges again.
 */
#ifndef INITIATOR_ATTACH_EXCHANGE_H
#define INITIATOR_ATTACH_EXCHANGE_H

#include "initiator/transport/transport.h"

/*
 * Tell whether the device of a request may take the place of the one there.
 * That one is in use. The request is for the same extent by the same transport,
 * wherever the extent is served now.
 */
bool attach_exchange_possible(const struct attachment *a,
			      const struct initiator_request *q);

/*
 * Exchange. -ESTALE: the content may be another one. -ETIMEDOUT: requests in
 * flight do not end. Errors of an attach. After an error users have the device
 * that was there, if it was well and the text does not say that it is lost.
 */
int attach_exchange(struct attachment *a, const struct initiator_request *q,
		    struct error *err);

#endif
