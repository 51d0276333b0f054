/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the log: from the checkpoint on to its end, in both its copies. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/store/raw_store_internal.h"

/* ---- one batch ---- */

int store_read_batch(struct raw_store *store, uint64_t offset, uint64_t end,
		     uint32_t salt, struct raw_batch_head *ret)
{
	struct raw_medium *medium = store->medium;
	uint8_t *data = store->writing.data;
	int r = offset + RAW_BLOCK > end
			? -ENODATA
			: medium->ops->read(medium, data, RAW_BLOCK, offset);

	if (r == 0)
		r = raw_batch_peek(data, salt, ret);
	if (r == 0 && ret->length > end - offset)
		r = -ENODATA;
	if (r == 0 && ret->length > RAW_BLOCK)
		r = medium->ops->read(medium, data + RAW_BLOCK,
				      ret->length - RAW_BLOCK,
				      offset + RAW_BLOCK);
	if (r == 0 && raw_batch_read(data, ret->length, salt, NULL, NULL) < 0)
		r = -ENODATA;
	return r;
}

/* About leaves: in a log they would fill one that no object ever has. */
static bool is_of_checkpoint(const struct raw_record *record)
{
	return record->type == RAW_LEAF || record->type == RAW_USE ||
	       (record->type != RAW_POOL && !record->object);
}

int store_replay_record(void *context, const struct raw_record *record)
{
	struct store_replay *replay = context;
	struct raw_state *state = &replay->store->state;

	if (replay->log && is_of_checkpoint(record))
		return error_set(replay->err, EBADMSG,
				 "a record of a checkpoint");
	if (record->object)
		raw_mask_add(&replay->touched, record->object);
	if (!raw_report_lost(replay->report))
		return raw_state_replay(state, record, replay->err);
	return raw_state_salvage(state, record);
}

static int read_copy(struct raw_store *store, unsigned copy, uint64_t block,
		     struct raw_batch_head *ret)
{
	const struct raw_super *super = &store->super;

	return store_read_batch(
		store, store_log_offset(super, copy, block),
		store_log_offset(super, copy, raw_ring_size(super) / RAW_BLOCK),
		raw_salt(super->pool_id), ret);
}

/* The content found where the next batch is to be. */
enum found {
	FOUND_NONE,       /* no trace of it */
	FOUND_TORN,       /* its head */
	FOUND_UNREADABLE, /* there the medium can't be read */
	FOUND_WHOLE,      /* it is in store->writing */
	FOUND_TROUBLE,    /* -> ret_error */
};

static enum found log_look(struct raw_store *store, unsigned copy,
			   struct raw_batch_head *ret, int *ret_error)
{
	int r = read_copy(store, copy, store->log_block, ret);

	if (r == -EIO)
		return FOUND_UNREADABLE;
	if (r < 0 && r != -ENODATA) {
		*ret_error = r;
		return FOUND_TROUBLE;
	}
	if (r == 0)
		return ret->sequence == store->log_sequence ? FOUND_WHOLE
							    : FOUND_NONE;
	if (raw_batch_peek(store->writing.data, raw_salt(store->super.pool_id),
			   ret) == 0 &&
	    ret->sequence == store->log_sequence)
		return FOUND_TORN;
	return FOUND_NONE;
}

/* ---- what is behind what is lost ---- */

struct later {
	uint64_t sequence; /* of the first one; 0: there is none */
	uint64_t block;
	unsigned copy;
};

/* One block of a ring: does a later batch begin there? */
static void look_for_later(struct raw_store *store, const uint8_t *data,
			   unsigned copy, uint64_t block, struct later *ret)
{
	struct raw_batch_head head;

	if (raw_batch_peek(data, raw_salt(store->super.pool_id), &head) < 0 ||
	    head.sequence <= store->log_sequence ||
	    (ret->sequence && head.sequence >= ret->sequence) ||
	    read_copy(store, copy, block, &head) < 0)
		return;
	*ret = (struct later){head.sequence, block, copy};
}

/* A block that can't be read has nothing that could be used. */
static int scan_ring(struct raw_store *store, unsigned copy, uint8_t *buffer,
		     struct later *ret)
{
	const uint64_t blocks = raw_ring_size(&store->super) / RAW_BLOCK;
	struct raw_medium *medium = store->medium;
	uint64_t step = RAW_BATCH_MAX / RAW_BLOCK;

	for (uint64_t at = 0; at < blocks; at += step) {
		uint64_t n;
		int r;

		step = RAW_BATCH_MAX / RAW_BLOCK;
		n = blocks - at < step ? blocks - at : step;
		r = medium->ops->read(
			medium, buffer, n * RAW_BLOCK,
			store_log_offset(&store->super, copy, at));
		if (r == -EIO && n > 1) /* which of them? */
			r = medium->ops->read(
				medium, buffer, (n = step = 1) * RAW_BLOCK,
				store_log_offset(&store->super, copy, at));
		if (r < 0 && r != -EIO)
			return r;
		for (uint64_t i = 0; r == 0 && i < n; i++)
			look_for_later(store, buffer + i * RAW_BLOCK, copy,
				       at + i, ret);
	}
	return 0;
}

static int find_later(struct raw_store *store, struct later *ret,
		      struct error *err)
{
	uint8_t *buffer = aligned_alloc(RAW_BLOCK, RAW_BATCH_MAX);
	int r = buffer ? 0 : -ENOMEM;

	*ret = (struct later){0};
	for (unsigned copy = 0; r == 0 && copy < RAW_COPIES; copy++)
		r = scan_ring(store, copy, buffer, ret);
	free(buffer);
	return r < 0 ? error_set(err, -r, "reading the log: %s", strerror(-r))
		     : 0;
}

/* Go on there; objects that the lost batches were about are damaged. */
static int skip_lost(struct raw_store *store, const struct later *later,
		     struct raw_report *report, struct error *err)
{
	uint64_t lost = later->sequence - store->log_sequence;
	struct raw_batch_head head;
	int r = read_copy(store, later->copy, later->block, &head);

	if (r == 0)
		r = raw_state_mark_damaged(&store->state,
					   lost == 1 ? &head.previous
						     : &head.since);
	if (r < 0)
		return error_set(err, -r, "reading the log: %s", strerror(-r));
	report->lost_batches += lost;
	store->log_sequence = later->sequence;
	store->log_block = later->block;
	return 0;
}

/* ---- the whole of it ---- */

static int apply_batch(struct raw_store *store, size_t length,
		       struct raw_report *report, struct error *err)
{
	struct store_replay replay = {
		.store = store, .report = report, .log = true, .err = err};
	int r = raw_batch_read(store->writing.data, length,
			       raw_salt(store->super.pool_id),
			       store_replay_record, &replay);

	if (r < 0)
		return error_prefix(err, r, "batch %" PRIu64 " of the log: ",
				    store->log_sequence);
	store_log_advance(store, length, &replay.touched);
	report->batches++;
	return 0;
}

static bool any(const enum found *found, enum found what)
{
	return found[0] == what || found[1] == what;
}

/* The batch is in neither copy: the end, or a gap. 1: go on. */
static int end_or_gap(struct raw_store *store, const enum found *found,
		      struct raw_report *report, struct error *err)
{
	struct later later;
	int r = find_later(store, &later, err);

	if (r < 0)
		return r;
	if (later.sequence) {
		report->unreadable += any(found, FOUND_UNREADABLE);
		r = skip_lost(store, &later, report, err);
		return r < 0 ? r : 1;
	}
	report->log_torn = any(found, FOUND_TORN);
	/* One copy that can be read must show that the batch is absent. */
	if (any(found, FOUND_UNREADABLE) && !any(found, FOUND_NONE))
		return error_set(err, EIO,
				 "batch %" PRIu64
				 " of the log can't be read: %s",
				 store->log_sequence, strerror(EIO));
	return 0;
}

/*
 * The next batch, into store->writing: 1; 0: the log ends; a negative error.
 *
 * @ret_once  only one copy has it
 */
static int next_batch(struct raw_store *store, struct raw_batch_head *ret,
		      bool *ret_once, struct raw_report *report,
		      struct error *err)
{
	enum found found[RAW_COPIES] = {FOUND_TROUBLE, FOUND_TROUBLE};
	int trouble = -EIO, r;

	/* The first is read last: it is the one to stay in memory. */
	found[1] = log_look(store, 1, ret, &trouble);
	if (found[1] != FOUND_TROUBLE)
		found[0] = log_look(store, 0, ret, &trouble);
	*ret_once = found[0] != found[1];
	if (found[0] != FOUND_WHOLE && found[1] == FOUND_WHOLE)
		found[0] = log_look(store, 1, ret, &trouble);
	if (any(found, FOUND_TROUBLE))
		return error_set(err, -trouble, "reading the log: %s",
				 strerror(-trouble));
	if (found[0] == FOUND_WHOLE)
		return 1;
	if (found[1] == FOUND_WHOLE) /* a moment ago it was */
		return error_set(err, EIO, "reading the log: %s",
				 strerror(EIO));
	r = end_or_gap(store, found, report, err);
	/* Behind a gap there is one, so this is no endless matter. */
	return r == 1 ? next_batch(store, ret, ret_once, report, err) : r;
}

int store_replay_log(struct raw_store *store, uint64_t upto,
		     struct raw_report *report, struct error *err)
{
	while (store->log_sequence < upto) {
		struct raw_batch_head head = {0};
		bool once;
		int r = next_batch(store, &head, &once, report, err);

		if (r <= 0)
			return r;
		/* Of the last one a crash may have kept one. */
		report->copies_damaged += report->log_once;
		report->log_copies += report->log_once;
		report->log_once = once;
		r = apply_batch(store, head.length, report, err);
		if (r < 0)
			return r;
	}
	return 0;
}
