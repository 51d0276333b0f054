/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a medium may hold: any records, any superblock, with right checksums
 * (a wrong one ends it at once). First byte even: records. Whatever of them a
 * state takes, it counts right afterwards, and a checkpoint of it makes the
 * same state; bit 1: also when some are lost. Odd: a superblock; one that
 * decodes is encoded the same.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/crc32c.h"
#include "base/wire/wire.h"
#include "blockd/raw/store/raw_format.h"
#include "blockd/raw/store/raw_state.h"

#define CLUSTERS 300
#define SALT     7

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(void *context, const struct raw_record *record)
{
	struct error err;
	int r = raw_state_replay(context, record, &err);

	assert(r == 0 || (r == -EBADMSG && err.msg[0]));
	return 0; /* go on: more is found out */
}

static int replay_or_die(void *context, const struct raw_record *record)
{
	struct error err;

	assert(raw_state_replay(context, record, &err) == 0);
	return 0;
}

/* Every object reads the same in both. */
static void compare(const struct raw_state *a, const struct raw_state *b)
{
	assert(a->n_objects == b->n_objects);
	for (uint32_t id = 1; id <= a->n_slots; id++) {
		const struct raw_object *x = raw_state_object(a, id);
		const struct raw_object *y = raw_state_object(b, id);
		uint64_t at = 0, start, count;

		assert(!x == !y);
		if (!x)
			continue;
		assert(x->text_length == y->text_length &&
		       memcmp(x->text, y->text, x->text_length) == 0);
		assert(raw_map_clusters(&x->map) == raw_map_clusters(&y->map));
		raw_map_difference(&x->map, &y->map, at, &start, &count);
		assert(count == 0);
	}
}

static void check(struct raw_state *state)
{
	struct raw_state copy;
	struct error err;

	assert(raw_state_verify(state, &err) == 0);
	assert(raw_state_init(&copy, CLUSTERS, RAW_CLUSTER_SHIFT_MIN) == 0);
	assert(raw_state_emit(state, replay_or_die, &copy) == 0);
	assert(raw_state_replayed(&copy, &err) == 0);
	assert(raw_state_verify(&copy, &err) == 0);
	compare(state, &copy);
	raw_state_done(&copy);
}

/* @body as the records of a batch: its head is right, and says @records. */
static void fuzz_records(const uint8_t *body, size_t size, uint32_t records)
{
	struct raw_batch batch;
	struct raw_state state;
	size_t length;

	if (size > RAW_BATCH_MAX - 160)
		size = RAW_BATCH_MAX - 160;
	assert(raw_batch_init(&batch, RAW_BATCH_MAX) == 0);
	assert(raw_state_init(&state, CLUSTERS, RAW_CLUSTER_SHIFT_MIN) == 0);
	memcpy(batch.data + batch.length, body, size);
	batch.length += size;
	batch.records = records;
	length = raw_batch_seal(&batch, 1, SALT);
	(void)raw_batch_read(batch.data, length, SALT, replay, &state);
	if (raw_state_replayed(&state, NULL) == 0) /* else it is not used */
		check(&state);
	raw_state_done(&state);
	raw_batch_done(&batch);
}

struct losing {
	struct raw_state state;
	unsigned n;
};

/* Every third record is lost: what is left is a state all the same. */
static int salvage_some(void *context, const struct raw_record *record)
{
	struct losing *losing = context;

	if (losing->n++ % 3 == 2)
		return raw_state_lost(&losing->state);
	return raw_state_salvage(&losing->state, record);
}

static void fuzz_salvage(const uint8_t *body, size_t size, uint32_t records)
{
	const struct raw_mask mask = {.bits = {0x12}};
	struct raw_batch batch;
	struct losing losing = {.n = 0};
	struct raw_state *state = &losing.state;
	size_t length;

	if (size > RAW_BATCH_MAX / 2)
		size = RAW_BATCH_MAX / 2;
	assert(raw_batch_init(&batch, RAW_BATCH_MAX) == 0);
	assert(raw_state_init(state, CLUSTERS, RAW_CLUSTER_SHIFT_MIN) == 0);
	memcpy(batch.data + batch.length, body, size);
	batch.length += size;
	batch.records = records;
	length = raw_batch_seal(&batch, 1, SALT);
	(void)raw_batch_read(batch.data, length, SALT, salvage_some, &losing);
	assert(raw_state_salvaged(state) == 0);
	assert(raw_state_verify(state, NULL) == 0);
	assert(raw_state_mark_damaged(state, &mask) == 0);
	assert(raw_state_verify(state, NULL) == 0);
	/* And on, as in a log. */
	(void)raw_batch_read(batch.data, length, SALT, salvage_some, &losing);
	if (state->leaves) /* a log has none */
		assert(raw_state_salvaged(state) == 0);
	assert(raw_state_verify(state, NULL) == 0);
	raw_state_done(state);
	raw_batch_done(&batch);
}

static void fuzz_super(const uint8_t *data, size_t size)
{
	static uint8_t block[RAW_SUPER_SIZE], again[RAW_SUPER_SIZE];
	static struct raw_super super, second;
	uint64_t medium;
	le32 crc = {0};

	memset(block, 0, sizeof(block));
	memcpy(block, "tribraw\n", 8);
	if (size > sizeof(block) - 12)
		size = sizeof(block) - 12;
	memcpy(block + 12, data, size);
	crc = le32_make(crc32c(0, block, sizeof(block)));
	memcpy(block + 8, &crc, sizeof(crc));
	for (medium = UINT64_C(1) << 20; medium < UINT64_C(1) << 60;
	     medium <<= 8) {
		if (raw_super_decode(block, medium, &super, NULL) < 0)
			continue;
		raw_super_encode(&super, again);
		assert(raw_super_decode(again, medium, &second, NULL) == 0);
		raw_super_encode(&second, block);
		assert(memcmp(block, again, sizeof(block)) == 0);
		return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 3)
		return 0;
	if (data[0] & 1)
		fuzz_super(data + 1, size - 1);
	else if (data[0] & 2)
		fuzz_salvage(data + 3, size - 3,
			     data[1] | (uint32_t)data[2] << 8);
	else
		fuzz_records(data + 3, size - 3,
			     data[1] | (uint32_t)data[2] << 8);
	return 0;
}
