/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extents joined to the target, and the rules of epochs.
 *
 * An epoch never falls. Raising it goes in this order, so that a crash at any
 * point leaves nobody older in and lets nobody newer in too early:
 *
 *	1. no loop device of this node holds the data, else -EBUSY. A device
 *	   that does not answer may hold it. Then older connections are closed
 *	   first, so that other users of the file show;
 *	2. the record says the new epoch, durably (and "not blank" before the
 *	   first writer);
 *	3. the target closes the connections of older ones and admits the new.
 *
 * An epoch is granted to one attachment, which tells its identity. Another
 * attachment with the same number is refused. One with a higher number is
 * refused, too, unless it knows of the attachment that has the extent
 * (exports_set()). So an attachment at work loses nothing to a copy of the
 * records that is older than the extents or lives on beside them.
 *
 * Within one epoch, readers by network and a read-only loop device go
 * together; a writer has it alone.
 *
 * Step 1 fences a local user of an extent (a loop device over its data file).
 * The user sets the export with no initiators, binds the device, and sets the
 * same export again. If the epoch was raised in between, the second call is
 * -ESTALE. Then the user lets go before it wrote anything.
 */
#ifndef BLOCKD_EXPORTS_H
#define BLOCKD_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "blockd/export/export_scsi.h"
#include "blockd/extent/extent.h"
#include "blockd/node/node.h"
#include "target/target.h"

struct exports;

struct exports_options {
	struct node *node;     /* borrowed; its users are set to this */
	struct target *target; /* borrowed */
	bool direct_io;
	/* Serve them by iSCSI, too. NULL: no. Borrowed. */
	const struct export_scsi_options *scsi;
};

int exports_new(const struct exports_options *options, struct exports **ret,
		struct error *err);
/*
 * Before target_free(), which waits for requests: nothing holds them up any
 * more. NULL is fine.
 */
void exports_let_go(struct exports *exports);
/* After target_free(). NULL is fine. */
void exports_free(struct exports *exports);

/*
 * Serve again the exports in the records of a pool (@pool NULL: of all). An
 * export that can't be served is logged and the others go on. Only running out
 * of memory is an error.
 */
int exports_restore(struct exports *exports, const char *pool,
		    struct error *err);

struct exports_request {
	uint64_t epoch;
	const char *const *initiators; /* borrowed */
	size_t n_initiators;
	bool read_only;
	struct extent_scsi scsi;
	unsigned block_size; /* by iSCSI: 512, 4096; 0: as suits the pool */
	const char *grant;   /* who the epoch is for; borrowed; "": untold */
	/* Whose epochs may end for it; borrowed. */
	const char *const *over;
	size_t n_over;
};

/*
 * Serve the extent as @request says, at its epoch.
 *
 * -ESTALE: the extent is at a higher epoch, or at this one for another grant.
 * Also: it is served at a lower one for a grant that is not in @over. A grant
 * without initiators need not be in @over: step 1 finds the device that holds
 * the data.
 * -EBUSY: a local device holds it; -EINVAL: an initiator, or not what its
 * iSCSI target has; -EEXIST: another extent is that LUN; -EIO: damaged.
 */
int exports_set(struct exports *exports, struct extent *extent,
		const struct exports_request *request, struct error *err);

/*
 * Stop serving, unless the epoch is above @epoch (0: no limit). An epoch that
 * was granted to an attachment outside @grants goes on, too (@n 0: none does).
 * A client that comes back at that epoch is told that it is over, also by a
 * blockd that was started since.
 */
int exports_remove(struct exports *exports, struct extent *extent,
		   uint64_t epoch, const char *const *grants, size_t n,
		   struct error *err);

/* target_export_stats(); -ENOENT says that it is not served. */
int exports_stats(struct exports *exports, const char *name,
		  struct export_stats *ret, struct target_connection **ret_list,
		  size_t *ret_n, struct error *err);

unsigned exports_connections(struct exports *exports, const char *name);

/*
 * What an initiator logs in to by iSCSI, with the incarnation's tag.
 *
 * @ret  EXPORT_SCSI_NAME_SIZE bytes; "": it is not served by iSCSI, or is one
 *       LUN of a target that was named
 */
void exports_iscsi_name(const struct exports *exports,
			const struct pool_record *pool,
			const struct extent_record *record, char *ret);

/*
 * "BOOT-ID/POOL-INCARNATION": changes when acknowledged data that was never
 * flushed may be gone. @buf: EXPORTS_INCARNATION_SIZE bytes; returns it.
 */
#define EXPORTS_INCARNATION_SIZE (2 * UUID_TEXT_SIZE)
const char *exports_incarnation(const struct exports *exports,
				const struct pool_record *pool, char *buf);

#endif
