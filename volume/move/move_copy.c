/* SPDX-License-Identifier: Apache-2.0 */
/* The copy of a split that moves: served, made and filled. */
#include "volume/move/move_copy.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "initiator/device/device.h"

#define RANGES_AT_ONCE 1024
#define ASK_MS         200
#define SAVE_MS        10000 /* how far it is goes into the record */

/* ---- the copy ---- */

/* The addresses to admit, and the server's own. Returns how many. */
static int copy_route(struct operation *op, struct node_client **ret_client,
		      char ret[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE],
		      struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	const struct volume_split *split = move_split(op);
	struct node_record from = {0};
	int r = context_node_load(op->ctx, split->node, &from, err);

	if (r == 0)
		r = context_client_of(op->ctx, &from, ret_client, err);
	if (r == 0)
		r = context_initiators(op->ctx, split->move.node,
				       from.data_address, ret, err);
	(void)snprintf(move->address, sizeof(move->address), "%s",
		       from.data_address);
	node_record_done(&from);
	return r;
}

static int copy_serve(struct operation *op, const char *const *initiators,
		      size_t n, struct node_client *client, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	struct node_extent extent = {0};
	struct split_grants grants;
	int r;

	split_grants_of(op->record, &grants);
	r = node_client_set_export(
		client,
		&(struct node_export_request){
			.name = move_split(op)->extent,
			.epoch = op->record->epoch,
			.initiators = initiators,
			.n_initiators = n,
			.read_only = true,
			.block_size = DEVICE_BLOCK_SIZE,
			.grant = volume_record_grant(op->record),
			.over = grants.items,
			.n_over = grants.n,
		},
		&extent, err);
	if (r == 0)
		(void)strcpy(move->export, extent.nbd_name);
	node_extent_done(&extent);
	return r;
}

/* Serve the old extent to the new one's node, and to nobody else. */
int move_export(struct operation *op, struct error *err)
{
	const struct volume_split *split = move_split(op);
	char own[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE];
	const char *initiators[NODE_INITIATORS_MAX];
	struct node_client *client = NULL;
	int r = operation_step(
		op, err, "export", "serving split %u of %zu to node %s",
		split->index + 1, op->record->n_splits, split->move.node);

	if (r == 0)
		r = copy_route(op, &client, own, err);
	for (int i = 0; i < r; i++)
		initiators[i] = own[i];
	return r < 0 ? r : copy_serve(op, initiators, (size_t)r, client, err);
}

/* Before anything is copied the new extent has to be blank. */
static int copy_check_blank(const struct volume_split *other,
			    struct node_client *client, struct error *err)
{
	struct node_extent extent = {0};
	int r = node_client_get_extent(client, other->extent, &extent, err);

	if (r == 0 && (!extent.blank || strcmp(extent.pool, other->pool) != 0))
		r = error_set(err, EEXIST,
			      "node '%s' has an extent '%s' already, which is "
			      "not a copy that was just begun; `trib volume "
			      "orphans` says what it is",
			      other->node, other->extent);
	node_extent_done(&extent);
	return r;
}

int move_make(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	struct volume_split *split = move_split(op);
	int r = context_client(op->ctx, split->move.node, &move->to, err);

	return r < 0 ? r : move_make_extent(op, split, err);
}

int move_make_blank(struct operation *op, struct volume_split *split,
		    struct error *err)
{
	struct node_client *to = NULL;
	int r = context_client(op->ctx, split->node, &to, err);

	if (r == 0)
		r = split_create(op, split, err);
	return r < 0 ? r : copy_check_blank(split, to, err);
}

int move_make_extent(struct operation *op, struct volume_split *split,
		     struct error *err)
{
	struct volume_split other = move_other_place(split);
	int r;

	if (other.extent_id[0])
		return 0;
	r = move_make_blank(op, &other, err);
	if (r < 0)
		return r;
	memcpy(split->move.extent_id, other.extent_id,
	       sizeof(split->move.extent_id));
	return operation_save(op, err);
}

struct ranges {
	struct node_piece items[RANGES_AT_ONCE];
	size_t n;
	uint64_t from; /* bytes: what is before it is left out */
	uint64_t size; /* bytes, of the extent */
};

/* 1: no more fit. The pull takes whole blocks: neighbours may become one. */
static int piece_add(void *ranges_, uint64_t size, uint64_t offset,
		     uint64_t length)
{
	struct ranges *ranges = ranges_;
	uint64_t end = offset + length;
	struct node_piece *last;

	if (size != ranges->size)
		return -EPROTO;
	offset -= offset % RECORD_SIZE_UNIT;
	if (offset < ranges->from)
		offset = ranges->from;
	(void)size_round_up(end, RECORD_SIZE_UNIT, &end); /* is in @size */
	if (offset >= end)
		return 0;
	last = ranges->n ? &ranges->items[ranges->n - 1] : NULL;
	if (last && last->offset + last->length >= offset) {
		last->length = end - last->offset;
		return 0;
	}
	if (ranges->n == RANGES_AT_ONCE)
		return 1;
	ranges->items[ranges->n++] = (struct node_piece){offset, end - offset};
	return 0;
}

/* What the old extent has from where the copy is. */
static int ranges_list(struct operation *op, struct ranges *ret,
		       struct error *err)
{
	const struct volume_split *split = move_split(op);
	const struct node_ranges_request request = {
		.name = split->extent,
		.id = split->extent_id,
		.start = split->move.copied,
	};
	struct node_client *client = NULL;
	int r = context_client(op->ctx, split->node, &client, err);

	ret->n = 0;
	ret->from = split->move.copied;
	ret->size = split->size;
	if (r == 0)
		r = node_client_list_ranges(client, &request, piece_add, ret,
					    NULL, err);
	if (r == -EPROTO)
		return error_set(err, EPROTO,
				 "extent '%s' of node '%s' has another size "
				 "than in the record",
				 split->extent, split->node);
	return r < 0 ? r : 0;
}

static int copy_tell(struct operation *op, struct error *err)
{
	const struct volume_split *split = move_split(op);
	char text[2][SIZE_TEXT_MAX];

	return operation_step(op, err, "copy",
			      "copying split %u of %zu to node %s, up to %s of "
			      "%s",
			      split->index + 1, op->record->n_splits,
			      split->move.node,
			      size_format(text[0], split->move.copied),
			      size_format(text[1], split->size));
}

/* Take note of how far the pull is, and wait a little. 1: it has ended. */
static int copy_look(struct operation *op, const struct node_pull_request *pull,
		     int64_t *save_ms, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	struct split_move *at = &move_split(op)->move;
	struct node_pulled pulled = {0};
	int r = node_client_pull(move->to, pull, &pulled, err);

	if (r == 0 && pulled.position > at->copied)
		at->copied = pulled.position;
	if (r < 0 || !pulled.runs)
		return r < 0 ? r : 1;
	r = copy_tell(op, err);
	if (r == 0 && clock_ms() >= *save_ms) {
		r = operation_save(op, err);
		*save_ms = clock_ms() + SAVE_MS;
	}
	if (r == 0)
		(void)poll(NULL, 0, ASK_MS);
	return r;
}

/* Pull these ranges, and wait. None: wait for a pull that runs already. */
static int copy_some(struct operation *op, const struct ranges *ranges,
		     struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	const struct split_move *at = &move_split(op)->move;
	struct node_pull_request request = {
		.name = at->extent,
		.id = at->extent_id,
		.address = move->address,
		.export = move->export,
		.ranges = ranges->items,
		.n_ranges = ranges->n,
	};
	int64_t save_ms = clock_ms() + SAVE_MS;
	int r;

	do {
		r = copy_look(op, &request, &save_ms, err);
		request.n_ranges = 0; /* only ask */
	} while (r == 0);
	return r < 0 ? r : 0;
}

int move_copy(struct operation *op, struct error *err)
{
	struct volume_split *split = move_split(op);
	struct ranges ranges = {.n = 0};
	int r = copy_tell(op, err);

	/*
	 * Wait for a pull that outlived the call before. The error of one that
	 * has ended is of that time.
	 */
	if (r == 0 && copy_some(op, &ranges, err) == -ECANCELED)
		r = -ECANCELED;
	while (r == 0) {
		uint64_t before = split->move.copied;

		r = ranges_list(op, &ranges, err);
		if (r < 0 || ranges.n == 0)
			break;
		r = copy_some(op, &ranges, err);
		if (r == 0 && split->move.copied == before)
			r = error_set(err, EAGAIN,
				      "the copy on node '%s' was interrupted; "
				      "repeat the command",
				      split->move.node);
		if (r == 0)
			r = operation_save(op, err);
	}
	return r;
}

/* The copy is there, and whole. */
int move_check_copy(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	const struct volume_split *split = move_split(op);
	struct volume_split other = move_other_place(split);
	struct node_extent extent = {0};
	int r = node_client_get_extent(move->to, other.extent, &extent, err);

	if (r == 0 &&
	    (strcmp(extent.id, other.extent_id) != 0 ||
	     extent.size != split->size || strcmp(extent.state, "ok") != 0))
		r = error_set(err, EIO,
			      "extent '%s' on node '%s' is not the copy that "
			      "was made: %s%s",
			      other.extent, other.node, extent.state,
			      extent.message);
	node_extent_done(&extent);
	return r;
}
