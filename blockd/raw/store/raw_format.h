/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool's bytes on its medium: superblock, log and checkpoint. No state,
 * no I/O. docs/raw-pool-format.md is the same for people.
 *
 *	0            superblock, first copy
 *	1 MiB - 4 K  block that is written to try the medium
 *	1 MiB        superblock, second copy
 *	2 MiB        log: two rings of blocks of 4 KiB, one a copy of the other
 *	data_start   clusters, numbered from 0; some hold checkpoints
 *
 * All integers are little-endian. A block is 4096 bytes.
 *
 * The log is a run of batches, none of which goes past the end of the ring.
 * Where less than RAW_BATCH_MAX is left, the next batch is at its start. A
 * batch is one or more whole blocks; its records are applied together or not at
 * all. Batch N + 1 is written only when batch N is durable, in both rings, so
 * at most one, the last, can be torn. A checkpoint is a run of batches too, in
 * clusters of its own, twice, that make the whole state from nothing. The
 * superblock says where it is and which batch of the log comes after it.
 *
 * Everything is there twice. When both copies are damaged, other parts tell
 * which objects are damaged. Each object says how many leaves it has, each leaf
 * how many entries. Each batch says which objects the batches before it were
 * about.
 */
#ifndef BLOCKD_RAW_FORMAT_H
#define BLOCKD_RAW_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/uuid_name.h"

#define RAW_BLOCK             4096u               /* bytes */
#define RAW_SUPER_COPY_OFFSET (UINT64_C(1) << 20) /* bytes */
/* A block that holds nothing: it is written to see whether it can be. */
#define RAW_TRY_OFFSET        (RAW_SUPER_COPY_OFFSET - RAW_BLOCK)
#define RAW_LOG_START         (UINT64_C(2) << 20) /* bytes */
#define RAW_LOG_MIN           (UINT64_C(4) << 20) /* bytes */
#define RAW_LOG_MAX           (UINT64_C(1) << 30) /* bytes */
#define RAW_CLUSTER_SHIFT_MIN 16                  /* 64 KiB */
#define RAW_CLUSTER_SHIFT_MAX 26                  /* 64 MiB */
#define RAW_CLUSTER_SHIFT     20                  /* default: 1 MiB */
#define RAW_CLUSTERS_MAX      (UINT32_C(1) << 30) /* raw_map.h has 2 flags */
#define RAW_VERSION           1
#define RAW_CHECKPOINT_MAX    4000 /* clusters; what the superblock holds */
#define RAW_CLUSTERS_LEAST    16   /* in the smallest pool */

/*
 * Features of a pool. A program that does not know one of the first kind must
 * not open the pool. If it does not know one of the second kind it must not
 * write to the pool. The third kind is safe to ignore.
 */
#define RAW_INCOMPAT_PARTIAL (UINT64_C(1) << 0) /* it may have WRITTENs */
#define RAW_INCOMPAT_KNOWN   RAW_INCOMPAT_PARTIAL
#define RAW_READONLY_KNOWN   UINT64_C(0)

struct raw_super {
	char pool_id[UUID_TEXT_SIZE];
	uint64_t generation; /* raised by each write; the higher copy counts */
	uint64_t incompat, readonly, compat; /* features */
	uint64_t medium_size;                /* bytes that are the pool's */
	uint64_t data_start; /* bytes, a multiple of the cluster size */
	uint32_t clusters;   /* number of them */
	uint8_t cluster_shift;
	uint64_t log_size;         /* bytes, of both rings */
	uint64_t log_sequence;     /* of the first batch after the checkpoint */
	uint64_t log_block;        /* where in the ring that batch begins */
	uint32_t checkpoint_parts; /* batches; 0: nothing yet */
	/* Clusters that hold it, in this order; then those of its copy. */
	uint32_t n_checkpoint;
	uint32_t checkpoint[RAW_CHECKPOINT_MAX];
};

#define RAW_COPIES 2 /* of the log and of a checkpoint */

/* Bytes of one ring of the log; the first of its copy follows the last. */
static inline uint64_t raw_ring_size(const struct raw_super *super)
{
	return super->log_size / RAW_COPIES;
}

/* @block: RAW_SUPER_SIZE bytes, four blocks. */
#define RAW_SUPER_SIZE (4 * RAW_BLOCK)
void raw_super_encode(const struct raw_super *super, void *block);

/*
 * 0, or -ENODATA: no superblock of ours; -EBADMSG: damaged, the text says
 * what; -EPROTONOSUPPORT: made by something newer. Everything in @ret is
 * checked: figures fit each other and @medium_size (bytes there are now).
 */
int raw_super_decode(const void *block, uint64_t medium_size,
		     struct raw_super *ret, struct error *err);

/* ---- records ---- */

enum raw_record_type {
	RAW_POOL = 1,   /* text: the pool's record */
	RAW_OBJECT = 2, /* object, clusters, text: made, or changed */
	RAW_DROP = 3,   /* object: gone, with its map */
	RAW_MAP = 4,    /* object, logical, physical, count, unwritten */
	RAW_UNMAP = 5,  /* object, logical, count: a hole */
	RAW_SHARE = 6,  /* object, from: the whole map becomes that of @from */
	RAW_LEAF =
		7,   /* leaf, count: begins one; MAPs, WRITTENs with object 0 */
	RAW_USE = 8, /* object, slot (in logical), leaf */
	/* object, logical, physical, window, blocks: these are written */
	RAW_WRITTEN = 9,
};

/*
 * Blocks of a cluster that were written, RAW_WINDOW of them: those of window W
 * begin with block W * RAW_WINDOW. Block B is bit B % 64 of word B / 64.
 */
#define RAW_WINDOW 256u

struct raw_blocks {
	uint64_t bits[RAW_WINDOW / 64];
};

#define RAW_TEXT_MAX 32768u /* bytes, of a record's text */

struct raw_record {
	enum raw_record_type type;
	bool unwritten;  /* MAP: allocated, reads as zeroes */
	uint32_t object; /* from 1 */
	uint32_t from;   /* SHARE: an object; LEAF, USE: the leaf, from 1 */
	/* OBJECT: how long its map is; POOL: in a checkpoint, the objects. */
	uint64_t clusters;
	uint32_t leaves;   /* OBJECT: in a checkpoint, the USEs it has */
	uint64_t logical;  /* cluster of the object; USE: slot */
	uint32_t physical; /* cluster of the pool */
	/* Clusters, at least 1; LEAF: its entries, and its WRITTENs. */
	uint32_t count;
	uint32_t window;          /* WRITTEN */
	struct raw_blocks blocks; /* WRITTEN: not none */
	const char *text;         /* borrowed */
	uint32_t text_length;
};

/* Bytes that @record takes in a batch. */
size_t raw_record_size(const struct raw_record *record);

/* ---- batches ---- */

#define RAW_BATCH_MAX (UINT32_C(256) << 10) /* bytes, header included */
/* A batch has no higher number, a superblock none above half of it: the next
 * one is always higher. */
#define RAW_SEQUENCE_MAX (UINT64_MAX / 2)

/*
 * A set of objects, by id modulo RAW_MASK_BITS. Several objects may have the
 * same place, so the set may have more than were added, never less.
 */
#define RAW_MASK_BITS 512u

struct raw_mask {
	uint8_t bits[RAW_MASK_BITS / 8];
};

void raw_mask_add(struct raw_mask *mask, uint32_t object);
void raw_mask_join(struct raw_mask *mask, const struct raw_mask *more);
bool raw_mask_has(const struct raw_mask *mask, uint32_t object);

/* Bytes for each batch of a checkpoint: none reaches into a second cluster. */
#define RAW_PART_MAX (UINT32_C(64) << 10)
uint32_t raw_part_size(uint8_t cluster_shift);

/* A batch that is being filled: whole blocks, zeroes at the end. */
struct raw_batch {
	uint8_t *data;   /* owned; page aligned, for direct I/O */
	size_t capacity; /* bytes */
	size_t length;   /* bytes, header included; not yet whole blocks */
	unsigned records;
	struct raw_mask touched; /* objects its records are about */
	/* For its head; zero in a checkpoint. The objects ... */
	struct raw_mask previous; /* ... of the batch before it */
	struct raw_mask since;    /* ... of all after the checkpoint */
};

/* @limit: bytes, whole blocks, at most RAW_BATCH_MAX. */
int raw_batch_init(struct raw_batch *batch, size_t limit);
void raw_batch_done(struct raw_batch *batch);
void raw_batch_clear(struct raw_batch *batch);
/* -ENOSPC: it is full; nothing was added. */
int raw_batch_add(struct raw_batch *batch, const struct raw_record *record);
/*
 * Number and seal it. Returns its bytes, whole blocks. @salt: the low half
 * of what pool_id hashes to (raw_salt()), so that batches of an older pool
 * on the same medium are not ours.
 */
size_t raw_batch_seal(struct raw_batch *batch, uint64_t sequence,
		      uint32_t salt);
uint32_t raw_salt(const char *pool_id);

/* The head of a batch. */
struct raw_batch_head {
	uint64_t sequence;
	uint32_t length; /* bytes, whole blocks */
	struct raw_mask previous, since;
};

/*
 * Is there the head of a batch in this block? Its body is not looked at.
 * 0, or -ENODATA: none of ours.
 */
int raw_batch_peek(const void *block, uint32_t salt,
		   struct raw_batch_head *ret);

/*
 * Check a whole batch of head.length bytes and hand out its records.
 * -EBADMSG: its checksum is wrong, or a record does not decode (then nothing
 * was visited). A negative result of @visit ends it and is returned.
 */
int raw_batch_read(const void *data, size_t length, uint32_t salt,
		   int (*visit)(void *context, const struct raw_record *record),
		   void *context);

#endif
