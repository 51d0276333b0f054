/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/copy/copy_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/copy/quiesce.h"
#include "blockd/extent/node_tables.h"

static bool is_for_local_writer(const struct extent_export *export)
{
	return export->active && !export->read_only &&
	       export->n_initiators == 0;
}

int copy_guard_find_writer(const struct extent *extent,
			   const struct loopdev_users *local, char *device,
			   struct error *err)
{
	struct pool *pool = extent->pool->pool;
	auto_free char *path = pool->ops->path(pool, extent->record.name);
	auto_close int fd = -1;
	const char *holder;
	int r;

	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	if (!path[0])
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	r = loopdev_users_check(local, fd, true, &holder);
	if (r == 0)
		return 0;
	/*
	 * The file is open: by us, or by a device that is used as the record
	 * says.
	 */
	if (r != -EBUSY && !is_for_local_writer(&extent->record.export))
		return 0;
	if (r != -EBUSY)
		return error_set(err, EBUSY,
				 "extent '%s' may be written by /dev/%s, which "
				 "does not answer",
				 extent->record.name, holder);
	(void)snprintf(device, LOCAL_NAME_MAX, "%s", holder);
	return 1;
}

/* A copy byte by byte takes longer than any quiesce may. */
static int check_unwritten(struct extent *extent, struct error *err)
{
	const struct extent_export *export = &extent->record.export;
	char device[LOCAL_NAME_MAX];
	struct loopdev_users local;
	int r;

	if (export->active && !export->read_only)
		return error_set(err, EBUSY,
				 "extent '%s' is exported to be written, and "
				 "pool '%s' has to copy it byte by byte: "
				 "unmount it, or remove the export, first",
				 extent->record.name, extent->pool->known.name);
	r = loopdev_users_scan(&local, err);
	if (r < 0)
		return r;
	r = copy_guard_find_writer(extent, &local, device, err);
	if (r == 1)
		r = error_set(err, EBUSY,
			      "extent '%s' is written by /dev/%s, and pool "
			      "'%s' has to copy it byte by byte: detach it "
			      "first",
			      extent->record.name, device,
			      extent->pool->known.name);
	loopdev_users_done(&local);
	return r;
}

/* Begin a quiesce of our own on those that may be written meanwhile. */
static int quiesce_own(struct copy_guard *guard,
		       const enum pool_copy_method *methods, struct error *err)
{
	const bool alone = guard->n == 1 && methods[0] == POOL_COPY_REFLINK;
	int r;

	(void)uuid_make(guard->own);
	r = quiesce_begin(guard->extents[0]->node->quiesces, guard->own,
			  guard->extents, guard->n, "", QUIESCE_MS_MAX,
			  alone ? QUIESCE_ALONE : 0, err);
	if (r == 0)
		guard->quiesce = guard->own;
	return r;
}

int copy_guard_begin(struct copy_guard *guard, struct extent *const *extents,
		     const enum pool_copy_method *methods, size_t n,
		     const char *quiesce, struct error *err)
{
	bool instant = false;
	int r = 0;

	*guard = (struct copy_guard){
		.extents = extents, .n = n, .quiesce = quiesce};
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (extents[i]->record.kind == EXTENT_KIND_SNAPSHOT)
			continue;
		if (methods[i] == POOL_COPY_BYTES)
			r = check_unwritten(extents[i], err);
		else
			instant = true;
	}
	if (r < 0)
		return r;
	if (quiesce)
		return quiesce_check(extents[0]->node->quiesces, quiesce,
				     extents, n, err);
	return instant ? quiesce_own(guard, methods, err) : 0;
}

int copy_guard_end(struct copy_guard *guard, struct error *err)
{
	struct quiesces *quiesces = guard->extents[0]->node->quiesces;

	if (!guard->quiesce)
		return 0;
	if (guard->quiesce != guard->own)
		return quiesce_check(quiesces, guard->quiesce, guard->extents,
				     guard->n, err);
	if (!quiesce_end(quiesces, guard->own))
		return error_set(err, ESTALE,
				 "the writes could not be held for as long as "
				 "the copy took");
	return 0;
}
