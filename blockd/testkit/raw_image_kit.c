/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/raw_image_kit.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/crc32c.h"
#include "base/wire/cursor.h"
#include "base/wire/wire.h"

#define BLOCKS  RAW_IMAGE_BLOCKS
#define LENGTH  3000 /* clusters of an object: three leaves */
#define OBJECTS 6
#define PIECES  64

/* Where these are in a batch and a superblock: docs/raw-pool-format.md. */
#define BATCH_USED 20
#define BATCH_CRC  28
#define BATCH_BODY 160
#define SUPER_CRC  8

enum edit {
	EDIT_PATCH,      /* n + 1 bytes follow: into the piece, at @at */
	EDIT_BATCH,      /* @at bytes follow: a batch of n records of them */
	EDIT_MOVE,       /* the piece becomes what piece @at is */
	EDIT_UNREADABLE, /* block @at of the piece, n + 1 of them */
	EDIT_ANYWHERE,   /* n + 1 bytes follow: at @at * 64 + which * 4 MiB */
	EDIT_SHORTEN,    /* the medium: @at blocks are left */
	EDIT_KINDS,
};
#define ONE_COPY 0x40
#define KEEP_CRC 0x80

/* ---- the medium ---- */

struct raw_image raw_image;
static uint8_t *pristine;

/* No access reaches from one part of the medium into another. */
static bool in_one_part(uint64_t offset, uint64_t end)
{
	const struct raw_super *super = &raw_image.super;
	const uint64_t ring = raw_ring_size(super);
	uint64_t start = RAW_LOG_START;

	if (end <= RAW_SUPER_SIZE)
		return true;
	if (offset < RAW_LOG_START)
		return offset == RAW_SUPER_COPY_OFFSET &&
		       end == offset + RAW_SUPER_SIZE;
	for (unsigned copy = 0; copy < RAW_COPIES; copy++, start += ring)
		if (offset >= start && end <= start + ring)
			return true;
	return offset >= super->data_start &&
	       (offset - super->data_start) >> super->cluster_shift ==
		       (end - 1 - super->data_start) >> super->cluster_shift;
}

static void check_access(size_t length, uint64_t offset)
{
	assert(length > 0 && offset % RAW_BLOCK == 0 &&
	       length % RAW_BLOCK == 0);
	assert(offset < raw_image.medium.size &&
	       length <= raw_image.medium.size - offset);
	assert(raw_image.making || in_one_part(offset, offset + length));
}

static int image_read(struct raw_medium *medium, void *data, size_t length,
		      uint64_t offset)
{
	(void)medium;
	check_access(length, offset);
	for (size_t at = 0; at < length; at += RAW_BLOCK)
		if (raw_image.unreadable[(offset + at) / RAW_BLOCK])
			return -EIO;
	memcpy(data, raw_image.bytes + offset, length);
	return 0;
}

static int image_write(struct raw_medium *medium, const void *data,
		       size_t length, uint64_t offset)
{
	(void)medium;
	assert(raw_image.may_write);
	check_access(length, offset);
	memcpy(raw_image.bytes + offset, data, length);
	for (size_t at = 0; at < length; at += RAW_BLOCK) {
		uint64_t block = (offset + at) / RAW_BLOCK;

		raw_image.changed[block] = raw_image.written[block] = true;
		raw_image.unreadable[block] = false;
	}
	return 0;
}

static int image_flush(struct raw_medium *medium)
{
	(void)medium;
	assert(raw_image.may_write);
	return 0;
}

bool raw_image_unreadable(void)
{
	for (size_t i = 0; i < BLOCKS; i++)
		if (raw_image.unreadable[i])
			return true;
	return false;
}

/* As it was made. */
static void reset(void)
{
	for (size_t i = 0; i < BLOCKS; i++)
		if (raw_image.changed[i])
			memcpy(raw_image.bytes + i * RAW_BLOCK,
			       pristine + i * RAW_BLOCK, RAW_BLOCK);
	memset(raw_image.changed, 0, sizeof(raw_image.changed));
	memset(raw_image.unreadable, 0, sizeof(raw_image.unreadable));
	raw_image.medium.size = RAW_IMAGE_SIZE;
	raw_image.may_write = raw_image.making = false;
}

/* ---- a pool on it ---- */

/* A piece to edit: in both copies, one @apart from the other. */
struct piece {
	uint64_t offset, apart;
	uint32_t length;   /* bytes */
	uint64_t sequence; /* of a batch */
	uint32_t salt;     /* the same */
};

static struct piece pieces[PIECES];
static unsigned n_pieces;

static void change(struct raw_store *store, const struct raw_record *records,
		   size_t n)
{
	struct error err;
	uint64_t ticket;

	if (raw_store_change(store, records, n, &ticket, &err) < 0 ||
	    raw_store_commit(store, ticket, &err) < 0)
		abort();
}

static void make_object(struct raw_store *store, uint32_t id, uint32_t from)
{
	const struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .object = id,
		 .clusters = LENGTH,
		 .text = "an extent",
		 .text_length = 9},
		{.type = RAW_SHARE, .object = id, .from = from},
	};

	change(store, records, from ? 2 : 1);
}

/* Every other one is written in part. */
static void map(struct raw_store *store, uint32_t id, uint64_t logical)
{
	const bool partial = (id + logical) % 2;
	struct raw_record records[2] = {
		{.type = RAW_MAP,
		 .object = id,
		 .logical = logical,
		 .count = 1,
		 .unwritten = partial},
		{.type = RAW_WRITTEN,
		 .object = id,
		 .logical = logical,
		 .count = 1,
		 .blocks.bits[0] = 1 + logical % 1000},
	};

	if (!raw_store_take(store, 1, RAW_HOLE, &records[0].physical))
		abort();
	records[1].physical = records[0].physical;
	change(store, records, partial ? 2 : 1);
}

static void fill(struct raw_store *store)
{
	const struct raw_record drop = {.type = RAW_DROP, .object = 2};
	const struct raw_record unmap = {
		.type = RAW_UNMAP, .object = 1, .logical = 0, .count = 2};
	struct error err;

	for (uint32_t id = 1; id <= 3; id++)
		make_object(store, id, 0);
	for (uint64_t i = 0; i < 3; i++) {
		map(store, 1, i);
		map(store, 3, i * 1400);
	}
	make_object(store, 4, 1);
	map(store, 1, 0);
	if (raw_store_checkpoint(store, &err) < 0)
		abort();
	map(store, 3, 7);
	make_object(store, 5, 3);
	change(store, &drop, 1);
	map(store, 3, 7);
	change(store, &unmap, 1);
	make_object(store, OBJECTS, 4);
}

static void add_piece(struct piece piece)
{
	assert(n_pieces < PIECES);
	pieces[n_pieces++] = piece;
}

/* @store: as it was opened last. */
static void find_pieces(const struct raw_store *store)
{
	const struct raw_super *super = &store->super;
	const uint32_t salt = raw_salt(super->pool_id);
	struct piece batch = {.apart = raw_ring_size(super),
			      .sequence = super->log_sequence,
			      .salt = salt};
	uint64_t block = super->log_block;
	struct raw_batch_head head;

	add_piece((struct piece){.apart = RAW_SUPER_COPY_OFFSET,
				 .length = RAW_SUPER_SIZE});
	for (uint32_t i = 0; i < super->checkpoint_parts; i++)
		add_piece((struct piece){
			.offset = store_part_offset(super, 0, i),
			.apart = store_part_offset(super, 1, i) -
				 store_part_offset(super, 0, i),
			.length = raw_part_size(super->cluster_shift),
			.sequence = i,
			.salt = store_checkpoint_salt(super)});
	for (;; block += head.length / RAW_BLOCK, batch.sequence++) {
		batch.offset = store_log_offset(super, 0, block);
		batch.length = RAW_BLOCK;
		if (raw_batch_peek(pristine + batch.offset, salt, &head) < 0)
			break;
		batch.length = head.length;
		add_piece(batch);
	}
	add_piece(batch);
}

static void make(void)
{
	static const struct raw_medium_ops ops = {
		.read = image_read,
		.write = image_write,
		.flush = image_flush,
	};
	const struct raw_format_options options = {
		.pool_id = "6d9c1b3e-0f52-4c8e-9a57-1f2e3d4c5b6a",
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.text = "pool",
		.text_length = 4,
	};
	struct raw_store *store = NULL;
	struct raw_report report;
	struct error err;

	pristine = calloc(1, RAW_IMAGE_SIZE);
	raw_image.bytes = calloc(1, RAW_IMAGE_SIZE);
	raw_image.medium = (struct raw_medium){.ops = &ops,
					       .size = RAW_IMAGE_SIZE};
	raw_image.may_write = raw_image.making = true;
	if (!pristine || !raw_image.bytes ||
	    raw_store_format(&raw_image.medium, &options, &err) < 0 ||
	    raw_store_open(&raw_image.medium, &store, &report, &err) < 0)
		abort();
	fill(store);
	memcpy(pristine, raw_image.bytes, RAW_IMAGE_SIZE);
	find_pieces(store);
	raw_store_close(store);
}

/* ---- edits ---- */

struct edit_head {
	uint8_t kind, which;
	le16 at;
	uint8_t n;
};

static_assert(sizeof(struct edit_head) == 5, "head of an edit");

static void put_crc(uint8_t *start, size_t length, size_t at)
{
	le32 crc = {0};

	memcpy(start + at, &crc, sizeof(crc));
	crc = le32_make(crc32c(0, start, length));
	memcpy(start + at, &crc, sizeof(crc));
}

static void reseal(uint64_t offset, const struct piece *piece)
{
	uint8_t *start = raw_image.bytes + offset;
	le32 used;

	if (piece == &pieces[0]) {
		put_crc(start, RAW_SUPER_SIZE, SUPER_CRC);
		return;
	}
	memcpy(&used, start + BATCH_USED, sizeof(used));
	if (le32_get(used) >= BATCH_BODY &&
	    le32_get(used) <= RAW_IMAGE_SIZE - offset)
		put_crc(start, le32_get(used), BATCH_CRC);
}

static void put_bytes(uint64_t offset, const void *data, size_t length)
{
	if (offset >= RAW_IMAGE_SIZE)
		return;
	if (length > RAW_IMAGE_SIZE - offset)
		length = RAW_IMAGE_SIZE - offset;
	memcpy(raw_image.bytes + offset, data, length);
	for (uint64_t i = offset / RAW_BLOCK;
	     i < (offset + length + RAW_BLOCK - 1) / RAW_BLOCK; i++)
		raw_image.changed[i] = true;
}

/* Into both copies, or into the one that @kind says. */
static void put(uint8_t kind, const struct piece *piece, uint32_t at,
		const void *data, size_t length)
{
	const uint64_t first = kind & ONE_COPY && at % 2 ? piece->apart : 0;

	for (uint64_t more = first;; more = piece->apart) {
		put_bytes(piece->offset + more + at, data, length);
		if (!(kind & KEEP_CRC))
			reseal(piece->offset + more, piece);
		if (kind & ONE_COPY || more == piece->apart)
			break;
	}
}

static void put_batch(const struct edit_head *edit, const struct piece *piece,
		      const void *body, size_t size)
{
	struct raw_batch batch;
	size_t length;

	if (raw_batch_init(&batch, RAW_BATCH_MAX) < 0)
		abort();
	memcpy(batch.data + batch.length, body, size);
	batch.length += size;
	batch.records = edit->n;
	length = raw_batch_seal(&batch, piece->sequence, piece->salt);
	put((uint8_t)(edit->kind | KEEP_CRC), piece, 0, batch.data, length);
	raw_batch_done(&batch);
}

static void spoil(const struct edit_head *edit, const struct piece *piece)
{
	const uint64_t first = piece->offset / RAW_BLOCK + le16_get(edit->at);

	for (uint64_t i = first; i <= first + edit->n; i++) {
		if (i < BLOCKS)
			raw_image.unreadable[i] = true;
		if (!(edit->kind & ONE_COPY) &&
		    i + piece->apart / RAW_BLOCK < BLOCKS)
			raw_image.unreadable[i + piece->apart / RAW_BLOCK] =
				true;
	}
}

static void carry_out(const struct edit_head *edit, struct cursor *input)
{
	const struct piece *piece = &pieces[edit->which % n_pieces];
	const uint16_t at = le16_get(edit->at);
	const struct piece *from = &pieces[at % n_pieces];
	const void *bytes;

	switch (edit->kind % 0x10 % EDIT_KINDS) {
	case EDIT_PATCH:
		bytes = cursor_bytes(input, edit->n + 1u);
		if (bytes)
			put(edit->kind, piece, at, bytes, edit->n + 1u);
		break;
	case EDIT_BATCH:
		bytes = cursor_bytes(input, at);
		if (bytes)
			put_batch(edit, piece, bytes, at);
		break;
	case EDIT_MOVE:
		put((uint8_t)(edit->kind | KEEP_CRC), piece, 0,
		    pristine + from->offset, from->length);
		break;
	case EDIT_UNREADABLE: spoil(edit, piece); break;
	case EDIT_ANYWHERE:
		bytes = cursor_bytes(input, edit->n + 1u);
		if (bytes)
			put_bytes(at * UINT64_C(64) +
					  edit->which % 2 *
						  (RAW_IMAGE_SIZE / 2),
				  bytes, edit->n + 1u);
		break;
	case EDIT_SHORTEN:
		raw_image.medium.size = at % (BLOCKS + 1) * (uint64_t)RAW_BLOCK;
		break;
	}
}

void raw_image_edit(const uint8_t *data, size_t size)
{
	struct cursor input = cursor_make(data, size);
	struct edit_head edit;
	const void *head;

	if (!pristine)
		make();
	reset();
	while ((head = cursor_bytes(&input, sizeof(edit)))) {
		memcpy(&edit, head, sizeof(edit));
		carry_out(&edit, &input);
	}
}
