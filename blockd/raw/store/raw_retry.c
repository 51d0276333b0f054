/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that could not write, or not read all: can it by now? Asked before it
 * is closed and opened again, so that readable data is served until then.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/store/raw_store_internal.h"

/*
 * The batch that failed may be there in part, in one copy or in both. Nobody
 * was told of it, so that there is none is as right as any. With a full log
 * there was no batch, and its place may be one that is still needed.
 */
static int retry_log(struct raw_store *store, struct error *err)
{
	int r = 0;

	for (unsigned copy = 0; r == 0 && copy < RAW_COPIES; copy++)
		r = store_wipe(
			store->medium,
			store_log_offset(&store->super, copy, store->log_block),
			RAW_BATCH_MAX, err);
	return r;
}

/*
 * Write the superblock again, as a checkpoint that failed may have left one of
 * its own. The checkpoint before it is as whole, and goes on with the same log.
 */
static int retry_super(struct raw_store *store, struct error *err)
{
	return store_put_super(store->medium, &store->super, err);
}

/* Read the metadata again that could not be read when the store was opened. */
static int retry_reading(struct raw_store *store, struct error *err)
{
	struct raw_store *again = NULL;
	struct raw_report report;
	int r = raw_store_look(store->medium, &again, &report, err);

	if (r == 0 && report.unreadable)
		r = error_set(err, EIO,
			      "%" PRIu64 " parts of its metadata can't be read",
			      report.unreadable);
	raw_store_close(again);
	return r < 0 ? r : 1;
}

/* ---- trying ---- */

static int try_read(const struct raw_store *store, uint64_t offset,
		    const char *pool_id, struct error *err)
{
	struct raw_super *super = malloc(sizeof(*super));
	int r = super ? store_read_super(store->medium, offset, super, err)
		      : error_set(err, ENOMEM, "out of memory");

	if (r == 0 && strcmp(super->pool_id, pool_id) != 0)
		r = error_set(err, EBADMSG, "its superblock is another pool's");
	free(super);
	return r;
}

static int try_write(const struct raw_store *store, struct error *err)
{
	static const char text[] = "tributary: written to see if it can be";
	struct raw_medium *medium = store->medium;
	char *block = aligned_alloc(RAW_BLOCK, RAW_BLOCK);
	int r;

	if (!block)
		return error_set(err, ENOMEM, "out of memory");
	memset(block, 0, RAW_BLOCK);
	memcpy(block, text, sizeof(text));
	r = medium->ops->write(medium, block, RAW_BLOCK, RAW_TRY_OFFSET);
	if (r == 0)
		r = medium->ops->flush(medium);
	free(block);
	return r < 0 ? error_set(err, -r, "writing to it: %s", strerror(-r))
		     : 0;
}

int raw_store_try(struct raw_store *store, const char *pool_id,
		  struct error *err)
{
	int r = try_read(store, 0, pool_id, err);

	if (r < 0) /* one of them may be written just now */
		r = try_read(store, RAW_SUPER_COPY_OFFSET, pool_id, err);
	if (r < 0 || raw_store_broken(store, NULL))
		return r;
	return try_write(store, err);
}

/* ---- trying again ---- */

int raw_store_retry(struct raw_store *store, struct error *err)
{
	int r = 0;

	if (store->unreadable) /* since it was opened */
		return retry_reading(store, err);
	(void)pthread_mutex_lock(&store->lock);
	if (!store->failed) {
		(void)pthread_mutex_unlock(&store->lock);
		return 0;
	}
	store_take_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	if (!store_log_full(store))
		r = retry_log(store, err);
	if (r == 0)
		r = retry_super(store, err);
	(void)pthread_mutex_lock(&store->lock);
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	return r < 0 ? r : 1;
}
