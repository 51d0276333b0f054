/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NBD connections: conn.h around nbd_session.h. A connection has at most
 * NBD_CONN_REQUESTS requests in flight; then it stops receiving until one is
 * answered.
 */
#ifndef TARGET_NBD_CONN_H
#define TARGET_NBD_CONN_H

#include "target/conn/conn.h"

#define NBD_CONN_REQUESTS 128 /* in flight; ours */

#define NBD_HANDSHAKE_TIMEOUT_MS 10000 /* ours */

/* For conn_service_init(). */
extern const struct conn_ops nbd_conn_ops;

#endif
