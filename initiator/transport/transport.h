/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One way to make an extent a block device, as a table of functions; and the
 * choice between them.
 *
 * The caller (initiator.c) holds the lock, keeps the record and calls these. An
 * attach begins on a clean slate. A detach finds the leftovers of any attach,
 * finished or not, also when there is no record but its id.
 */
#ifndef INITIATOR_TRANSPORT_H
#define INITIATOR_TRANSPORT_H

#include "initiator/device/record.h"
#include "initiator/initiator.h"

struct attachment {
	int dirfd;                /* the state directory; borrowed */
	const char *state_dir;    /* absolute; borrowed */
	char tag[DEVICE_TAG_MAX]; /* device_tag() of it and the id */
	const char *launcher;     /* of the request, else NULL; borrowed */
	/*
	 * The next device takes the place of one in use, record.device: it
	 * has the same content, unflushed writes, too.
	 */
	bool takes_place;
	struct record record;
};

struct transport {
	const char *name;
	bool local; /* wants local_path; else address and export_name */
	bool iscsi; /* instead of these iscsi_portal and iscsi_target */
	/*
	 * Makes one device of several exports, those in ID.parts; one export is
	 * there, too.
	 */
	bool parts;
	/*
	 * Its device outlives its process, and another process goes on with it.
	 * So no other device takes its place while it is in use.
	 */
	bool recovers;

	/* Required. 0, or -ENODEV and why this machine cannot. */
	int (*probe)(struct error *err);
	/*
	 * Required. Make the device, and set record.device. The record is saved
	 * before each step that a later detach would need to know of. A
	 * failure's leftovers are for detach(). -ESTALE: with takes_place, it
	 * is not known that the content is the same.
	 */
	int (*attach)(struct attachment *a, struct error *err);
	/* Required. Idempotent. -EBUSY: in use. */
	int (*detach)(struct attachment *a, struct error *err);
	/*
	 * Required. 0: healthy. Else the error; @ret_dead: the device will
	 * never be well again, so it is to be made anew.
	 */
	int (*check)(struct attachment *a, bool *ret_dead, struct error *err);
	/*
	 * Required. Grow the device: the extent has @size bytes now, more than
	 * before. ID.parts has the parts that make it so large.
	 */
	int (*resize)(struct attachment *a, uint64_t size, struct error *err);
	/*
	 * Required. Make requests that wait for a server end, with an error,
	 * and all that follow. Nothing here waits for a server. What the kernel
	 * keeps for the device above goes when that lets it go, and is not in
	 * the way of attach() and detach(). Files of the record stay.
	 */
	int (*fail)(struct attachment *a, struct error *err);
	/* Optional. Mend what can be, when it is attached again while it is
	 * there. */
	int (*mend)(struct attachment *a, struct error *err);
};

extern const struct transport transport_loop;
extern const struct transport transport_nbd;
extern const struct transport transport_iscsi;
extern const struct transport transport_ublk;
extern const struct transport transport_fuse;

/*
 * All transports, those of auto first and in its order; ends with NULL. ublk is
 * taken by name only.
 */
extern const struct transport *const transports[];
#define TRANSPORTS_MAX 8

/* Find a transport; NULL: no such transport. */
const struct transport *transport_find(const char *name);

/*
 * Choose the transport for this request on a machine that can @capabilities
 * (one for each of transports[], in that order). A pure function.
 *
 * @ret_why  INITIATOR_TEXT_MAX bytes: the reason, a sentence
 *
 * -EINVAL: no such transport, or the request lacks what it needs. -ENODEV: not
 * possible here.
 */
int transport_choose(const struct initiator_request *request,
		     const struct initiator_capability *capabilities,
		     const struct transport **ret, char *ret_why,
		     struct error *err);

#endif
