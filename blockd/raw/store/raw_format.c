/* SPDX-License-Identifier: Apache-2.0 */
/* The superblock; records: blockd/raw/store/raw_batch.c. */
#include "blockd/raw/store/raw_format.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/crc32c.h"
#include "base/wire/wire.h"

#define SUPER_MAGIC "tribraw\n" /* without NUL */

struct super_wire {
	char magic[8];
	le32 crc; /* of all RAW_SUPER_SIZE bytes, with this field zero */
	le32 version;
	le64 incompat;
	le64 readonly;
	le64 compat;
	char pool_id[40]; /* text, zeroes after it */
	le64 generation;
	le64 medium_size;
	le64 data_start;
	le32 clusters;
	uint8_t cluster_shift;
	uint8_t zero[3];
	le64 log_size;
	le64 log_sequence;
	le64 log_block;
	le32 checkpoint_parts;
	le32 n_checkpoint;
	le32 checkpoint[RAW_CHECKPOINT_MAX];
};

static_assert(sizeof(struct super_wire) == 144 + 4 * RAW_CHECKPOINT_MAX,
	      "size of a superblock");
static_assert(sizeof(struct super_wire) <= RAW_SUPER_SIZE, "it fits");

uint32_t raw_part_size(uint8_t cluster_shift)
{
	uint32_t cluster = UINT32_C(1) << cluster_shift;

	return cluster < RAW_PART_MAX ? cluster : RAW_PART_MAX;
}

static uint32_t super_crc(const void *block)
{
	static const le32 zero;
	const size_t at = offsetof(struct super_wire, crc);
	const uint8_t *bytes = block;
	uint32_t crc = crc32c(0, bytes, at);

	crc = crc32c(crc, &zero, sizeof(zero));
	return crc32c(crc, bytes + at + sizeof(zero),
		      RAW_SUPER_SIZE - at - sizeof(zero));
}

void raw_super_encode(const struct raw_super *super, void *block)
{
	struct super_wire *w = block;

	assert(super->n_checkpoint <= RAW_CHECKPOINT_MAX);
	memset(block, 0, RAW_SUPER_SIZE);
	memcpy(w->magic, SUPER_MAGIC, sizeof(w->magic));
	w->version = le32_make(RAW_VERSION);
	w->incompat = le64_make(super->incompat);
	w->readonly = le64_make(super->readonly);
	w->compat = le64_make(super->compat);
	memcpy(w->pool_id, super->pool_id, sizeof(super->pool_id));
	w->generation = le64_make(super->generation);
	w->medium_size = le64_make(super->medium_size);
	w->data_start = le64_make(super->data_start);
	w->clusters = le32_make(super->clusters);
	w->cluster_shift = super->cluster_shift;
	w->log_size = le64_make(super->log_size);
	w->log_sequence = le64_make(super->log_sequence);
	w->log_block = le64_make(super->log_block);
	w->checkpoint_parts = le32_make(super->checkpoint_parts);
	w->n_checkpoint = le32_make(super->n_checkpoint);
	for (uint32_t i = 0; i < super->n_checkpoint; i++)
		w->checkpoint[i] = le32_make(super->checkpoint[i]);
	w->crc = le32_make(super_crc(block));
}

static void super_load(const struct super_wire *w, struct raw_super *ret)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->pool_id, w->pool_id, sizeof(ret->pool_id) - 1);
	ret->generation = le64_get(w->generation);
	ret->incompat = le64_get(w->incompat);
	ret->readonly = le64_get(w->readonly);
	ret->compat = le64_get(w->compat);
	ret->medium_size = le64_get(w->medium_size);
	ret->data_start = le64_get(w->data_start);
	ret->clusters = le32_get(w->clusters);
	ret->cluster_shift = w->cluster_shift;
	ret->log_size = le64_get(w->log_size);
	ret->log_sequence = le64_get(w->log_sequence);
	ret->log_block = le64_get(w->log_block);
	ret->checkpoint_parts = le32_get(w->checkpoint_parts);
	ret->n_checkpoint = le32_get(w->n_checkpoint);
}

static bool id_well_formed(const char *id)
{
	return strlen(id) == UUID_TEXT_SIZE - 1 &&
	       strspn(id, "0123456789abcdef-") == UUID_TEXT_SIZE - 1;
}

/* The figures fit each other; a checksum does not say that. */
static const char *super_wrong(const struct raw_super *s)
{
	uint64_t cluster, data;

	if (s->cluster_shift < RAW_CLUSTER_SHIFT_MIN ||
	    s->cluster_shift > RAW_CLUSTER_SHIFT_MAX)
		return "its cluster size is out of range";
	cluster = UINT64_C(1) << s->cluster_shift;
	if (!id_well_formed(s->pool_id))
		return "its pool id is no UUID";
	if (s->log_size < RAW_LOG_MIN || s->log_size > RAW_LOG_MAX ||
	    s->log_size % (RAW_COPIES * RAW_BLOCK) ||
	    s->log_block >= raw_ring_size(s) / RAW_BLOCK ||
	    raw_ring_size(s) - s->log_block * RAW_BLOCK < RAW_BATCH_MAX ||
	    s->log_sequence > RAW_SEQUENCE_MAX / 2)
		return "its log is out of range";
	if (s->data_start < RAW_LOG_START + s->log_size ||
	    s->data_start % cluster || s->data_start > s->medium_size)
		return "its data begins out of range";
	data = s->medium_size - s->data_start;
	if (!s->clusters || s->clusters > RAW_CLUSTERS_MAX ||
	    s->clusters > data >> s->cluster_shift)
		return "it has more clusters than room";
	if (s->n_checkpoint > RAW_CHECKPOINT_MAX ||
	    s->n_checkpoint % RAW_COPIES ||
	    (uint64_t)s->checkpoint_parts * raw_part_size(s->cluster_shift) >
		    s->n_checkpoint / RAW_COPIES * cluster)
		return "its checkpoint is out of range";
	return NULL;
}

static int super_features(const struct raw_super *s, uint32_t version,
			  struct error *err)
{
	if (version == RAW_VERSION && !(s->incompat & ~RAW_INCOMPAT_KNOWN) &&
	    !(s->readonly & ~RAW_READONLY_KNOWN))
		return 0;
	return error_set(err, EPROTONOSUPPORT,
			 "the pool was made by a newer program (format %" PRIu32
			 ", features %#" PRIx64 " and %#" PRIx64 ")",
			 version, s->incompat, s->readonly);
}

int raw_super_decode(const void *block, uint64_t medium_size,
		     struct raw_super *ret, struct error *err)
{
	const struct super_wire *w = block;
	struct raw_super *s = ret;
	const char *wrong;
	int r;

	if (memcmp(w->magic, SUPER_MAGIC, sizeof(w->magic)) != 0)
		return error_set(err, ENODATA, "no superblock of a raw pool");
	if (super_crc(block) != le32_get(w->crc))
		return error_set(err, EBADMSG,
				 "a superblock's checksum is wrong");
	super_load(w, s);
	r = super_features(s, le32_get(w->version), err);
	if (r < 0)
		return r;
	wrong = super_wrong(s);
	for (uint32_t i = 0; !wrong && i < s->n_checkpoint; i++) {
		s->checkpoint[i] = le32_get(w->checkpoint[i]);
		if (s->checkpoint[i] >= s->clusters)
			wrong = "its checkpoint is out of range";
	}
	if (!wrong && s->medium_size > medium_size)
		return error_set(err, EBADMSG,
				 "the medium has %" PRIu64
				 " bytes, the pool on it %" PRIu64,
				 medium_size, s->medium_size);
	if (wrong)
		return error_set(err, EBADMSG, "a superblock is wrong: %s",
				 wrong);
	return 0;
}
