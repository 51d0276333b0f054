/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the extents of a volume that is detached or taken away. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/dm/mapper.h"
#include "initiator/device/device.h"
#include "volume/op/split.h"

void split_grants_of(const struct volume_record *record,
		     struct split_grants *ret)
{
	ret->n = record->n_grants;
	for (size_t i = 0; i < ret->n; i++)
		ret->items[i] = record->grants[i];
	if (ret->n == 0) /* only what was granted to nobody who was told of */
		ret->items[ret->n++] = "";
}

/*
 * A node can take a mapper device from its user, for an attachment that the
 * record has.
 */
static bool is_held_for_good(const struct node_extent *extent, bool force)
{
	return extent->local_device[0] &&
	       !(force && strncmp(extent->local_device, MAPPER_FOLDER,
				  strlen(MAPPER_FOLDER)) == 0);
}

static int refuse_held(const struct operation *op,
		       const struct volume_split *split,
		       const struct node_extent *extent, struct error *err)
{
	return error_set(err, EBUSY,
			 "node '%s' is up and itself holds split %u of volume "
			 "'%s' by %s: unmount the volume there",
			 split->node, split->index, op->name,
			 extent->local_device);
}

int split_check_held(struct operation *op, const struct volume_split *split,
		     struct error *err)
{
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	int r = context_client(op->ctx, split->node, &client, err);

	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	if (r == 0 && extent.local_device[0])
		r = refuse_held(op, split, &extent, err);
	node_extent_done(&extent);
	return r;
}

/* ---- before a claim ---- */

struct look {
	unsigned flags;
	uint64_t above; /* under the operation's lock */
};

/*
 * Tell whether the extent is served to an attachment that is not in the record.
 * Without a grant, the epoch decides: the record's own is not above the
 * record's epoch.
 */
static bool is_strange(const struct volume_record *record,
		       const struct node_extent *extent)
{
	if (!extent->active ||
	    (extent->n_initiators == 0 && !extent->local_device[0]))
		return false;
	return extent->grant[0] ? !volume_record_knows(record, extent->grant)
				: extent->epoch > record->epoch;
}

int split_check_known(struct operation *op, const struct volume_split *split,
		      const struct node_extent *extent, struct error *err)
{
	if (!is_strange(op->record, extent))
		return 0;
	return error_set(
		err, EBUSY,
		"extent '%s' of node '%s' is served at epoch %" PRIu64
		" to an attachment that the record of volume '%s', at epoch "
		"%" PRIu64 ", does not have: `trib attach` on some node "
		"(`trib devices` there), or a node that mounted it after this "
		"record was saved; end it there, or `trib mount --force` cuts "
		"it off",
		split->extent, split->node, extent->epoch, op->name,
		op->record->epoch);
}

int split_check_unused(struct operation *op, struct volume_split *split,
		       uint64_t *ret_epoch, struct error *err)
{
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	int r = context_client(op->ctx, split->node, &client, err);

	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	if (r == 0)
		r = split_adopt(op, split, &extent, err);
	if (r == 0)
		r = split_check_known(op, split, &extent, err);
	if (r == 0 && extent.local_device[0])
		r = error_set(err, EBUSY,
			      "extent '%s' is in use on its own node '%s', as "
			      "%s",
			      split->extent, split->node, extent.local_device);
	*ret_epoch = extent.epoch;
	node_extent_done(&extent);
	return r;
}

/* Under the operation's lock. */
static int look_locked(struct operation *op, const struct volume_split *split,
		       struct look *look, const struct node_extent *extent,
		       struct error *err)
{
	if (look->above < extent->epoch)
		look->above = extent->epoch;
	if (look->flags & SPLITS_HELD &&
	    is_held_for_good(extent, look->flags & SPLITS_FORCE))
		return refuse_held(op, split, extent, err);
	if (!(look->flags & SPLITS_FORCE))
		return split_check_known(op, split, extent, err);
	if (extent->grant[0] && is_strange(op->record, extent))
		volume_record_learn(op->record, extent->grant);
	return 0;
}

static int split_look_at(struct operation *op, struct volume_split *split,
			 const void *look_, struct error *err)
{
	struct look *look = *(struct look *const *)look_;
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	int r = context_client(op->ctx, split->node, &client, err);

	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	if (r == 0) {
		operation_lock(op);
		r = look_locked(op, split, look, &extent, err);
		operation_unlock(op);
	}
	node_extent_done(&extent);
	return r < 0 && r != -EBUSY && look->flags & SPLITS_FOUND ? 0 : r;
}

int splits_look(struct operation *op, unsigned flags, uint64_t *ret_above,
		struct error *err)
{
	struct look look = {.flags = flags}, *const one = &look;
	const struct split_work work = {.each = split_look_at, .context = &one};
	int r = split_foreach(op, &work, NULL, err);

	if (ret_above)
		*ret_above = look.above;
	return r;
}

/* ---- nobody any more ---- */

static int split_unexport(struct operation *op, struct volume_split *split,
			  const void *epoch, struct error *err)
{
	struct node_client *client = NULL;
	struct split_grants grants;
	int r = operation_step(
		op, err, "export", "withdrawing split %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = context_client(op->ctx, split->node, &client, err);
	split_grants_of(op->record, &grants);
	if (r == 0)
		r = node_client_remove_export(client, split->extent,
					      *(const uint64_t *)epoch,
					      grants.items, grants.n, err);
	return r == -ENOENT ? 0 : r;
}

/* At a new epoch, for nobody; -EBUSY only says that it could not be done. */
static int split_fence(struct operation *op, struct volume_split *split,
		       const void *epoch_, struct error *err)
{
	const uint64_t epoch = *(const uint64_t *)epoch_;
	struct node_client *client = NULL;
	struct split_grants grants;
	int r = operation_step(
		op, err, "fence", "fencing split %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = context_client(op->ctx, split->node, &client, err);
	split_grants_of(op->record, &grants);
	if (r == 0) /* read only: a blank extent stays known as blank */
		r = node_client_set_export(
			client,
			&(struct node_export_request){
				.name = split->extent,
				.epoch = epoch,
				.read_only = true,
				.block_size = DEVICE_BLOCK_SIZE,
				.grant = volume_record_grant(op->record),
				.over = grants.items,
				.n_over = grants.n,
			},
			NULL, err);
	if (r == 0)
		r = node_client_remove_export(client, split->extent, epoch,
					      grants.items, grants.n, err);
	/*
	 * An export that is another attachment's by now is not ours any more.
	 */
	return r == -ENOENT || r == -ESTALE ? 0 : r;
}

int splits_fence(struct operation *op, uint64_t epoch, struct name_list *silent,
		 struct error *err)
{
	const struct split_work work = {.each = split_fence, .context = &epoch};
	struct error why = {0};
	int r = split_foreach(op, &work, silent, &why);

	if (r != -EBUSY && r != -ECANCELED)
		return 0;
	name_list_done(silent);
	if (err)
		*err = why;
	return r;
}

/* ---- one reader of several ---- */

struct leaving {
	const char *node;
	uint64_t epoch;
};

/*
 * Does another node that reads come from @address, as far as that is known?
 * All on a machine come by the same unix socket.
 */
static bool is_needed(struct operation *op, const char *node,
		      const char *address)
{
	const struct volume_record *record = op->record;
	bool needed = strcmp(address, "unix") == 0;

	for (size_t i = 0; !needed && i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];
		struct node_record other = {0};

		if (a->state == ATTACHMENT_PUBLISHED ||
		    strcmp(a->node, node) == 0 ||
		    context_node_load(op->ctx, a->node, &other, NULL) < 0)
			continue;
		for (size_t k = 0; k < other.n_initiators; k++)
			needed |= strcmp(other.initiators[k], address) == 0;
		node_record_done(&other);
	}
	return needed;
}

static bool addresses_have(char list[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE],
			   int n, const char *address)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i], address) == 0)
			return true;
	}
	return false;
}

static int take_out(struct operation *op, const struct leaving *leaving,
		    const struct node_record *server,
		    struct node_client *client, struct node_extent *extent,
		    struct error *err)
{
	char own[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE];
	const char *left[EXPORT_INITIATORS_MAX];
	size_t n_left = 0;
	int n = context_initiators(op->ctx, leaving->node, server->data_address,
				   own, err);

	if (n < 0)
		return n;
	for (size_t i = 0; i < extent->n_initiators; i++) {
		const char *address = extent->initiators[i];

		if (!addresses_have(own, n, address) ||
		    is_needed(op, leaving->node, address))
			left[n_left++] = address;
	}
	if (n_left == extent->n_initiators)
		return 0;
	return node_client_set_export(
		client,
		&(struct node_export_request){
			.name = extent->name,
			.epoch = leaving->epoch,
			.initiators = left,
			.n_initiators = n_left,
			.read_only = true,
			.block_size = DEVICE_BLOCK_SIZE,
			.grant = volume_record_grant(op->record),
		},
		NULL, err);
}

static int split_leave(struct operation *op, struct volume_split *split,
		       const void *leaving_, struct error *err)
{
	const struct leaving *leaving = leaving_;
	struct node_record server = {0};
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	int r = operation_step(
		op, err, "export", "leaving split %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = context_node_load(op->ctx, split->node, &server, err);
	if (r == 0)
		r = context_client_of(op->ctx, &server, &client, err);
	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	if (r == 0 && extent.active && extent.epoch == leaving->epoch)
		r = take_out(op, leaving, &server, client, &extent, err);
	node_extent_done(&extent);
	node_record_done(&server);
	return r == -ENOENT ? 0 : r;
}

static bool record_has_readers(const struct volume_record *record,
			       const struct volume_attachment *a)
{
	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *other = &record->attachments[i];

		if (other != a && other->shared &&
		    other->state != ATTACHMENT_PUBLISHED)
			return true;
	}
	return false;
}

bool splits_are_shared(const struct operation *op,
		       const struct volume_attachment *a)
{
	return a->shared && record_has_readers(op->record, a);
}

void splits_withdraw(struct operation *op, const struct volume_attachment *a,
		     struct name_list *silent)
{
	const struct leaving leaving = {.node = a->node, .epoch = a->epoch};
	const bool shared = splits_are_shared(op, a);
	const struct split_work work = {
		.each = shared ? split_leave : split_unexport,
		.context = shared ? (const void *)&leaving : &a->epoch,
	};

	/* Which ones failed does not matter: the next epoch ends them all. */
	(void)split_foreach(op, &work, silent, NULL);
}

static int split_ask(struct operation *op, struct volume_split *split,
		     const void *context, struct error *err)
{
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	int r = context_client(op->ctx, split->node, &client, err);

	(void)context;
	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	node_extent_done(&extent);
	return r;
}

void splits_find_silent(struct operation *op, struct name_list *silent)
{
	static const struct split_work work = {.each = split_ask};

	(void)split_foreach(op, &work, silent, NULL);
}
