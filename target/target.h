/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The servers of the wire: NBD and iSCSI over any struct blockdev.
 * Worker loops, listeners and the table of exports. Knows nothing of extents
 * and pools: the owner gives each export a function that opens its device.
 *
 * All functions may be called from any thread but a target loop's own.
 */
#ifndef TARGET_TARGET_H
#define TARGET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blockdev/blockdev.h"
#include "base/error.h"
#include "base/loop/loop.h"
#include "target/export/export_stats.h"

struct target;

/*
 * Files of TLS (target/net/tls.h); all NULL: none is offered. Read by
 * target_new(), the PSK file at each handshake.
 */
struct target_tls {
	const char *cert, *key; /* PEM; ours */
	const char *ca;         /* PEM; the CA of the clients' */
	const char *psk;        /* "NAME:KEY IN HEX" a line */
	bool required;          /* of TCP peers; otherwise it is offered */
};

struct chap_secrets;

#define TARGET_PEER_TIMEOUT_MAX_S 86400

struct target_options {
	unsigned loops;      /* worker threads; 0: one per core, at most 4 */
	unsigned without;    /* loop features not to use (enum loop_feature) */
	size_t buffer_limit; /* bytes of I/O buffers per loop, and an eighth; 0:
				64 MiB */
	unsigned max_connections; /* 0: 1024 */
	/*
	 * Seconds after which a silent TCP peer counts as gone; 0: 60. Silent:
	 * its machine says nothing, or it takes nothing. iSCSI initiators are
	 * asked (a NOP-In) after three quarters of that time.
	 */
	unsigned peer_timeout_s;
	struct target_tls tls;
	/* Secrets that iSCSI discovery sessions have to prove; NULL: none. */
	const struct chap_secrets *discovery;
};

int target_new(const struct target_options *options, struct target **ret,
	       struct error *err);

/*
 * Accept NBD connections at "tcp:HOST:PORT" (port 0: any free one) or
 * "unix:PATH" (mode 0600; a stale socket is replaced, a live one refused).
 * -EADDRINUSE names the address. @ret_port: the port bound, may be NULL.
 */
int target_listen_nbd(struct target *target, const char *address, int *ret_port,
		      struct error *err);

/*
 * Stop accepting, close every connection, join the loops, free. Requests in
 * flight finish first; their replies are sent if the peer takes them within 2
 * s. NULL is fine.
 */
void target_free(struct target *target);

/* Accept iSCSI connections; the rest as target_listen_nbd(). */
int target_listen_iscsi(struct target *target, const char *address,
			int *ret_port, struct error *err);

#define TARGET_INITIATORS_MAX 64

/* In front of an export's name: what initiators call it. */
#define TARGET_ISCSI_PREFIX "iqn.2025-01.io.union"

/*
 * An export as a SCSI unit. Initiators log in to NAME, or NAME:EPOCH when the
 * export has an epoch, and find it at @lun. Exports with the same name and
 * epoch are LUNs of one target. A session sees the LUNs that admit it. The
 * secrets that were set last count for all of them.
 */
struct target_scsi {
	/* Not like NAME:NUMBER. NULL: TARGET_ISCSI_PREFIX:NAME OF THE EXPORT */
	const char *name;
	unsigned lun;                 /* less than 256 */
	uint8_t uuid[16];             /* names the unit, for good */
	const char *serial, *product; /* NULL: made up (scsi_unit_options) */
	uint64_t size;                /* bytes */
	uint32_t block_size;          /* 512 or 4096; 0: 512 */
	uint32_t physical_size;       /* bytes; 0: block_size */
	bool removable, thin;
	/* Of a thin one: when target_export_low_space() is called; percent. */
	unsigned low_space;     /* 0: never */
	const char *state_path; /* of reservations that last; NULL: none do */
	const struct chap_secrets *secrets; /* NULL: no CHAP */
	/*
	 * A tag of letters and digits: initiators may also log in to that name
	 * with ":TAG" after it. When the tag changes, the old one is refused
	 * and sessions end. The tag is for initiators that recover sessions by
	 * themselves. They must not go on once acknowledged data may be gone.
	 * Discovery does not show the tag. NULL: none. For a target of one
	 * export.
	 */
	const char *tag;
};

#define TARGET_ISCSI_TAG_MAX 32 /* bytes */

struct target_export {
	const char *name; /* without epoch */
	uint64_t epoch;   /* 0: none; else peers ask for NAME@EPOCH */
	bool read_only;
	/*
	 * Addresses, CIDR prefixes, "unix", "any", names (proto/blockd.proto,
	 * SetExportRequest). Nobody else may connect or see it in LIST, or in
	 * what an iSCSI target has.
	 */
	const char *const *initiators;
	size_t n_initiators;
	/*
	 * Text of NBD_INFO_DESCRIPTION: "incarnation=...". A client may resume
	 * a session only while the text stays the same. NULL: none.
	 */
	const char *description;
	const struct target_scsi *scsi; /* NULL: not by iSCSI */
	/*
	 * Open the device for one connection, on that connection's loop; may
	 * block briefly. The target closes it with blockdev_close().
	 */
	int (*open)(void *context, struct loop *loop, bool read_only,
		    struct blockdev **ret, struct error *err);
	void *context;
	/* Called once when the export is gone and nothing uses @context. */
	void (*release)(void *context);
};

/*
 * Add or replace the export of that name. Everything in @spec is copied but
 * @context, which the target holds until @release (also when this fails).
 * -EINVAL: a bad name or initiator. -ESTALE: the table holds a higher epoch.
 * -EEXIST: another export is that LUN. -ENOMEM, or what opening the file of
 * reservations returns (one that is damaged is no error: scsi_unit_options).
 * When the call fails, the export is served on as it was set before. Only where
 * that file could be read first and then not, the export is no LUN. The owner
 * sees to it that calls for one name come one after the other.
 *
 * A higher epoch, a list that no longer admits a peer, or another target or LUN
 * for iSCSI sessions: those connections are closed. Nothing of theirs can reach
 * the device any more when this returns. The same epoch and read_only, peer
 * still admitted: the connection goes on with the device it has.
 */
int target_export_set(struct target *target, const struct target_export *spec,
		      struct error *err);

/*
 * Close the export's connections and forget the export. Not there: 0. A client
 * that comes back is told that there is no such export, and may take that for a
 * server that starts.
 */
int target_export_remove(struct target *target, const char *name,
			 struct error *err);

/*
 * Do the same, for good. A client that asks for the name at @epoch or an older
 * one is refused (NBD_REP_ERR_POLICY), and so does not wait. That holds as long
 * as the name is not set again, and for the last 4096 names. The export need
 * not be there. -EINVAL: a bad name.
 */
int target_export_end(struct target *target, const char *name, uint64_t epoch,
		      struct error *err);

/*
 * Tell the connections that the device behind the export was made longer, to
 * @size bytes. Every live connection reaches up to there once this returns,
 * each told on its own loop. New connections get the size that their device
 * has. The owner grows the device before the call, so that open() sees the new
 * size. Never shrinks. A repeated call, or no such export, does nothing.
 *
 * NBD has no message to say so to a peer. A peer that grows its device asks
 * anew (GO or INFO on a connection of its own) or is told by other means.
 */
void target_export_grow(struct target *target, const char *name, uint64_t size);

/*
 * Tell the iSCSI initiators of a thin export that the space behind it fell
 * below target_scsi.low_space. Each is told once (38/07), unless it turned that
 * off. No such export by iSCSI: nothing.
 */
void target_export_low_space(struct target *target, const char *name);

#define TARGET_PEER_MAX     288 /* bytes with the NUL */
#define TARGET_FEATURES_MAX 128

struct target_connection {
	uint64_t id;                /* of no other that this target had */
	char peer[TARGET_PEER_MAX]; /* "10.0.0.7 (node-1)" */
	/* Features that were agreed on: "tls structured base:allocation". */
	char features[TARGET_FEATURES_MAX];
	int64_t since_ms; /* clock_ms() */
	struct export_stats stats;
};

/*
 * Return the export's statistics since it was first set, with those of ended
 * connections, and the live connections.
 *
 * @ret_list  owned, to be freed; may be NULL
 *
 * -ENOENT: no such export; -ENOMEM.
 */
int target_export_stats(struct target *target, const char *name,
			struct export_stats *ret,
			struct target_connection **ret_list, size_t *ret_n);

/* Live connections of the export; 0 when there is no such export. */
unsigned target_export_connections(struct target *target, const char *name);

#endif
