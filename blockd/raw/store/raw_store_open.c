/* SPDX-License-Identifier: Apache-2.0 */
/* Format and open a store: superblocks, the newest checkpoint, the log. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/raw/store/raw_store_internal.h"

#define MIB (UINT64_C(1) << 20)

static void *block_alloc(size_t size)
{
	return aligned_alloc(RAW_BLOCK, size);
}

static int medium_error(struct error *err, int r, const char *what)
{
	return error_set(err, -r, "%s: %s", what, strerror(-r));
}

/* ---- superblocks ---- */

int store_put_super(struct raw_medium *medium, const struct raw_super *super,
		    struct error *err)
{
	/* The second copy first: one of them is whole at any moment. */
	static const uint64_t places[] = {RAW_SUPER_COPY_OFFSET, 0};
	uint8_t *block = block_alloc(RAW_SUPER_SIZE);
	int r = 0;

	if (!block)
		return error_set(err, ENOMEM, "out of memory");
	raw_super_encode(super, block);
	for (size_t i = 0; r == 0 && i < 2; i++) {
		r = medium->ops->write(medium, block, RAW_SUPER_SIZE,
				       places[i]);
		if (r == 0)
			r = medium->ops->flush(medium);
	}
	free(block);
	return r < 0 ? medium_error(err, r, "writing the superblock") : 0;
}

int store_write_super(struct raw_medium *medium, struct raw_super *super,
		      struct error *err)
{
	super->generation++;
	return store_put_super(medium, super, err);
}

int store_read_super(struct raw_medium *medium, uint64_t offset,
		     struct raw_super *ret, struct error *err)
{
	uint8_t *block = block_alloc(RAW_SUPER_SIZE);
	int r;

	if (!block)
		return error_set(err, ENOMEM, "out of memory");
	r = offset + RAW_SUPER_SIZE > medium->size
		    ? -ENODATA
		    : medium->ops->read(medium, block, RAW_SUPER_SIZE, offset);
	if (r < 0)
		(void)medium_error(err, r, "reading the superblock");
	else
		r = raw_super_decode(block, medium->size, ret, err);
	free(block);
	return r;
}

/* The newer of two copies that decode. */
static int find_super(struct raw_medium *medium, struct raw_super *ret,
		      struct raw_report *report, struct error *err)
{
	struct raw_super *copy = malloc(sizeof(*copy));
	struct error second = {0};
	int a, b;

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	a = store_read_super(medium, 0, ret, err);
	b = store_read_super(medium, RAW_SUPER_COPY_OFFSET, copy, &second);
	report->super_damaged = (a < 0) != (b < 0);
	report->super_stale = a == 0 && b == 0 &&
			      copy->generation != ret->generation;
	if (b == 0 && (a < 0 || copy->generation > ret->generation))
		*ret = *copy;
	free(copy);
	if (a == 0 || b == 0)
		return 0;
	/* The one that says more: damaged rather than never there. */
	if (a == -ENODATA && b != -ENODATA) {
		*err = second;
		return b;
	}
	return a;
}

/* ---- format ---- */

static uint64_t log_size_for(uint64_t size)
{
	uint64_t log = size / 256 / MIB * MIB;

	if (log < RAW_LOG_MIN)
		log = RAW_LOG_MIN;
	return log > 64 * MIB ? 64 * MIB : log;
}

uint32_t store_clusters_for(const struct raw_super *super, uint64_t size)
{
	uint64_t n = (size - super->data_start) >> super->cluster_shift;

	return n > RAW_CLUSTERS_MAX ? RAW_CLUSTERS_MAX : (uint32_t)n;
}

static int lay_out(const struct raw_medium *medium,
		   const struct raw_format_options *options,
		   struct raw_super *ret, struct error *err)
{
	uint64_t cluster;

	*ret = (struct raw_super){
		.cluster_shift = options->cluster_shift ? options->cluster_shift
							: RAW_CLUSTER_SHIFT,
		.log_size = options->log_size ? options->log_size
					      : log_size_for(medium->size),
		.medium_size = medium->size / RAW_BLOCK * RAW_BLOCK,
		.incompat = RAW_INCOMPAT_KNOWN & ~options->without,
	};
	cluster = UINT64_C(1) << ret->cluster_shift;
	ret->data_start = (RAW_LOG_START + ret->log_size + cluster - 1) /
			  cluster * cluster;
	if (ret->medium_size < ret->data_start + RAW_CLUSTERS_LEAST * cluster)
		return error_set(err, ENOSPC,
				 "a raw pool takes at least %" PRIu64
				 " bytes with clusters of %" PRIu64,
				 ret->data_start + RAW_CLUSTERS_LEAST * cluster,
				 cluster);
	ret->clusters = store_clusters_for(ret, ret->medium_size);
	return 0;
}

static int medium_zero(struct raw_medium *medium, uint64_t offset,
		       uint64_t length)
{
	uint8_t *zeroes = block_alloc(RAW_BATCH_MAX);
	int r = 0;

	if (!zeroes)
		return -ENOMEM;
	memset(zeroes, 0, RAW_BATCH_MAX);
	while (r == 0 && length > 0) {
		size_t n = length < RAW_BATCH_MAX ? length : RAW_BATCH_MAX;

		r = medium->ops->write(medium, zeroes, n, offset);
		offset += n;
		length -= n;
	}
	free(zeroes);
	return r;
}

int store_wipe(struct raw_medium *medium, uint64_t offset, uint64_t length,
	       struct error *err)
{
	int r = medium_zero(medium, offset, length);

	if (r == 0)
		r = medium->ops->flush(medium);
	return r < 0 ? medium_error(err, r, "wiping the medium") : 0;
}

int raw_store_write_zeroes(struct raw_store *store, uint32_t physical,
			   uint32_t count, struct error *err)
{
	const struct raw_super *super = &store->super;
	int r = medium_zero(store->medium,
			    super->data_start + ((uint64_t)physical
						 << super->cluster_shift),
			    (uint64_t)count << super->cluster_shift);

	return r < 0 ? medium_error(err, r, "writing zeroes") : 0;
}

static int store_new(struct raw_medium *medium, const struct raw_super *super,
		     struct raw_store **ret, struct error *err)
{
	struct raw_store *store = calloc(1, sizeof(*store));

	if (!store)
		return error_set(err, ENOMEM, "out of memory");
	store->medium = medium;
	store->super = *super;
	store->log_sequence = super->log_sequence;
	store->log_block = super->log_block;
	(void)pthread_mutex_init(&store->lock, NULL);
	(void)pthread_cond_init(&store->done, NULL);
	if (raw_batch_init(&store->pending, RAW_BATCH_MAX) < 0 ||
	    raw_batch_init(&store->writing, RAW_BATCH_MAX) < 0 ||
	    raw_state_init(&store->state, super->clusters,
			   super->cluster_shift) < 0) {
		raw_store_close(store);
		return error_set(err, ENOMEM,
				 "out of memory for a pool of %" PRIu32
				 " clusters",
				 super->clusters);
	}
	*ret = store;
	return 0;
}

int raw_store_format(struct raw_medium *medium,
		     const struct raw_format_options *options,
		     struct error *err)
{
	struct raw_record pool = {
		.type = RAW_POOL,
		.text = options->text,
		.text_length = (uint32_t)options->text_length,
	};
	struct raw_store *store = NULL;
	struct raw_super super;
	int r = lay_out(medium, options, &super, err);

	if (r < 0)
		return r;
	assert(options->text_length <= RAW_TEXT_MAX);
	if (options->pool_id)
		memcpy(super.pool_id, options->pool_id, UUID_TEXT_SIZE);
	else
		(void)uuid_make(super.pool_id);
	/* No superblock, no batch and no file system of before. */
	r = store_wipe(medium, 0, RAW_LOG_START + super.log_size, err);
	if (r == 0)
		r = store_new(medium, &super, &store, err);
	if (r == 0)
		r = raw_store_change(store, &pool, 1, NULL, err);
	if (r == 0)
		r = raw_store_checkpoint(store, err);
	raw_store_close(store);
	return r;
}

/* ---- the checkpoint ---- */

uint64_t store_part_offset(const struct raw_super *super, unsigned copy,
			   uint32_t part)
{
	uint64_t at = (uint64_t)part * raw_part_size(super->cluster_shift);
	uint32_t i = copy * (super->n_checkpoint / RAW_COPIES) +
		     (uint32_t)(at >> super->cluster_shift);

	return super->data_start +
	       ((uint64_t)super->checkpoint[i] << super->cluster_shift) +
	       (at & ((UINT64_C(1) << super->cluster_shift) - 1));
}

uint32_t store_checkpoint_salt(const struct raw_super *super)
{
	return ~raw_salt(super->pool_id) ^ (uint32_t)super->generation;
}

int store_read_part(struct raw_store *store, unsigned copy, uint32_t part,
		    struct raw_batch_head *ret)
{
	const struct raw_super *super = &store->super;
	uint64_t offset = store_part_offset(super, copy, part);
	int r = store_read_batch(store, offset,
				 offset + raw_part_size(super->cluster_shift),
				 store_checkpoint_salt(super), ret);

	return r == 0 && ret->sequence != part ? -ENODATA : r;
}

/* One of the copies, into store->writing; -ENODATA: neither is whole. */
static int read_part(struct raw_store *store, uint32_t part,
		     struct raw_report *report, struct raw_batch_head *ret)
{
	bool unreadable = false;

	for (unsigned copy = 0; copy < RAW_COPIES; copy++) {
		int r = store_read_part(store, copy, part, ret);

		if (r != -ENODATA && r != -EIO)
			return r;
		report->copies_damaged++;
		unreadable = unreadable || r == -EIO;
	}
	report->copies_damaged -= RAW_COPIES;
	report->unreadable += unreadable;
	return -ENODATA;
}

static int load_part(struct store_replay *replay, uint32_t part,
		     struct error *err)
{
	struct raw_store *store = replay->store;
	struct raw_batch_head head = {0};
	int r = read_part(store, part, replay->report, &head);

	if (r == -ENODATA) {
		replay->report->lost_parts++;
		r = raw_state_lost(&store->state);
		return r < 0 ? medium_error(err, r, "salvage") : 0;
	}
	if (r < 0)
		return medium_error(err, r, "reading the checkpoint");
	return raw_batch_read(store->writing.data, head.length,
			      store_checkpoint_salt(&store->super),
			      store_replay_record, replay);
}

static int load_checkpoint(struct raw_store *store, struct raw_report *report,
			   struct error *err)
{
	struct store_replay replay = {
		.store = store, .report = report, .err = err};
	const struct raw_super *super = &store->super;
	int r = 0;

	/*
	 * Nothing else may map them, but a later record may take one that is
	 * free in the checkpoint: it is taken at once, too.
	 */
	for (uint32_t i = 0; i < super->n_checkpoint; i++) {
		if (!raw_alloc_take_at(&store->state.alloc,
				       super->checkpoint[i]))
			return error_set(err, EBADMSG,
					 "the checkpoint has cluster %" PRIu32
					 " twice",
					 super->checkpoint[i]);
	}
	for (uint32_t i = 0; r == 0 && i < super->checkpoint_parts; i++)
		r = load_part(&replay, i, err);
	if (r < 0)
		return r;
	if (!report->lost_parts)
		return raw_state_replayed(&store->state, err);
	r = raw_state_salvaged(&store->state);
	return r < 0 ? medium_error(err, r, "salvage") : 0;
}

/* ---- open ---- */

/*
 * Stop a store that is damaged. Lost records may have given clusters to the
 * damaged objects: nobody can tell which. So no cluster is given, and nothing
 * is written.
 */
static void freeze(struct raw_store *store, struct raw_report *report)
{
	const uint64_t lost = report->lost_parts + report->lost_batches;
	const struct raw_state *state = &store->state;
	struct error cause;

	for (uint32_t i = 0; i < state->n_slots; i++)
		report->damaged += state->objects[i] &&
				   state->objects[i]->damaged;
	report->unknown = state->objects_lost;
	(void)error_set(&cause, EIO,
			"both copies of %" PRIu64
			" parts of its metadata are damaged, or can't be read "
			"(%" PRIu64 " of them); extents that are not served "
			"for it: %" PRIu64
			", and such as are not even known by name: %" PRIu64,
			lost, report->unreadable, report->damaged,
			report->unknown);
	store_mark_broken(store, &cause);
	store->unreadable = report->unreadable > 0;
}

/* Both copies of all that is there; open looks no further than it must. */
static int load_all(struct raw_store *store, uint64_t upto,
		    struct raw_report *report, struct error *err)
{
	int r = load_checkpoint(store, report, err);

	if (r == 0)
		r = store_replay_log(store, upto, report, err);
	if (r == 0 && !store->state.pool_text)
		r = error_set(err, EBADMSG,
			      "both copies of the checkpoint are damaged where "
			      "the pool's record is");
	if (r == 0 && raw_report_lost(report))
		freeze(store, report);
	return r;
}

int store_load(struct raw_medium *medium, const struct raw_super *super,
	       uint64_t upto, struct raw_report *report, struct raw_store **ret,
	       struct error *err)
{
	struct raw_store *store = NULL;
	int r = store_new(medium, super, &store, err);

	if (r == 0)
		r = load_all(store, upto, report, err);
	if (r < 0)
		raw_store_close(store);
	else
		*ret = store;
	return r;
}

static int find_and_load(struct raw_medium *medium, struct raw_store **ret,
			 struct raw_report *ret_report, struct error *err)
{
	struct raw_super *super = malloc(sizeof(*super));
	int r = super ? find_super(medium, super, ret_report, err)
		      : error_set(err, ENOMEM, "out of memory");

	if (r == 0)
		r = store_load(medium, super, STORE_LOG_END, ret_report, ret,
			       err);
	free(super);
	return r;
}

int raw_store_open(struct raw_medium *medium, struct raw_store **ret,
		   struct raw_report *ret_report, struct error *err)
{
	struct raw_report report = {0};
	struct raw_store *store = NULL;
	int r = find_and_load(medium, &store, &report, err);

	/* All is there twice again before anything is built on one. */
	if (r == 0 && !raw_report_lost(&report) &&
	    (report.super_damaged || report.super_stale ||
	     report.copies_damaged || report.log_once))
		r = raw_store_checkpoint(store, err);
	if (r < 0) {
		raw_store_close(store);
		return r;
	}
	*ret = store;
	*ret_report = report;
	return 0;
}

int raw_store_look(struct raw_medium *medium, struct raw_store **ret,
		   struct raw_report *ret_report, struct error *err)
{
	struct error cause;
	int r;

	*ret_report = (struct raw_report){0};
	r = find_and_load(medium, ret, ret_report, err);
	if (r == 0) {
		(void)error_set(&cause, EROFS, "it is only looked at");
		store_mark_broken(*ret, &cause);
	}
	return r;
}

/* ---- without opening ---- */

int raw_store_peek(struct raw_medium *medium, char **ret_text,
		   size_t *ret_length, struct error *err)
{
	struct raw_super *super = malloc(sizeof(*super));
	struct raw_store *store = NULL;
	struct raw_report report = {0};
	struct store_replay replay = {.report = &report, .err = err};
	int r = super ? find_super(medium, super, &report, err)
		      : error_set(err, ENOMEM, "out of memory");

	if (r == 0)
		r = store_new(medium, super, &store, err);
	free(super);
	/* The pool's record is the first of all, and the last. */
	replay.store = store;
	if (r == 0 && store->super.checkpoint_parts)
		r = load_part(&replay, 0, err);
	if (r == 0 && report.lost_parts)
		r = load_part(&replay, store->super.checkpoint_parts - 1, err);
	if (r == 0 && !store->state.pool_text)
		r = error_set(err, EBADMSG, "the pool has no record");
	if (r == 0) {
		*ret_text = take_ptr(store->state.pool_text);
		*ret_length = store->state.pool_text_length;
	}
	raw_store_close(store);
	return r;
}

int raw_store_erase(struct raw_store *store, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&store->lock);
	store_take_role(store); /* or a checkpoint would bring it back */
	(void)error_set(&store->cause, ENODEV, "it is deleted");
	store->broken = true;
	(void)pthread_mutex_unlock(&store->lock);
	r = store_wipe(store->medium, 0, RAW_LOG_START, err);
	(void)pthread_mutex_lock(&store->lock);
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}
