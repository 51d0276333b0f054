/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make an extent a block device of this machine.
 *
 * Each attachment has a record, a small file in state_dir, written before
 * the first step that a crash could leave behind. So every call can be
 * repeated after a kill -9 at any point: attach finishes or begins again,
 * detach undoes whatever is there. State is guarded by a lock on state_dir;
 * calls may come from any process or thread.
 */
#ifndef INITIATOR_INITIATOR_H
#define INITIATOR_INITIATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define INITIATOR_TEXT_MAX 256 /* bytes, with NUL */

struct initiator_request {
	const char *state_dir; /* "/run/tributary/initiator"; made if missing */
	const char *id;        /* names the attachment (base/uuid_name.h) */
	/*
	 * "auto", or one of:
	 * loop   extent on this node
	 * nbd    the kernel's client, by netlink
	 * iscsi  the kernel's client, by iscsiadm
	 * ublk   trib-nbd behind a block device of the kernel's ublk driver
	 * fuse   trib-nbd behind a one-file FUSE mount and a loop device:
	 *        works on any kernel with FUSE
	 */
	const char *transport;
	/* The extent's data file when it is on this node, else NULL. */
	const char *local_path;
	/* "HOST:PORT" or "unix:PATH" of the NBD server; NULL when local. */
	const char *address;
	const char *export_name; /* as the server knows it, with @EPOCH */
	/*
	 * Several extents as one device, end to end or striped
	 * (base/blockdev/segments.h), in place of the address and the export.
	 * The size is that of all. 0: one extent. Where there is device mapper,
	 * each is attached as its request says, and the device lies over all.
	 * Else trib-nbd makes the device, of their addresses and exports. Of a
	 * request for a part these are not used: state_dir, id, parts,
	 * read_only, renew, connections, dead_timeout_ms and launcher are those
	 * of the whole.
	 */
	const struct initiator_request *parts;
	size_t n_parts;
	unsigned stripe_width; /* 0: end to end */
	uint64_t stripe_unit;  /* bytes; 0: end to end */
	/*
	 * The same extent by iSCSI, LUN 0: "HOST:PORT" and the target's name.
	 * The kernel recovers a session by itself, so the name is to be one
	 * that another incarnation refuses. NULL: not served by iSCSI.
	 */
	const char *iscsi_portal;
	const char *iscsi_target;
	const char *identity;  /* serial number of that disk; NULL: any */
	const char *chap_file; /* base/wire/chap_secrets.h; NULL: no CHAP */
	uint64_t size;         /* bytes; what the server says must agree */
	bool read_only;
	bool renew; /* make the device below anew, though it is well */
	unsigned connections; /* kernel NBD; 0: 1 */
	/*
	 * Time that I/O waits for a lost server before it fails with EIO. ms;
	 * 0: 30,000. By iSCSI whole seconds.
	 */
	unsigned dead_timeout_ms;
	/*
	 * The socket of trib-launch, if that shall start trib-nbd; NULL or "":
	 * this process starts it.
	 */
	const char *launcher;
};

struct initiator_device {
	char id[INITIATOR_TEXT_MAX];
	/* The one that was taken; "dm": one for each part. */
	char transport[16];
	char device[INITIATOR_TEXT_MAX]; /* "/dev/mapper/trib-…" */
	char mapper_uuid[64];            /* of that one; "": no mapper device */
	/*
	 * Its transport's: "/dev/loop3". The same where there is no other; "":
	 * a device of several.
	 */
	char under[INITIATOR_TEXT_MAX];
	char why[INITIATOR_TEXT_MAX];    /* why auto took that */
	char source[INITIATOR_TEXT_MAX]; /* path or address/export */
	uint64_t size;                   /* bytes */
	bool read_only;
	bool healthy; /* device there and its server process alive */
	char problem[INITIATOR_TEXT_MAX]; /* when not healthy */
	/*
	 * Of several exports: the first one that is not well, from 0. -1: the
	 * problem is not that of one export.
	 */
	int bad_part;
	unsigned n_parts; /* exports of it; 0: it can only be of one */
	/*
	 * True: only attaching anew helps a device that is not healthy. False:
	 * the device waits for its server, and is well again once the server is
	 * back.
	 */
	bool dead;
	/*
	 * True: it is dead, and attaching it anew lets its users keep their
	 * device, if its server has kept what was not flushed.
	 */
	bool keeps;
};

/*
 * Attach, or find that it is attached already. The same id with the same source
 * gives the device that is there. A dead device (its process killed, its device
 * gone, refused by the server) is taken down and made anew. Another source (a
 * newer epoch) is -EEXIST unless the old one is dead. A larger size grows the
 * device. A device whose server is away for the moment is there: 0, with
 * healthy false.
 *
 * Where there is device mapper, a dead device that is in use is exchanged below
 * its users. They keep their device, if the extent, the epoch and the server's
 * incarnation are the same (initiator/attach_exchange.h); else they are cut
 * off. So is one whose server has another address now, or with renew. A part of
 * a device of several is exchanged alone.
 *
 * -ENODEV: the transport asked for is not possible here, the text says why.
 * -EACCES: the server refused (not allowed, older epoch); -ENOENT: no such
 * export; -EHOSTUNREACH: no answer. On failure nothing is left behind, but a
 * device in use that could not be exchanged.
 */
int initiator_attach(const struct initiator_request *request,
		     struct initiator_device *ret, struct error *err);

/*
 * Take the attachment down. -EBUSY while it is mounted or open. Not there: 0.
 * Writes that were not flushed are flushed first. That waits for a lost server
 * up to the dead timeout, and then goes on.
 */
int initiator_detach(const char *state_dir, const char *id, struct error *err);

/*
 * Make each request to the device of an attachment fail from now on, in
 * whatever process and mount namespace it is open or mounted. What waits for a
 * lost server ends. The attachment is dead then: a detach or an attach takes it
 * away at once, and its device goes with its last user. Not there: 0. -ENODEV:
 * there is no device mapper here.
 *
 * @held_elsewhere  only if nothing but a file system keeps the device, which
 *		    other mount namespaces have mounted or files of it open. The
 *		    caller has flushed that. Else, or without device mapper: 0.
 */
int initiator_fence(const char *state_dir, const char *id, bool held_elsewhere,
		    struct error *err);

/* Get the device of an attachment. -ENOENT: there is no such attachment. */
int initiator_get(const char *state_dir, const char *id,
		  struct initiator_device *ret, struct error *err);

/*
 * Do the same, but wait up to 3 s for a device that has lost its server. The
 * device looks for it at least once a second.
 */
int initiator_get_reconnected(const char *state_dir, const char *id,
			      struct initiator_device *ret, struct error *err);

/*
 * Get the device of one part of a device of several, @part from 0. -ENOENT:
 * there is none, or trib-nbd makes that device.
 */
int initiator_get_part(const char *state_dir, const char *id, unsigned part,
		       struct initiator_device *ret, struct error *err);

/* Tell whether device mapper makes devices of several here, not trib-nbd. */
bool initiator_joins(void);

/*
 * List all attachments, damaged and unfinished ones included. Returned owned.
 */
int initiator_list(const char *state_dir, struct initiator_device **ret,
		   size_t *ret_count, struct error *err);

/*
 * Make the device follow an extent that grew to @size bytes, also while it is
 * mounted and busy. The size it has: 0. A device of several exports grows by
 * initiator_attach(), with all its parts.
 *
 * -EINVAL: smaller than now, or the extent is not that large yet. -EOPNOTSUPP:
 * a server that is not ours holds the kernel's NBD connection to its old size;
 * the device stays as it was and works.
 */
int initiator_resize(const char *state_dir, const char *id, uint64_t size,
		     struct error *err);

/*
 * A transport, and whether this machine can use it: one line each, for `trib
 * node`. The last is "dm": the device over each of them.
 */
struct initiator_capability {
	const char *transport;
	bool usable;
	char why[INITIATOR_TEXT_MAX];
};
size_t initiator_probe(struct initiator_capability *ret, size_t max);

#endif
