/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that connects, so that its owner never waits for a handshake.
 * One job at a time; the owner learns by a descriptor that turns readable.
 */
#ifndef INITIATOR_NBD_CONNECTOR_H
#define INITIATOR_NBD_CONNECTOR_H

#include "base/error.h"
#include "base/nbd/nbd_connect.h"

struct nbd_connector;

struct nbd_connector_result {
	int error; /* 0 or a negative errno, with the text in err */
	int fd;    /* owned by the caller that took the result; -1: none */
	struct nbd_export export;
	struct error err;
};

/*
 * Choose when a silent peer is noticed, in ms. That is a third of the time that
 * I/O may wait, which leaves time to connect again.
 */
unsigned nbd_connector_silence_ms(unsigned dead_timeout_ms);

/* Make a connector. @address and @export_name: borrowed until it is freed. */
int nbd_connector_new(const struct nbd_address *address,
		      const char *export_name, unsigned silence_ms,
		      struct nbd_connector **ret, struct error *err);
void nbd_connector_free(struct nbd_connector *connector);

bool nbd_connector_is_busy(const struct nbd_connector *connector);

/* Begin to connect. Not while busy. */
void nbd_connector_start(struct nbd_connector *connector);

/* Get a descriptor, readable when there is a result. */
int nbd_connector_fd(const struct nbd_connector *connector);

/*
 * Take the result, borrowed until the next start; NULL when the job is not
 * done.
 */
struct nbd_connector_result *nbd_connector_take(
	struct nbd_connector *connector);

#endif
