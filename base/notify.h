/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_NOTIFY_H
#define BASE_NOTIFY_H

/*
 * Tell systemd @state ("READY=1", "STOPPING=1", "STATUS=..."), by one
 * datagram to $NOTIFY_SOCKET (sd_notify(3)). Without the variable: nothing.
 * Returns 0 or a negative errno.
 */
int notify_send(const char *state);

#endif
