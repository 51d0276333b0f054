/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's NBD client, by generic netlink (linux/nbd-netlink.h). */
#ifndef INITIATOR_NBD_NETLINK_H
#define INITIATOR_NBD_NETLINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct nbd_netlink_device {
	uint64_t size;           /* bytes */
	uint32_t block_size;     /* bytes */
	uint16_t flags;          /* NBD_TRANSMIT_..., as the server said */
	unsigned timeout_s;      /* for one request, then it is sent again */
	unsigned dead_timeout_s; /* for the loss of all connections */
	const char *backend;     /* shown in /sys/block/nbdN/backend */
	const int *sockets;      /* ready for requests; the kernel refs them */
	unsigned n_sockets;
};

/*
 * Test for it. -ENODEV: the running kernel has no such family (module not
 * loaded).
 */
int nbd_netlink_probe(struct error *err);

/* Connect a device, whose number the kernel chooses. */
int nbd_netlink_connect(const struct nbd_netlink_device *device,
			unsigned *ret_index, struct error *err);

/*
 * Disconnect. Not connected: 0. The device goes on in the kernel while somebody
 * has it open.
 */
int nbd_netlink_disconnect(unsigned index, struct error *err);

/*
 * Put @sockets in place of dead ones. While the kernel does not know yet that
 * the old ones are dead it takes none, and answers success, too.
 */
int nbd_netlink_reconnect(unsigned index,
			  const struct nbd_netlink_device *device,
			  struct error *err);

int nbd_netlink_resize(unsigned index, const char *backend, uint64_t size,
		       struct error *err);

#endif
