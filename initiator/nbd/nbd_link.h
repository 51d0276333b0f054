/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One NBD connection with many requests in flight, which outlives its sockets.
 * When the server goes, requests are kept and a helper thread connects again.
 * Requests that had no answer are sent once more (reads, writes, flushes and
 * zeroes may be repeated).
 *
 * The link resumes only where nothing acknowledged can have been lost
 * (nbd_export_may_resume()). The link ends for good if the server refuses us (a
 * newer epoch, an export that was withdrawn or deleted). It ends, too, if the
 * server comes back as another incarnation. Then every request fails with -EIO,
 * at once and from then on.
 *
 * A server may be away longer than the dead timeout, or not know the export.
 * Then waiting requests fail with -EIO, too, and new requests at once. As
 * the failures were reported, the link works again if the server comes back as
 * the same incarnation.
 *
 * A flush without a server succeeds if all acknowledged writes are known to be
 * durable. Else it fails like any request.
 *
 * All calls on one thread, which waits with poll(). Nothing here blocks, and
 * after nbd_link_new() no request allocates.
 */
#ifndef INITIATOR_NBD_LINK_H
#define INITIATOR_NBD_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "base/nbd/nbd_client.h"
#include "base/nbd/nbd_connect.h"

#define NBD_LINK_REQUESTS 1024                 /* in flight at most */
#define NBD_LINK_DATA_MAX (UINT32_C(1) << 20)  /* bytes of one read or write */
#define NBD_LINK_DATA_MIN (UINT32_C(64) << 10) /* a link's limit, at least */
#define NBD_LINK_POLLFDS  2

struct nbd_link;

struct nbd_link_request {
	/*
	 * Called once, from nbd_link_run() or nbd_link_submit(). @error: 0 or a
	 * negative errno. @data: the data of a read, borrowed.
	 */
	void (*done)(struct nbd_link_request *request, int error,
		     const void *data);
	uint16_t type;    /* READ, WRITE, FLUSH, WRITE_ZEROES */
	uint16_t flags;   /* NBD_CMD_FLAG_... */
	uint64_t offset;  /* bytes */
	uint32_t length;  /* bytes */
	const void *data; /* of a write; stays until done */

	/* The link's own. */
	TAILQ_ENTRY(nbd_link_request) entry;
	struct nbd_wire_request wire;
	uint64_t cookie;
	uint64_t mark; /* flush: writes acknowledged when it began */
	uint32_t sent; /* bytes of header and data */
};

struct nbd_link_options {
	const struct nbd_address *address; /* borrowed for ever */
	const char *export_name;           /* borrowed for ever */
	unsigned dead_timeout_ms;
	uint32_t data_max; /* bytes of a read or write; NBD_LINK_DATA_MAX */
	/*
	 * Connected and shaken; taken. -1: the link connects by itself, to an
	 * export that is as @export at least.
	 */
	int fd;
	const struct nbd_export *export; /* copied */
	/*
	 * The link goes on for that of a killed process, which had @export.
	 * Writes that were acknowledged there may not be durable.
	 */
	bool goes_on;
};

int nbd_link_new(const struct nbd_link_options *options, struct nbd_link **ret,
		 struct error *err);

/*
 * Free the link, with nothing in flight, and tell the server goodbye. NULL is
 * fine.
 */
void nbd_link_free(struct nbd_link *link);

/*
 * Submit a request, at most NBD_LINK_REQUESTS at a time. It is sent by the next
 * nbd_link_send().
 */
void nbd_link_submit(struct nbd_link *link, struct nbd_link_request *request);

/* Send what was submitted, in as few calls as can be. */
void nbd_link_send(struct nbd_link *link);

/* Fill NBD_LINK_POLLFDS entries; returns poll()'s timeout, ms or -1. */
int nbd_link_prepare(struct nbd_link *link, struct pollfd *fds);

/* Receive, reconnect and time out, after poll(). */
void nbd_link_run(struct nbd_link *link, const struct pollfd *fds);

/*
 * Tell whether all acknowledged writes are known to be durable: a flush has
 * succeeded, and covers them all.
 */
bool nbd_link_is_durable(const struct nbd_link *link);

/*
 * Ask the server anew how large the export is. The link goes on with the
 * connection that gave the answer. One question at a time: -EBUSY.
 *
 * @done  gets 0 or a negative errno, and the size in bytes
 */
int nbd_link_ask_size(struct nbd_link *link,
		      void (*done)(void *context, int error, uint64_t size),
		      void *context);

/*
 * The export with which the session began, as large as it has grown since.
 * Borrowed.
 */
const struct nbd_export *nbd_link_export(const struct nbd_link *link);

/*
 * Tell the state in one line: "connected", "waiting: ...", "timed out: ...",
 * "failed: ...". Borrowed until the next call.
 */
const char *nbd_link_state(struct nbd_link *link);
#define NBD_LINK_CONNECTED "connected"
#define NBD_LINK_FAILED    "failed: "

#endif
