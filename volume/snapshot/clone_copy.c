/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clone_source_wait(): the content of a clone, which is shared at once, or
 * copied by the nodes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/size.h"
#include "volume/op/extent_pull.h"
#include "volume/op/split.h"
#include "volume/snapshot/clone_source.h"

#define SAVE_EVERY_MS 3000 /* of how far a copy is */

/* Make a step of the copy from another pool. */
static int split_pull(struct operation *op, struct volume_split *split,
		      struct extent_pull *pull, struct error *err)
{
	int r;

	split_pull_of(split, pull);
	r = extent_pull_step(op->ctx, pull, err);
	if (r == 0 && pull->done)
		r = extent_pull_end(op->ctx, pull, err);
	if (r < 0)
		return r;
	split->pulled = pull->done ? 0 : pull->position;
	split->copying = !pull->done;
	return 0;
}

/* Look at the copy that the split's own blockd makes in the same pool. */
static int split_look_copied(struct operation *op,
			     const struct volume_split *split, bool *ret_done,
			     uint64_t *ret_bytes, struct error *err)
{
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	int r = context_client(op->ctx, split->node, &client, err);

	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	if (r == 0) {
		*ret_done = strcmp(extent.state, NODE_COPYING) != 0;
		*ret_bytes = *ret_done ? split->size : extent.copied;
	}
	node_extent_done(&extent);
	return r;
}

/* How far the copies of all splits are. */
struct clone_progress {
	struct extent_pull *pulls; /* owned; of each split */
	uint64_t bytes;            /* a lower bound */
	bool done;
};

static int clone_look(struct operation *op, struct clone_progress *progress,
		      struct error *err)
{
	int r = 0;

	progress->done = true;
	progress->bytes = 0;
	for (size_t i = 0; r == 0 && i < op->record->n_splits; i++) {
		struct volume_split *split = &op->record->splits[i];
		uint64_t bytes = split->size;
		bool done = true;

		if (split->copying) {
			r = split_pull(op, split, &progress->pulls[i], err);
			done = !split->copying;
			bytes = done ? split->size : split->pulled;
		} else if (split->source[0] && !split->source_node[0]) {
			r = split_look_copied(op, split, &done, &bytes, err);
		}
		progress->done = progress->done && done;
		progress->bytes += bytes;
	}
	return r;
}

static bool clone_pulls(const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		if (record->splits[i].copying)
			return true;
	}
	return false;
}

/* Keep in the record how far it is, for people and for who goes on. */
static int clone_save(struct operation *op, const char *text, struct error *err)
{
	if (volume_record_condition(op->record, "Created", false, "Copying",
				    text) < 0)
		return error_set(err, ENOMEM, "the record has no room");
	return operation_save(op, err);
}

static int clone_wait(struct operation *op, struct clone_progress *progress,
		      struct error *err)
{
	const struct timespec a_while = {.tv_nsec = 200000000};
	char text[160], size[2][SIZE_TEXT_MAX];
	int64_t saved_ms = clock_ms();
	bool pulls = clone_pulls(op->record);
	int r;

	for (;;) {
		r = clone_look(op, progress, err);
		if (r < 0 || progress->done)
			return r == 0 && pulls ? operation_save(op, err) : r;
		(void)snprintf(text, sizeof(text),
			       "copying the content, %s of %s",
			       size_format(size[0], progress->bytes),
			       size_format(size[1], op->record->spec.capacity));
		r = operation_step(op, err, "copy", "%s", text);
		if (r == 0 && pulls && clock_ms() - saved_ms >= SAVE_EVERY_MS) {
			r = clone_save(op, text, err);
			saved_ms = clock_ms();
		}
		if (r < 0)
			return r;
		(void)nanosleep(&a_while, NULL);
	}
}

int clone_source_wait(struct operation *op, struct error *err)
{
	struct clone_progress progress = {0};
	int r;

	if (op->record->spec.source.kind == VOLUME_SOURCE_NONE)
		return 0;
	progress.pulls = calloc(op->record->n_splits + 1,
				sizeof(*progress.pulls));
	if (!progress.pulls)
		return error_set(err, ENOMEM, "out of memory");
	r = clone_wait(op, &progress, err);
	free(progress.pulls);
	return r;
}
