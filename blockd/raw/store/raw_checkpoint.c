/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint: the state of one instant is encoded, written to clusters of
 * its own, and then the superblock says that it is there. The lock is held
 * only for a copy of the maps' roots (raw_state_freeze()); changes go on while
 * the rest is done, and with a checkpoint ahead of time commits, too.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/store/raw_store_internal.h"

/*
 * Sealed batches, each in a part of its own, and each of these by itself: one
 * large piece of memory, made and given back, would hold up other threads.
 */
struct image {
	uint8_t **data; /* owned, each and all; page aligned */
	uint32_t room;  /* parts */
	uint32_t part;  /* bytes of one */
	uint32_t parts;
	uint32_t salt;
	struct raw_batch batch;
};

static int image_reserve(struct image *image)
{
	uint32_t room = image->room ? 2 * image->room : 16;
	uint8_t **data;

	if (image->parts < image->room)
		return 0;
	data = reallocarray(image->data, room, sizeof(*data));
	if (!data)
		return -ENOMEM;
	image->data = data;
	image->room = room;
	return 0;
}

static int image_seal(struct image *image)
{
	uint8_t *data;
	size_t length;

	if (!image->batch.records)
		return 0;
	data = image_reserve(image) < 0 ? NULL
					: aligned_alloc(RAW_BLOCK, image->part);
	if (!data)
		return -ENOMEM;
	length = raw_batch_seal(&image->batch, image->parts, image->salt);
	memcpy(data, image->batch.data, length);
	memset(data + length, 0, image->part - length);
	image->data[image->parts++] = data;
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

/* Where a state's records go: image_add(). */
static int image_begin(struct image *image, const struct raw_super *super)
{
	image->part = raw_part_size(super->cluster_shift);
	image->salt = store_checkpoint_salt(super);
	return raw_batch_init(&image->batch, image->part);
}

static int encoding_failed(int r, struct error *err)
{
	return error_set(err, -r, "encoding a checkpoint: %s", strerror(-r));
}

static void image_done(struct image *image)
{
	raw_batch_done(&image->batch);
	for (uint32_t i = 0; i < image->parts; i++)
		free(image->data[i]);
	free((void *)image->data);
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
			medium, image->data[part], image->part,
			store_part_offset(super, i / image->parts, part));
	}
	/* With it, the data that the state maps. */
	if (r == 0)
		r = medium->ops->flush(medium);
	return r < 0 ? error_set(err, -r, "writing a checkpoint: %s",
				 strerror(-r))
		     : 0;
}

/* Lock held. Without the checkpoint's place. */
static void next_super(const struct raw_store *store, struct raw_super *super)
{
	*super = store->super;
	super->generation++; /* as store_write_super() is going to */
	super->log_sequence = store->log_sequence;
	super->log_block = store->log_block;
	if (store->grown_clusters) {
		super->medium_size = store->grown_size;
		super->clusters = store->grown_clusters;
	}
}

/* Lock not held, but for a moment. A failure has changed nothing. */
static int checkpoint_encode(struct raw_store *store, struct raw_super *super,
			     struct raw_frozen *frozen, struct image *image,
			     struct error *err)
{
	int r = image_begin(image, super);

	if (r == 0)
		r = raw_frozen_emit(frozen, image_add, image);
	if (r == 0)
		r = image_seal(image);
	if (r < 0)
		return encoding_failed(r, err);
	(void)pthread_mutex_lock(&store->lock);
	r = take_clusters(store, image, super, err);
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}

static int write_head(struct raw_store *store, struct raw_super *super,
		      struct error *err)
{
	super->generation--; /* which is raised by this */
	return store_write_super(store->medium, super, err);
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

/* Lock held, and the batch taken that the checkpoint makes needless. */
static void pending_take(struct raw_store *store)
{
	const struct raw_batch batch = store->pending;

	store->pending = store->writing;
	store->writing = batch;
	raw_batch_clear(&store->pending);
}

/* Lock held. There is no checkpoint: it is needed, and may have its place. */
static bool pending_give_back(struct raw_store *store)
{
	const struct raw_batch batch = store->pending;

	if (batch.records)
		return false;
	store->pending = store->writing;
	store->writing = batch;
	return true;
}

/* Lock not held. */
static int encode_and_write(struct raw_store *store, struct raw_super *super,
			    struct raw_frozen *frozen, bool *ret_encoded,
			    struct error *err)
{
	struct image image = {0};
	int r = checkpoint_encode(store, super, frozen, &image, err);

	*ret_encoded = r == 0;
	if (r == 0)
		r = write_parts(store, &image, super, err);
	if (r == 0)
		r = write_head(store, super, err);
	image_done(&image);
	return r;
}

/* Lock and role held; the lock is let go of meanwhile. */
static int checkpoint_frozen(struct raw_store *store, struct raw_super *super,
			     struct raw_frozen *frozen, struct error *err)
{
	const uint64_t upto = store->newest, freed = store_freed(store);
	const unsigned round = raw_alloc_round(&store->state.alloc);
	bool encoded;
	int r;

	next_super(store, super);
	/* Changes gathered for the log are in the checkpoint. */
	pending_take(store);
	(void)pthread_mutex_unlock(&store->lock);
	r = encode_and_write(store, super, frozen, &encoded, err);
	(void)pthread_mutex_lock(&store->lock);
	if (r == 0) {
		replace(store, super);
		store_log_clear(store);
		raw_alloc_sure(&store->state.alloc, round);
		store->freed_durable = freed;
		atomic_store(&store->durable, upto);
	} else if (encoded || !pending_give_back(store)) {
		store_mark_failed(store, err);
	}
	return r;
}

int store_checkpoint_locked(struct raw_store *store, struct error *err)
{
	struct raw_super *super = malloc(sizeof(*super));
	struct raw_frozen *frozen = NULL;
	int r;

	if (super)
		frozen = raw_state_freeze(&store->state);
	r = frozen ? checkpoint_frozen(store, super, frozen, err)
		   : encoding_failed(-ENOMEM, err);
	if (frozen)
		raw_state_thaw(&store->state);
	raw_frozen_free(frozen);
	free(super);
	return r;
}

/* ---- ahead of time ---- */

/*
 * End the log here, with all that the frozen state has. Changes from now on
 * come after the checkpoint. Lock and role held.
 */
static int begin_ahead(struct raw_store *store, struct raw_super *super,
		       struct raw_frozen **ret, struct error *err)
{
	int r = 0;

	*ret = raw_state_freeze(&store->state);
	if (!*ret)
		return encoding_failed(-ENOMEM, err);
	if (raw_store_pending(store))
		r = store_commit_once(store, err);
	next_super(store, super);
	store->since_ahead = (struct raw_mask){0};
	return r;
}

/* Make the written state the checkpoint from here on. Lock and role held. */
static int finish_ahead(struct raw_store *store, struct raw_super *super,
			uint64_t used, struct error *err)
{
	int r = store->broken ? store_broken(store, err) : 0;

	if (r == 0) {
		(void)pthread_mutex_unlock(&store->lock);
		r = write_head(store, super, err);
		(void)pthread_mutex_lock(&store->lock);
	}
	if (r == 0) {
		replace(store, super);
		store_log_shorten(store, used, &store->since_ahead);
	}
	return r;
}

/*
 * Lock and role held; both are let go of while the state is encoded, and
 * while the most is written.
 */
static int write_ahead(struct raw_store *store, struct raw_super *super,
		       struct raw_frozen *frozen, struct error *err)
{
	const uint64_t used = store->log_used;
	struct image image = {0};
	bool begun = false;
	int r;

	store->ahead = true;
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	r = checkpoint_encode(store, super, frozen, &image, err);
	begun = r == 0;
	if (begun)
		r = write_parts(store, &image, super, err);
	image_done(&image);
	(void)pthread_mutex_lock(&store->lock);
	store_take_log(store);
	if (r == 0)
		r = finish_ahead(store, super, used, err);
	store->ahead = false;
	if (r < 0 && begun)
		store_mark_failed(store, err);
	return r;
}

/* Lock and role held. A log that is full has no place for what is pending. */
static int checkpoint_ahead(struct raw_store *store, struct raw_super *super,
			    struct raw_frozen **frozen, struct error *err)
{
	int r;

	if (store->broken)
		return store_broken(store, err);
	if (store_log_full(store))
		return store_checkpoint_locked(store, err);
	r = begin_ahead(store, super, frozen, err);
	if (r == 0)
		r = write_ahead(store, super, *frozen, err);
	raw_state_thaw(&store->state);
	return r;
}

int raw_store_checkpoint_ahead(struct raw_store *store, struct error *err)
{
	struct raw_super *super = calloc(1, sizeof(*super));
	struct raw_frozen *frozen = NULL;
	int r;

	if (!super)
		return error_set(err, ENOMEM, "out of memory");
	(void)pthread_mutex_lock(&store->lock);
	store_take_role(store);
	r = checkpoint_ahead(store, super, &frozen, err);
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	raw_frozen_free(frozen);
	free(super);
	return r;
}
