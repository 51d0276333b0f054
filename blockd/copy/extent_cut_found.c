/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshots of a cut that was made before. */
#include <errno.h>
#include <string.h>

#include "blockd/copy/extent_cut.h"
#include "blockd/extent/extent_internal.h"

/* Tell whether this is the snapshot that was asked for. Its op lock is held. */
static int snapshot_check_same(const struct extent *have,
			       const struct cut_request *request,
			       const struct snapshot_request *wanted,
			       struct error *err)
{
	const struct extent_origin *origin = &have->record.origin;

	if (have->damage)
		return error_set(err, EEXIST,
				 "the name '%s' belongs to a damaged extent: "
				 "%s",
				 have->record.name, have->damage);
	if (have->record.kind != EXTENT_KIND_SNAPSHOT)
		return error_set(err, EEXIST,
				 "the name '%s' belongs to an extent that is "
				 "no snapshot",
				 have->record.name);
	if (have->record.state == EXTENT_DELETING)
		return error_set(err, EAGAIN,
				 "snapshot '%s' is being deleted; repeat the "
				 "delete",
				 have->record.name);
	if (strcmp(origin->cut, request->cut) != 0 ||
	    strcmp(origin->name, wanted->extent) != 0 ||
	    (wanted->extent_id && wanted->extent_id[0] &&
	     strcmp(origin->id, wanted->extent_id) != 0))
		return error_set(err, EEXIST,
				 "snapshot '%s' exists and is of '%s' in cut "
				 "%s",
				 have->record.name, origin->name, origin->cut);
	return 0;
}

/* 1: there is none of that name (any more). */
static int find_made(struct node *node, const struct cut_request *request,
		     const struct snapshot_request *wanted, struct extent **ret,
		     struct error *err)
{
	struct extent *have;
	int r = 1;

	if (extent_find(node, wanted->name, &have, NULL) < 0)
		return 1;
	pthread_mutex_lock(&have->op);
	if (!have->gone)
		r = snapshot_check_same(have, request, wanted, err);
	pthread_mutex_unlock(&have->op);
	if (r == 0)
		*ret = have;
	else
		extent_unref(have);
	return r;
}

int extents_of_cut(struct node *node, const struct cut_request *request,
		   struct extent **ret, struct error *err)
{
	size_t n = 0, missing = 0;
	int r = 0;

	memset(ret, 0, request->n * sizeof(struct extent *));
	for (size_t i = 0; r >= 0 && i < request->n; i++) {
		r = find_made(node, request, &request->snapshots[i], &ret[i],
			      err);
		if (r == 1)
			missing = i;
		n += r == 0;
	}
	if (r >= 0 && n == request->n)
		return 0;
	if (r >= 0 && n > 0)
		r = error_set(err, ESTALE,
			      "of cut %s only %zu of %zu snapshots are there, "
			      "not '%.64s': delete them and make another cut",
			      request->cut, n, request->n,
			      request->snapshots[missing].name);
	for (size_t i = 0; i < request->n; i++) {
		extent_unref(ret[i]);
		ret[i] = NULL;
	}
	return r < 0 ? r : 1;
}
