/* SPDX-License-Identifier: Apache-2.0 */
/* Records, and the batches that they are written in. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/crc32c.h"
#include "base/wire/cursor.h"
#include "base/wire/wire.h"
#include "blockd/raw/store/raw_format.h"

/* ---- records ---- */

struct record_wire {
	uint8_t type;
	uint8_t flags;
	le16 zero;
	le32 object;
};

struct object_wire { /* then the text */
	le64 clusters;
	le32 leaves;
	le32 text_length;
};

struct map_wire { /* MAP; UNMAP without the last field */
	le64 logical;
	le32 count;
	le32 physical;
};

#define UNMAP_SIZE offsetof(struct map_wire, physical)

struct leaf_wire { /* SHARE without the last field */
	le32 leaf;
	le32 count;
};

#define SHARE_SIZE offsetof(struct leaf_wire, count)

struct use_wire {
	le64 slot;
	le32 leaf;
};

struct written_wire {
	le64 logical;
	le32 physical;
	le32 window;
	le64 blocks[RAW_WINDOW / 64];
};

static_assert(sizeof(struct written_wire) == 48, "WRITTEN");
static_assert(sizeof(struct record_wire) == 8, "record");
static_assert(sizeof(struct object_wire) == 16, "OBJECT");
static_assert(sizeof(struct map_wire) == 16 && UNMAP_SIZE == 12, "MAP");
static_assert(sizeof(struct use_wire) == 12, "USE");
static_assert(sizeof(struct leaf_wire) == 8, "LEAF");

#define RECORD_UNWRITTEN 1 /* flags */

size_t raw_record_size(const struct raw_record *record)
{
	switch (record->type) {
	case RAW_POOL:
	case RAW_OBJECT:
		return sizeof(struct record_wire) + sizeof(struct object_wire) +
		       record->text_length;
	case RAW_DROP: return sizeof(struct record_wire);
	case RAW_MAP:
		return sizeof(struct record_wire) + sizeof(struct map_wire);
	case RAW_UNMAP: return sizeof(struct record_wire) + UNMAP_SIZE;
	case RAW_SHARE: return sizeof(struct record_wire) + SHARE_SIZE;
	case RAW_LEAF:
		return sizeof(struct record_wire) + sizeof(struct leaf_wire);
	case RAW_USE:
		return sizeof(struct record_wire) + sizeof(struct use_wire);
	case RAW_WRITTEN:
		return sizeof(struct record_wire) + sizeof(struct written_wire);
	}
	assert(!"a record has a type");
	return 0;
}

static void object_encode(uint8_t *at, const struct raw_record *record)
{
	struct object_wire w = {
		.clusters = le64_make(record->clusters),
		.leaves = le32_make(record->leaves),
		.text_length = le32_make(record->text_length),
	};

	memcpy(at, &w, sizeof(w));
	if (record->text_length)
		memcpy(at + sizeof(w), record->text, record->text_length);
}

static void written_encode(uint8_t *at, const struct raw_record *record)
{
	struct written_wire w = {
		.logical = le64_make(record->logical),
		.physical = le32_make(record->physical),
		.window = le32_make(record->window),
	};

	for (size_t i = 0; i < RAW_WINDOW / 64; i++)
		w.blocks[i] = le64_make(record->blocks.bits[i]);
	memcpy(at, &w, sizeof(w));
}

static void record_encode(uint8_t *at, const struct raw_record *record)
{
	struct record_wire head = {
		.type = record->type,
		.flags = record->unwritten ? RECORD_UNWRITTEN : 0,
		.object = le32_make(record->object),
	};
	struct map_wire map = {
		.logical = le64_make(record->logical),
		.count = le32_make(record->count),
		.physical = le32_make(record->physical),
	};
	struct leaf_wire leaf = {
		.leaf = le32_make(record->from),
		.count = le32_make(record->count),
	};
	struct use_wire use = {
		.slot = le64_make(record->logical),
		.leaf = leaf.leaf,
	};

	memcpy(at, &head, sizeof(head));
	at += sizeof(head);
	switch (record->type) {
	case RAW_POOL:
	case RAW_OBJECT: object_encode(at, record); break;
	case RAW_MAP: memcpy(at, &map, sizeof(map)); break;
	case RAW_UNMAP: memcpy(at, &map, UNMAP_SIZE); break;
	case RAW_SHARE: memcpy(at, &leaf, SHARE_SIZE); break;
	case RAW_LEAF: memcpy(at, &leaf, sizeof(leaf)); break;
	case RAW_USE: memcpy(at, &use, sizeof(use)); break;
	case RAW_WRITTEN: written_encode(at, record); break;
	case RAW_DROP: break;
	}
}

/* @size bytes into @to; false past the end. */
static bool batch_take(struct cursor *c, void *to, size_t size)
{
	const void *from = cursor_bytes(c, size);

	if (from)
		memcpy(to, from, size);
	return from;
}

static bool object_decode(struct cursor *c, struct raw_record *ret)
{
	struct object_wire w;

	if (!batch_take(c, &w, sizeof(w)))
		return false;
	ret->clusters = le64_get(w.clusters);
	ret->leaves = le32_get(w.leaves);
	ret->text_length = le32_get(w.text_length);
	if (ret->text_length > RAW_TEXT_MAX)
		return false;
	ret->text = cursor_bytes(c, ret->text_length);
	return ret->text;
}

static bool map_decode(struct cursor *c, size_t size, struct raw_record *ret)
{
	struct map_wire w = {0};
	uint64_t end;

	if (!batch_take(c, &w, size))
		return false;
	ret->logical = le64_get(w.logical);
	ret->count = le32_get(w.count);
	ret->physical = le32_get(w.physical);
	return ret->count &&
	       !__builtin_add_overflow(ret->logical, ret->count, &end) &&
	       (uint64_t)ret->physical + ret->count <= RAW_CLUSTERS_MAX;
}

static bool leaf_decode(struct cursor *c, size_t size, struct raw_record *ret)
{
	struct leaf_wire w = {0};

	if (!batch_take(c, &w, size))
		return false;
	ret->from = le32_get(w.leaf);
	ret->count = le32_get(w.count);
	return ret->from != 0;
}

static bool written_decode(struct cursor *c, struct raw_record *ret)
{
	struct written_wire w;
	uint64_t any = 0;

	if (!batch_take(c, &w, sizeof(w)))
		return false;
	ret->logical = le64_get(w.logical);
	ret->physical = le32_get(w.physical);
	ret->window = le32_get(w.window);
	ret->count = 1;
	for (size_t i = 0; i < RAW_WINDOW / 64; i++) {
		ret->blocks.bits[i] = le64_get(w.blocks[i]);
		any |= ret->blocks.bits[i];
	}
	return any && ret->logical < UINT64_MAX &&
	       ret->physical < RAW_CLUSTERS_MAX;
}

static bool body_decode(struct cursor *c, struct raw_record *ret)
{
	struct use_wire use;

	switch (ret->type) {
	case RAW_POOL:
	case RAW_OBJECT: return object_decode(c, ret);
	case RAW_DROP: return true;
	case RAW_MAP: return map_decode(c, sizeof(struct map_wire), ret);
	case RAW_UNMAP: return map_decode(c, UNMAP_SIZE, ret);
	case RAW_SHARE: return leaf_decode(c, SHARE_SIZE, ret);
	case RAW_LEAF: return leaf_decode(c, sizeof(struct leaf_wire), ret);
	case RAW_USE:
		if (!batch_take(c, &use, sizeof(use)))
			return false;
		ret->logical = le64_get(use.slot);
		ret->from = le32_get(use.leaf);
		return ret->from != 0;
	case RAW_WRITTEN: return written_decode(c, ret);
	}
	return false;
}

/* Which records name an object; MAP and WRITTEN without one fill a leaf. */
static bool object_fits(const struct raw_record *record)
{
	if (record->type == RAW_POOL || record->type == RAW_LEAF)
		return record->object == 0;
	return record->object != 0 || record->type == RAW_MAP ||
	       record->type == RAW_WRITTEN;
}

static bool record_decode(struct cursor *c, struct raw_record *ret)
{
	struct record_wire head;

	memset(ret, 0, sizeof(*ret));
	if (!batch_take(c, &head, sizeof(head)) || le16_get(head.zero) ||
	    head.flags & ~RECORD_UNWRITTEN)
		return false;
	ret->type = head.type;
	ret->unwritten = head.flags & RECORD_UNWRITTEN;
	ret->object = le32_get(head.object);
	if (ret->unwritten && ret->type != RAW_MAP)
		return false;
	return object_fits(ret) && body_decode(c, ret);
}

/* ---- batches ---- */

#define BATCH_MAGIC 0x54524c47 /* "TRLG" */

struct batch_wire {
	le32 magic;
	le32 salt;
	le64 sequence;
	le32 length;  /* bytes, whole blocks, header included */
	le32 used;    /* bytes, header included; zeroes after them */
	le32 records; /* number */
	le32 crc;     /* of @used bytes, with this field zero */
	struct raw_mask previous;
	struct raw_mask since;
};

static_assert(sizeof(struct batch_wire) == 160, "head of a batch");

void raw_mask_add(struct raw_mask *mask, uint32_t object)
{
	uint32_t bit = object % RAW_MASK_BITS;

	mask->bits[bit / 8] |= (uint8_t)(1u << bit % 8);
}

void raw_mask_join(struct raw_mask *mask, const struct raw_mask *more)
{
	for (size_t i = 0; i < sizeof(mask->bits); i++)
		mask->bits[i] |= more->bits[i];
}

bool raw_mask_has(const struct raw_mask *mask, uint32_t object)
{
	uint32_t bit = object % RAW_MASK_BITS;

	return mask->bits[bit / 8] >> bit % 8 & 1;
}

uint32_t raw_salt(const char *pool_id)
{
	return crc32c(0, pool_id, strlen(pool_id));
}

int raw_batch_init(struct raw_batch *batch, size_t limit)
{
	assert(limit && limit % RAW_BLOCK == 0 && limit <= RAW_BATCH_MAX);
	batch->data = aligned_alloc(RAW_BLOCK, limit);
	if (!batch->data)
		return -ENOMEM;
	batch->capacity = limit;
	raw_batch_clear(batch);
	return 0;
}

void raw_batch_done(struct raw_batch *batch)
{
	free(batch->data);
	batch->data = NULL;
}

void raw_batch_clear(struct raw_batch *batch)
{
	batch->length = sizeof(struct batch_wire);
	batch->records = 0;
	batch->touched = batch->previous = batch->since = (struct raw_mask){0};
}

int raw_batch_add(struct raw_batch *batch, const struct raw_record *record)
{
	size_t size = raw_record_size(record);

	assert(record->text_length <= RAW_TEXT_MAX);
	if (size > batch->capacity - batch->length)
		return -ENOSPC;
	record_encode(batch->data + batch->length, record);
	batch->length += size;
	batch->records++;
	if (record->object)
		raw_mask_add(&batch->touched, record->object);
	return 0;
}

static uint32_t batch_crc(const uint8_t *data, size_t used)
{
	static const le32 zero;
	const size_t at = offsetof(struct batch_wire, crc);
	uint32_t crc = crc32c(0, data, at);

	crc = crc32c(crc, &zero, sizeof(zero));
	return crc32c(crc, data + at + sizeof(zero), used - at - sizeof(zero));
}

size_t raw_batch_seal(struct raw_batch *batch, uint64_t sequence, uint32_t salt)
{
	size_t whole = (batch->length + RAW_BLOCK - 1) / RAW_BLOCK * RAW_BLOCK;
	struct batch_wire head = {
		.magic = le32_make(BATCH_MAGIC),
		.salt = le32_make(salt),
		.sequence = le64_make(sequence),
		.length = le32_make((uint32_t)whole),
		.used = le32_make((uint32_t)batch->length),
		.records = le32_make(batch->records),
		.previous = batch->previous,
		.since = batch->since,
	};

	memset(batch->data + batch->length, 0, whole - batch->length);
	memcpy(batch->data, &head, sizeof(head));
	head.crc = le32_make(batch_crc(batch->data, batch->length));
	memcpy(batch->data, &head, sizeof(head));
	return whole;
}

int raw_batch_peek(const void *block, uint32_t salt, struct raw_batch_head *ret)
{
	struct batch_wire head;
	uint32_t length, used;

	memcpy(&head, block, sizeof(head));
	length = le32_get(head.length);
	used = le32_get(head.used);
	if (le32_get(head.magic) != BATCH_MAGIC ||
	    le32_get(head.salt) != salt ||
	    le64_get(head.sequence) > RAW_SEQUENCE_MAX)
		return -ENODATA;
	if (length > RAW_BATCH_MAX || length % RAW_BLOCK || used > length ||
	    used < sizeof(head) || length - used >= RAW_BLOCK)
		return -ENODATA;
	ret->sequence = le64_get(head.sequence);
	ret->length = length;
	ret->previous = head.previous;
	ret->since = head.since;
	return 0;
}

static int batch_walk(const uint8_t *data, size_t used, uint32_t records,
		      int (*visit)(void *, const struct raw_record *),
		      void *context)
{
	struct cursor c = cursor_make(data + sizeof(struct batch_wire),
				      used - sizeof(struct batch_wire));
	struct raw_record record;

	for (uint32_t i = 0; i < records; i++) {
		int r = 0;

		if (!record_decode(&c, &record))
			return -EBADMSG;
		if (visit)
			r = visit(context, &record);
		if (r < 0)
			return r;
	}
	return cursor_ended(&c) ? 0 : -EBADMSG;
}

int raw_batch_read(const void *data, size_t length, uint32_t salt,
		   int (*visit)(void *context, const struct raw_record *record),
		   void *context)
{
	struct raw_batch_head found;
	struct batch_wire head;
	uint32_t used, records;
	int r;

	if (length < RAW_BLOCK || raw_batch_peek(data, salt, &found) < 0 ||
	    found.length != length)
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	used = le32_get(head.used);
	records = le32_get(head.records);
	if (batch_crc(data, used) != le32_get(head.crc))
		return -EBADMSG;
	r = batch_walk(data, used, records, NULL, NULL);
	return r < 0 ? r : batch_walk(data, used, records, visit, context);
}
