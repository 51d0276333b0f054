/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake half of nbd_session.c, which alone includes this. */
#ifndef TARGET_NBD_HANDSHAKE_H
#define TARGET_NBD_HANDSHAKE_H

#include "target/nbd/nbd_session.h"

/* nbd_session_feed() in NBD_SESSION_CLIENT_FLAGS and NBD_SESSION_OPTION. */
size_t nbd_handshake_feed(struct nbd_session *session, const void *data,
			  size_t length, struct nbd_event *ret);

/*
 * Report that the handshake or the session needs @need contiguous bytes.
 * Returns 0, the bytes consumed.
 */
size_t nbd_event_more(struct nbd_event *ret, size_t need);

#endif
