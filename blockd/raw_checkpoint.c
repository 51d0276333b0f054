/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint: the state is encoded in memory at one instant, under the
 * lock; then written to clusters of its own, while changes go on; then the
 * superblock says that it is there.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw_store_internal.h"

/* Sealed batches, each in a part of its own. */
struct image {
	uint8_t *data; /* owned; page aligned */
	size_t room;   /* bytes */
	uint32_t part; /* bytes of one */
	uint32_t parts;
	uint32_t salt;
	struct raw_batch batch;
};

static int image_reserve(struct image *image)
{
	const size_t used = (size_t)image->parts * image->part;
	size_t room = image->room ? 2 * image->room : 4 * (size_t)image->part;
	uint8_t *data;

	if (used + image->part <= image->room)
		return 0;
	data = aligned_alloc(RAW_BLOCK, room);
	if (!data)
		return -ENOMEM;
	memset(data, 0, room);
	if (used)
		memcpy(data, image->data, used);
	free(image->data);
	image->data = data;
	image->room = room;
	return 0;
}

static int image_seal(struct image *image)
{
	size_t length;

	if (!image->batch.records)
		return 0;
	if (image_reserve(image) < 0)
		return -ENOMEM;
	length = raw_batch_seal(&image->batch, image->parts, image->salt);
	memcpy(image->data + (size_t)image->parts * image->part,
	       image->batch.data, length);
	image->parts++;
	raw_batch_clear(&image->batch);
	return 0;
}

static int image_add(void *context, const struct raw_record *record)
{
	struct image *image = context;
	int r;

	if (raw_batch_add(&image->batch, record) == 0)
		return 0;
	r = image_seal(image);
	return r < 0 ? r : raw_batch_add(&image->batch, record);
}

/*
 * Memory for what a checkpoint takes now, touched: not while changes wait.
 * Without it, or when it is not enough, image_reserve() gets it.
 */
static void image_prepare(struct image *image, struct raw_store *store)
{
	size_t part, room;

	(void)pthread_mutex_lock(&store->lock);
	part = raw_part_size(store->super.cluster_shift);
	room = 2 * (size_t)raw_state_bytes(&store->state);
	(void)pthread_mutex_unlock(&store->lock);
	room += 4 * part - room % part;
	image->data = aligned_alloc(RAW_BLOCK, room);
	if (!image->data)
		return;
	memset(image->data, 0, room);
	image->room = room;
}

static int image_make(struct image *image, struct raw_store *store,
		      const struct raw_super *super)
{
	int r;

	image->part = raw_part_size(super->cluster_shift);
	image->salt = store_checkpoint_salt(super);
	r = raw_batch_init(&image->batch, image->part);
	if (r == 0)
		r = raw_state_emit(&store->state, image_add, image);
	if (r == 0)
		r = image_seal(image);
	return r;
}

static void image_done(struct image *image)
{
	raw_batch_done(&image->batch);
	free(image->data);
}

/* ---- where it goes ---- */

static int take_clusters(struct raw_store *store, const struct image *image,
			 struct raw_super *super, struct error *err)
{
	uint64_t bytes = (uint64_t)image->parts * image->part;
	uint64_t n = RAW_COPIES *
		     ((bytes + (UINT64_C(1) << super->cluster_shift) - 1) >>
		      super->cluster_shift);
	struct raw_alloc *alloc = &store->state.alloc;

	super->n_checkpoint = 0;
	super->checkpoint_parts = image->parts;
	while (n <= RAW_CHECKPOINT_MAX && super->n_checkpoint < n) {
		uint32_t *at = &super->checkpoint[super->n_checkpoint];

		if (!raw_alloc_take(alloc, 1, RAW_HOLE, at))
			break;
		super->n_checkpoint++;
	}
	if (super->n_checkpoint == n)
		return 0;
	for (uint32_t i = 0; i < super->n_checkpoint; i++)
		raw_alloc_give(alloc, super->checkpoint[i]);
	return error_set(err, ENOSPC,
			 "no room for a checkpoint of %" PRIu64 " bytes",
			 bytes);
}

static int write_parts(struct raw_store *store, const struct image *image,
		       const struct raw_super *super, struct error *err)
{
	struct raw_medium *medium = store->medium;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < RAW_COPIES * image->parts; i++) {
		uint32_t part = i % image->parts;

		r = medium->ops->write(
			medium, image->data + (size_t)part * image->part,
			image->part,
			store_part_offset(super, i / image->parts, part));
	}
	/* With it, the data that the state maps. */
	if (r == 0)
		r = medium->ops->flush(medium);
	return r < 0 ? error_set(err, -r, "writing a checkpoint: %s",
				 strerror(-r))
		     : 0;
}

/* Lock held. Nothing is changed by a failure. */
static int prepare(struct raw_store *store, struct raw_super *super,
		   struct image *image, struct error *err)
{
	int r;

	*super = store->super;
	super->generation++; /* as store_write_super() is going to */
	r = image_make(image, store, super);
	if (r < 0)
		return error_set(err, -r, "encoding a checkpoint: %s",
				 strerror(-r));
	super->log_sequence = store->log_sequence;
	super->log_block = store->log_block;
	if (store->grown_clusters) {
		super->medium_size = store->grown_size;
		super->clusters = store->grown_clusters;
	}
	return take_clusters(store, image, super, err);
}

static int write_head(struct raw_store *store, struct raw_super *super,
		      struct error *err)
{
	super->generation--; /* which is raised by this */
	return store_write_super(store->medium, super, err);
}

static int write_out(struct raw_store *store, struct raw_super *super,
		     const struct image *image, struct error *err)
{
	int r = write_parts(store, image, super, err);

	return r < 0 ? r : write_head(store, super, err);
}

/* Lock held: the new one counts. */
static void replace(struct raw_store *store, const struct raw_super *super)
{
	for (uint32_t i = 0; i < store->super.n_checkpoint; i++)
		raw_alloc_give(&store->state.alloc, store->super.checkpoint[i]);
	/* The rest never changes, and is looked at without the lock. */
	store->super.generation = super->generation;
	store->super.medium_size = super->medium_size;
	store->super.clusters = super->clusters;
	store->super.log_sequence = super->log_sequence;
	store->super.log_block = super->log_block;
	store->super.checkpoint_parts = super->checkpoint_parts;
	store->super.n_checkpoint = super->n_checkpoint;
	memcpy(store->super.checkpoint, super->checkpoint,
	       sizeof(super->checkpoint));
}

int store_checkpoint_locked(struct raw_store *store, struct error *err)
{
	struct raw_super *super = malloc(sizeof(*super));
	uint64_t upto = store->newest, freed = store_freed(store);
	struct image image = {0};
	int r = super ? prepare(store, super, &image, err)
		      : error_set(err, ENOMEM, "out of memory");

	if (r == 0) {
		unsigned round = raw_alloc_round(&store->state.alloc);

		/* What was gathered for the log is in the checkpoint. */
		raw_batch_clear(&store->pending);
		(void)pthread_mutex_unlock(&store->lock);
		r = write_out(store, super, &image, err);
		(void)pthread_mutex_lock(&store->lock);
		if (r == 0) {
			replace(store, super);
			store_log_clear(store);
			raw_alloc_sure(&store->state.alloc, round);
			store->freed_durable = freed;
			atomic_store(&store->durable, upto);
		} else {
			store_mark_failed(store, err);
		}
	}
	image_done(&image);
	free(super);
	return r;
}

/* ---- ahead of time ---- */

/*
 * The log ends here, and with all that the image has: what is changed from
 * now on comes after the checkpoint. Lock and role held.
 */
static int begin_ahead(struct raw_store *store, struct raw_super *super,
		       struct image *image, struct error *err)
{
	int r = prepare(store, super, image, err);

	if (r == 0 && raw_store_pending(store))
		r = store_commit_once(store, err);
	super->log_sequence = store->log_sequence;
	super->log_block = store->log_block;
	store->since_ahead = (struct raw_mask){0};
	return r;
}

/* Lock and role held; both are let go of while the most is written. */
static int write_ahead(struct raw_store *store, struct raw_super *super,
		       const struct image *image, struct error *err)
{
	const uint64_t used = store->log_used;
	int r;

	store->ahead = true;
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	r = write_parts(store, image, super, err);
	(void)pthread_mutex_lock(&store->lock);
	store_take_log(store);
	if (r == 0 && store->broken)
		r = store_broken(store, err);
	if (r == 0) {
		(void)pthread_mutex_unlock(&store->lock);
		r = write_head(store, super, err);
		(void)pthread_mutex_lock(&store->lock);
	}
	store->ahead = false;
	if (r < 0) {
		store_mark_failed(store, err);
		return r;
	}
	replace(store, super);
	store_log_shorten(store, used, &store->since_ahead);
	return 0;
}

/* Lock and role held. A log that is full has no place for what is pending. */
static int checkpoint_ahead(struct raw_store *store, struct raw_super *super,
			    struct image *image, struct error *err)
{
	int r;

	if (store->broken)
		return store_broken(store, err);
	if (store_log_full(store))
		return store_checkpoint_locked(store, err);
	r = begin_ahead(store, super, image, err);
	return r < 0 ? r : write_ahead(store, super, image, err);
}

int raw_store_checkpoint_ahead(struct raw_store *store, struct error *err)
{
	struct raw_super *super = calloc(1, sizeof(*super));
	struct image image = {0};
	int r;

	if (!super)
		return error_set(err, ENOMEM, "out of memory");
	image_prepare(&image, store);
	(void)pthread_mutex_lock(&store->lock);
	store_take_role(store);
	r = checkpoint_ahead(store, super, &image, err);
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	image_done(&image);
	free(super);
	return r;
}
