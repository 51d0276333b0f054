/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One device over NBD: of one export, or of several (initiator/device/parts.h),
 * each by its own link. A request goes in pieces to the parts that it touches.
 *
 * A part whose server is lost, or that is refused, costs the requests that
 * touch it, as nbd_link.h has it. A flush asks the parts that may have
 * unflushed writes, so a lost part without any fails none.
 *
 * Threads and memory are as with a link: one thread, which waits with poll(),
 * and no allocation by a request.
 */
#ifndef INITIATOR_NBD_PARTS_H
#define INITIATOR_NBD_PARTS_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/blockdev/segments.h"
#include "base/error.h"
#include "initiator/device/parts.h"
#include "initiator/nbd/nbd_link.h"

#define NBD_PARTS_POLLFDS (SEGMENTS_PARTS_MAX * NBD_LINK_POLLFDS)

struct nbd_parts;

struct nbd_parts_request {
	/*
	 * Called once, from nbd_parts_run() or nbd_parts_submit(). @error: 0 or
	 * a negative errno, the first of any piece. @data: the data of a read,
	 * borrowed.
	 */
	void (*done)(struct nbd_parts_request *request, int error,
		     const void *data);
	uint16_t type;    /* READ, WRITE, FLUSH, WRITE_ZEROES */
	uint16_t flags;   /* NBD_CMD_FLAG_... */
	uint64_t offset;  /* bytes; the range lies in the device */
	uint64_t length;  /* bytes; up to data_max where there are data */
	const void *data; /* of a write; stays until done */
	void *into;       /* of a read that is not nbd_parts_is_whole() */

	/* The device's own. */
	TAILQ_ENTRY(nbd_parts_request) entry;
	struct segment_walk walk;
	unsigned next_flush; /* flush: the part to be looked at */
	unsigned in_flight;  /* pieces */
	bool issuing;        /* there may be more pieces */
	int error;
};

struct nbd_parts_options {
	const struct parts *parts;
	unsigned dead_timeout_ms;
	bool read_only;
	/*
	 * What a killed process had, an export for each part: this one goes on
	 * for it (nbd_link.h). NULL: there was none.
	 */
	const struct nbd_export *before;
};

/*
 * Connect to every part, within @timeout_ms each. Errors are those of
 * nbd_connect(), nbd_export_check() and parts_keep_incarnation(), with the
 * part's name. With @before it waits for no server: requests do.
 */
int nbd_parts_new(const struct nbd_parts_options *options, int timeout_ms,
		  struct nbd_parts **ret, struct error *err);
/* Free it, with nothing in flight. NULL is fine. */
void nbd_parts_free(struct nbd_parts *parts);

uint64_t nbd_parts_size(const struct nbd_parts *parts); /* bytes */
/* NBD_TRANSMIT_..., those that all parts have. */
uint16_t nbd_parts_flags(const struct nbd_parts *parts);
/* Bytes of one read or write at most. */
uint32_t nbd_parts_data_max(const struct nbd_parts *parts);

/* Tell whether the range is one piece: a read of it needs no memory. */
bool nbd_parts_is_whole(const struct nbd_parts *parts, uint64_t offset,
			uint64_t length);

void nbd_parts_submit(struct nbd_parts *parts,
		      struct nbd_parts_request *request);
/* Send what was submitted. */
void nbd_parts_send(struct nbd_parts *parts);

/*
 * Fill entries, NBD_PARTS_POLLFDS at most.
 *
 * @ret_timeout_ms  poll()'s timeout, ms or -1
 *
 * Returns how many.
 */
unsigned nbd_parts_prepare(struct nbd_parts *parts, struct pollfd *fds,
			   int *ret_timeout_ms);
/* Receive, reconnect and time out, after poll(). */
void nbd_parts_run(struct nbd_parts *parts, const struct pollfd *fds);

/*
 * Become @now, which is larger at its end by parts_check_grown(). The last part
 * that is there is asked for its size; new ones are connected to. One growth at
 * a time: -EBUSY. -EINVAL: it is another device; -EFBIG (also to @done): an
 * export is not that large yet. After a failure all is as before.
 *
 * @now   copied
 * @done  gets 0 or a negative errno
 */
int nbd_parts_grow(struct nbd_parts *parts, const struct parts *now,
		   void (*done)(void *context, int error), void *context);

/* The parts as they are. Borrowed until they grow. */
const struct parts *nbd_parts_list(const struct nbd_parts *parts);

/* The export of one of them, as nbd_link_export() has it. Borrowed. */
const struct nbd_export *nbd_parts_export(const struct nbd_parts *parts,
					  unsigned index);

/*
 * Tell the state in one line, as nbd_link_state() has it: "connected" if every
 * part is; else "failed: " if one failed for good. Parts that are not well are
 * named. Borrowed until the next call.
 */
const char *nbd_parts_state(struct nbd_parts *parts);

#endif
