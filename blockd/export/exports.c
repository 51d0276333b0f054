/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/export/exports.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "blockd/copy/quiesce.h"
#include "blockd/export/export_epoch.h"
#include "blockd/export/lun_table.h"
#include "blockd/local/local_top.h"
#include "blockd/local/loopdev_users.h"
#include "target/export/initiators.h"

static_assert(EXTENT_INITIATORS_MAX == TARGET_INITIATORS_MAX, "one limit");

struct exports {
	struct node *node;
	struct target *target;
	unsigned open_flags;                    /* of blockdev_file_open() */
	const struct export_scsi_options *scsi; /* NULL: no iSCSI */
	struct lun_table *luns;
	char boot_id[UUID_TEXT_SIZE];
};

/* What the target holds of one export. */
struct served {
	struct exports *exports;
	struct extent *extent; /* a reference */
};

const char *exports_incarnation(const struct exports *exports,
				const struct pool_record *pool, char *buf)
{
	(void)snprintf(buf, EXPORTS_INCARNATION_SIZE, "%s/%s", exports->boot_id,
		       pool->incarnation);
	return buf;
}

void exports_iscsi_name(const struct exports *exports,
			const struct pool_record *pool,
			const struct extent_record *record, char *ret)
{
	char incarnation[EXPORTS_INCARNATION_SIZE];

	if (exports->scsi && record->export.active &&
	    !record->export.scsi.target[0])
		export_scsi_name(
			record, exports_incarnation(exports, pool, incarnation),
			ret);
	else
		ret[0] = '\0';
}

unsigned exports_connections(struct exports *exports, const char *name)
{
	return target_export_connections(exports->target, name);
}

int exports_stats(struct exports *exports, const char *name,
		  struct export_stats *ret, struct target_connection **ret_list,
		  size_t *ret_n, struct error *err)
{
	int r = target_export_stats(exports->target, name, ret, ret_list,
				    ret_n);

	if (r == -ENOENT)
		return error_set(err, ENOENT, "extent '%s' is not served",
				 name);
	return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

/* ---- what the target calls ---- */

static int served_open(void *context, struct loop *loop, bool read_only,
		       struct blockdev **ret, struct error *err)
{
	struct served *served = context;
	unsigned flags = served->exports->open_flags;
	int r = read_only ? -EROFS
			  : extent_open(served->extent, flags, loop, ret, err);

	/* Also where its disk takes no writes: readable data is read. */
	if (r == -EROFS)
		r = extent_open(served->extent, flags | BLOCKDEV_FILE_READ_ONLY,
				loop, ret, err);
	return r;
}

static void served_release(void *context)
{
	struct served *served = context;

	extent_unref(served->extent);
	free(served);
}

/* Make the target serve what @export says. The extent's op lock is held. */
static int serve(struct exports *exports, struct extent *extent,
		 const struct extent_export *export, struct error *err)
{
	char incarnation[EXPORTS_INCARNATION_SIZE];
	char description[sizeof("incarnation=") + EXPORTS_INCARNATION_SIZE];
	struct served *served = calloc(1, sizeof(*served));
	struct export_scsi scsi;
	struct target_export spec = {
		.name = extent->record.name,
		.epoch = export->epoch,
		.read_only = export->read_only,
		.initiators = (const char *const *)export->initiators,
		.n_initiators = export->n_initiators,
		.description = description,
		.open = served_open,
		.context = served,
		.release = served_release,
	};
	int r = 0;

	if (!served)
		return error_set(err, ENOMEM, "out of memory");
	(void)snprintf(description, sizeof(description), "incarnation=%s",
		       exports_incarnation(exports, &extent->pool->pool->record,
					   incarnation));
	if (exports->scsi) {
		r = export_scsi_make(exports->scsi, extent, export->block_size,
				     incarnation, &scsi, err);
		spec.scsi = &scsi.scsi;
	}
	if (r < 0) {
		free(served);
		export_scsi_done(&scsi);
		return r;
	}
	served->exports = exports;
	served->extent = extent_ref(extent);
	/*
	 * target_export_set() waits for connections that end, and these wait
	 * for their requests.
	 */
	gate_bypass_begin(&extent->gate);
	r = target_export_set(exports->target, &spec, err);
	gate_bypass_end(&extent->gate);
	if (exports->scsi)
		export_scsi_done(&scsi);
	return r;
}

/* @over: clients of epochs up to this one are not to wait; 0: they may. */
static int unserve(struct exports *exports, struct extent *extent,
		   uint64_t over, struct error *err)
{
	const char *name = extent->record.name;
	int r;

	gate_bypass_begin(&extent->gate);
	r = over ? target_export_end(exports->target, name, over, err)
		 : target_export_remove(exports->target, name, err);
	gate_bypass_end(&extent->gate);
	return r;
}

/* Serve the extent as the LUN that its record says, if no other extent is. */
static int serve_again(struct exports *exports, struct extent *extent,
		       struct error *err)
{
	const struct extent_export *export = &extent->record.export;
	int r = lun_table_take(exports->luns, extent->record.name,
			       &export->scsi, err);

	return r < 0 ? r : serve(exports, extent, export, err);
}

/* As its record says. The extent's op lock is held. */
static int restore(struct exports *exports, struct extent *extent)
{
	const struct extent_export *export = &extent->record.export;
	struct error err = {0};
	int r = export->active   ? serve_again(exports, extent, &err)
		: export->exists ? unserve(exports, extent, export->epoch, &err)
				 : 0;

	if (r < 0)
		log_write(LOG_LEVEL_ERROR,
			  "extent %s: not served again: %s; set its export "
			  "again",
			  extent->record.name, error_text(&err));
	return r;
}

/* ---- local devices ---- */

/*
 * The data's file; -ENOENT: there is none, as in a raw pool, or when the
 * delete of the data was cut short.
 */
static int export_open_data(struct extent *extent, int *ret, struct error *err)
{
	struct pool *pool = extent->pool->pool;
	auto_free char *path = pool->ops->path(pool, extent->record.name);
	int fd;

	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (fd < 0 && (!path[0] || errno == ENOENT))
		return -ENOENT;
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	*ret = fd;
	return 0;
}

/*
 * @fenced  its connections have no right to go on: they are closed where they
 *          are in the way of being sure, and come back if this fails
 * @over    nor has its user on this node, if it can be cut off
 */
static int check_not_held(struct exports *exports, struct extent *extent,
			  bool writers, bool fenced, bool over,
			  const char *what, struct error *err)
{
	const char *name = extent->record.name, *holder;
	auto_close int fd = -1;
	struct loopdev_users users;
	int r = export_open_data(extent, &fd, err);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = loopdev_users_scan(&users, err);
	if (r < 0)
		return r;
	r = loopdev_users_check(&users, fd, writers, &holder);
	if (r == -EAGAIN && fenced &&
	    target_export_connections(exports->target, name) > 0) {
		(void)unserve(exports, extent, 0, NULL); /* never fails */
		r = loopdev_users_check(&users, fd, writers, &holder);
		if (r < 0)
			(void)restore(exports, extent); /* it is logged */
	}
	if (r == -EBUSY && over && local_top_cut_off(holder, name) == 0)
		r = 0;
	if (r < 0)
		r = loopdev_users_refuse(r, name, holder, what, err);
	loopdev_users_done(&users);
	return r;
}

static int check_idle(void *context, struct extent *extent, const char *before,
		      struct error *err)
{
	struct exports *exports = context;
	unsigned n = target_export_connections(exports->target,
					       extent->record.name);

	if (n)
		return error_set(err, EBUSY,
				 "extent '%s' has %u connections: disconnect "
				 "them or remove its export first",
				 extent->record.name, n);
	return check_not_held(exports, extent, false, false, false, before,
			      err);
}

static void grown(void *context, struct extent *extent)
{
	struct exports *exports = context;

	target_export_grow(exports->target, extent->record.name,
			   extent->record.size);
}

static int drop(void *context, struct extent *extent, struct error *err)
{
	struct exports *exports = context;
	int r;

	if (exports->scsi)
		export_scsi_forget(exports->scsi, extent);
	/*
	 * End it for clients of every epoch; an extent made anew begins at
	 * epoch 1.
	 */
	r = unserve(exports, extent,
		    extent->record.export.exists ? UINT64_MAX : 0, err);
	if (r == 0)
		lun_table_settle(exports->luns, extent->record.name, NULL);
	return r;
}

static void back(void *context, const char *pool)
{
	struct exports *exports = context;
	struct error err;

	if (exports_restore(exports, pool, &err) < 0)
		log_write(LOG_LEVEL_ERROR, "pool %s: its exports: %s", pool,
			  error_text(&err));
}

/*
 * Make what the clients of an export that is over wrote durable. The device of
 * one that was cut off answers a flush with success: nothing is below it that
 * could be asked. Where the medium can't flush, its next user hears of that.
 */
static void settle_over(struct extent *extent)
{
	struct error err = {0};

	if (extent_flush(extent, &err) < 0)
		log_write(LOG_LEVEL_ERROR,
			  "extent %s: what was written up to the end of its "
			  "export may not be durable: %s",
			  extent->record.name, error_text(&err));
}

/* ---- set ---- */

/*
 * Refuse writers of a snapshot, a held extent, and an extent that is copied
 * from.
 */
static int check_writable(struct extent *extent,
			  const struct exports_request *request,
			  struct error *err)
{
	if (extent->record.kind == EXTENT_KIND_SNAPSHOT)
		return error_set(err, EINVAL,
				 "'%s' is a snapshot: it can only be exported "
				 "read-only",
				 extent->record.name);
	/* A local device that comes now would write past the quiesce. */
	if (request->n_initiators == 0 && gate_is_closed(&extent->gate))
		return error_set(err, EAGAIN,
				 "the writes of extent '%s' are held for a "
				 "moment: repeat this",
				 extent->record.name);
	return extent_check_not_copied(extent, "it is written to", err);
}

/*
 * Refuse clients while a local device holds the data: any device when the epoch
 * is newer or the clients may write, else a device that may write. This is the
 * last check: it may cut the device's user off.
 */
static int check_holders(struct exports *exports, struct extent *extent,
			 const struct exports_request *request,
			 struct error *err)
{
	const struct extent_export *now = &extent->record.export;
	const bool newer = !now->exists || request->epoch > now->epoch;
	/* An attachment that the request names, and knows to be over. */
	const bool over = now->exists && newer && now->grant[0] &&
			  export_grant_is_of(now, request->over,
					     request->n_over);

	if (!newer && request->n_initiators == 0)
		return 0; /* nobody gets in: it is used here */
	return check_not_held(exports, extent, !newer && request->read_only,
			      newer, over, "it is exported anew", err);
}

static int check_set(struct exports *exports, struct extent *extent,
		     const struct exports_request *request, struct error *err)
{
	struct initiators parsed;
	int r = initiators_parse(request->initiators, request->n_initiators,
				 &parsed, err);

	if (r == 0 && exports->scsi)
		r = export_scsi_check(exports->scsi, extent->record.name,
				      &request->scsi, err);
	if (r == 0)
		r = extent_block_size_check(request->block_size, err);
	if (r == 0)
		r = extent_grant_check(request->grant, err);
	if (r == 0 && !request->read_only)
		r = check_writable(extent, request, err);
	if (r == 0)
		r = export_epoch_check(extent, request, err);
	return r < 0 ? r : check_holders(exports, extent, request, err);
}

/* Make the record with the export that is asked for. */
static int changed_record(const struct extent *extent,
			  const struct exports_request *request,
			  struct extent_record *ret, struct error *err)
{
	struct extent_record record;
	int r;

	if (extent_record_copy(&record, &extent->record) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = extent_record_set_initiators(&record, request->initiators,
					 request->n_initiators, err);
	if (r < 0) {
		extent_record_done(&record);
		return r;
	}
	record.export.exists = true;
	record.export.active = true;
	record.export.read_only = request->read_only;
	record.export.epoch = request->epoch;
	record.export.scsi = request->scsi;
	record.export.block_size = request->block_size;
	(void)snprintf(record.export.grant, sizeof(record.export.grant), "%s",
		       request->grant);
	if (!request->read_only)
		record.blank = false;
	*ret = record;
	return 0;
}

/* Save durably what is asked for, and nothing of it when that fails. */
static int save_changed(struct extent *extent,
			const struct exports_request *request,
			struct error *err)
{
	struct extent_record record = {0};
	int r = changed_record(extent, request, &record, err);

	if (r < 0)
		return r;
	if (record.blank == extent->record.blank &&
	    extent_export_same(&record.export, &extent->record.export))
		extent_record_done(&record);
	else
		r = extent_save(extent, &record, err);
	return r;
}

static int set_locked(struct exports *exports, struct extent *extent,
		      const struct exports_request *request, struct error *err)
{
	const struct extent_export *now = &extent->record.export;
	const char *name = extent->record.name;
	const bool existed = now->exists;
	int r = check_set(exports, extent, request, err);

	if (r == 0)
		r = lun_table_take(exports->luns, name, &request->scsi, err);
	if (r < 0)
		return r;
	/* Whose export it was is at work without us until then. */
	if (now->exists && (request->epoch != now->epoch ||
			    request->read_only != now->read_only))
		r = extent_direct_end(extent, err);
	if (r == 0)
		r = save_changed(extent, request, err);
	if (r < 0) {
		lun_table_settle(exports->luns, name,
				 now->active ? &now->scsi : NULL);
		return r;
	}
	r = serve(exports, extent, now, err);
	/* Also when it is repeated: a blockd before may have been killed here.
	 */
	if (r == 0 && existed)
		settle_over(extent);
	if (r == 0) /* else what it was may still be served */
		lun_table_settle(exports->luns, name, &now->scsi);
	return r;
}

int exports_set(struct exports *exports, struct extent *extent,
		const struct exports_request *request, struct error *err)
{
	int r = extent_begin(extent, err);

	if (r < 0)
		return r;
	r = set_locked(exports, extent, request, err);
	extent_end(extent);
	if (r == 0)
		log_info("extent %s: exported at epoch %" PRIu64
			 " to %zu initiators%s",
			 extent->record.name, request->epoch,
			 request->n_initiators,
			 request->read_only ? ", read only" : "");
	return r;
}

/* ---- remove ---- */

static int remove_locked(struct exports *exports, struct extent *extent,
			 uint64_t epoch, const char *const *grants, size_t n,
			 struct error *err)
{
	const struct extent_export *now = &extent->record.export;
	struct extent_record record;
	int r = 0;

	if (!now->exists || (epoch && now->epoch > epoch) ||
	    (n && !export_grant_is_of(now, grants, n)))
		return 0;
	r = extent_direct_end(extent, err);
	if (r == 0 && now->active) {
		if (extent_record_copy(&record, &extent->record) < 0)
			return error_set(err, ENOMEM, "out of memory");
		record.export.active = false;
		r = extent_save(extent, &record, err);
	}
	if (r == 0)
		r = unserve(exports, extent, now->epoch, err);
	if (r == 0)
		settle_over(extent);
	if (r == 0)
		lun_table_settle(exports->luns, extent->record.name, NULL);
	if (r == 0)
		log_info("extent %s: not exported any more, epoch %" PRIu64,
			 extent->record.name, now->epoch);
	return r;
}

int exports_remove(struct exports *exports, struct extent *extent,
		   uint64_t epoch, const char *const *grants, size_t n,
		   struct error *err)
{
	int r = extent_begin(extent, err);

	if (r < 0)
		return r;
	r = remove_locked(exports, extent, epoch, grants, n, err);
	extent_end(extent);
	return r;
}

/* ---- life ---- */

static void restore_one(struct exports *exports, struct extent *extent)
{
	/* Damaged ones were logged when they were found. */
	if (extent_begin(extent, NULL) < 0)
		return;
	if (restore(exports, extent) == 0 && extent->record.export.active)
		log_info("extent %s: served again at epoch %" PRIu64,
			 extent->record.name, extent->record.export.epoch);
	extent_end(extent);
}

int exports_restore(struct exports *exports, const char *pool,
		    struct error *err)
{
	struct extent **list;
	size_t n;
	int r = node_list_extents(exports->node, pool, &list, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		restore_one(exports, list[i]);
	node_put_list(list, n);
	return 0;
}

int exports_new(const struct exports_options *options, struct exports **ret,
		struct error *err)
{
	struct exports *exports = calloc(1, sizeof(*exports));
	int r;

	if (!exports)
		return error_set(err, ENOMEM, "out of memory");
	exports->node = options->node;
	exports->target = options->target;
	exports->scsi = options->scsi;
	exports->open_flags = options->direct_io ? BLOCKDEV_FILE_DIRECT : 0;
	exports->luns = lun_table_new();
	r = exports->luns ? boot_id_read(exports->boot_id) : -ENOMEM;
	if (r < 0) {
		exports_free(exports);
		return error_set(err, -r, "read the boot id: %s", strerror(-r));
	}
	options->node->users = (struct extent_users){
		.grown = grown,
		.check_idle = check_idle,
		.drop = drop,
		.back = back,
		.context = exports,
	};
	*ret = exports;
	return 0;
}

void exports_let_go(struct exports *exports)
{
	struct extent **list;
	size_t n;

	if (!exports)
		return;
	quiesces_end(exports->node->quiesces);
	if (node_list_extents(exports->node, NULL, &list, &n, NULL) < 0)
		return; /* no memory: what waits ends by itself */
	for (size_t i = 0; i < n; i++)
		gate_bypass_begin(&list[i]->gate);
	node_put_list(list, n);
}

void exports_free(struct exports *exports)
{
	if (!exports)
		return;
	lun_table_free(exports->luns);
	free(exports);
}
