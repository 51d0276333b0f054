/* SPDX-License-Identifier: Apache-2.0 */
/* Logical units, and the sessions to be told of changes. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "target/scsi/scsi_internal.h"
#include "target/scsi/scsi_pr.h"

#define BLOCK_MIN 512u  /* bytes */
#define BLOCK_MAX 4096u /* bytes */

static bool printable(const char *text, size_t max)
{
	size_t n = 0;

	for (; text[n]; n++)
		if (n == max || text[n] < 0x20 || text[n] > 0x7e)
			return false;
	return n > 0;
}

static int unit_options_check(const struct scsi_unit_options *o,
			      struct error *err)
{
	if (o->block_size != BLOCK_MIN && o->block_size != BLOCK_MAX)
		return error_set(err, EINVAL,
				 "a block size of %u, not 512 or 4096",
				 o->block_size);
	if (o->size < o->block_size)
		return error_set(err, EINVAL, "less than one block");
	if (o->physical_size && (o->physical_size < o->block_size ||
				 (o->physical_size & (o->physical_size - 1)) ||
				 o->physical_size / o->block_size > 1u << 15))
		return error_set(err, EINVAL,
				 "a physical block size of %u bytes",
				 o->physical_size);
	if (o->transfer_max && (o->transfer_max < BLOCK_MAX ||
				o->transfer_max > SCSI_BUFFER_MAX / 2))
		return error_set(err, EINVAL, "a largest transfer of %u bytes",
				 o->transfer_max);
	if (o->low_space > 99)
		return error_set(err, EINVAL, "a threshold of %u percent",
				 o->low_space);
	if (o->serial && !printable(o->serial, SCSI_SERIAL_MAX))
		return error_set(err, EINVAL, "a bad serial number");
	if (o->product && !printable(o->product, SCSI_PRODUCT_MAX))
		return error_set(err, EINVAL, "a bad product name");
	return 0;
}

static void serial_make(const uint8_t uuid[16], char *ret)
{
	for (unsigned i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*ret++ = '-';
		(void)snprintf(ret, 3, "%02x", uuid[i]);
		ret += 2;
	}
}

static uint64_t whole_blocks(const struct scsi_unit *unit, uint64_t size)
{
	return size & ~(uint64_t)(unit->block_size - 1);
}

static void unit_fill(struct scsi_unit *unit, const struct scsi_unit_options *o)
{
	uint32_t physical = o->physical_size ?: o->block_size;

	memcpy(unit->uuid, o->uuid, sizeof(unit->uuid));
	serial_make(o->uuid, unit->serial);
	if (o->serial)
		(void)snprintf(unit->serial, sizeof(unit->serial), "%s",
			       o->serial);
	(void)snprintf(unit->product, sizeof(unit->product), "%s",
		       o->product ?: "tributary");
	unit->block_size = o->block_size;
	unit->block_shift = (unsigned)__builtin_ctz(o->block_size);
	unit->physical_exponent = (unsigned)__builtin_ctz(physical) -
				  unit->block_shift;
	unit->transfer_max = o->transfer_max ?: SCSI_TRANSFER_MAX;
	unit->read_only = o->read_only;
	unit->removable = o->removable;
	unit->thin = o->thin;
	unit->low_space = o->low_space;
	unit->size = whole_blocks(unit, o->size);
}

int scsi_unit_new(const struct scsi_unit_options *options,
		  struct scsi_unit **ret, struct error *err)
{
	struct scsi_unit *unit;
	int r = unit_options_check(options, err);

	if (r < 0)
		return r;
	unit = calloc(1, sizeof(*unit));
	if (!unit)
		return error_set(err, ENOMEM, "no memory for a unit");
	unit->refs = 1;
	unit_fill(unit, options);
	pthread_mutex_init(&unit->lock, NULL);
	pthread_mutex_init(&unit->saving, NULL);
	if (options->state_path) {
		unit->state_path = strdup(options->state_path);
		r = unit->state_path
			    ? scsi_pr_restore(unit, err)
			    : error_set(err, ENOMEM, "no memory for a unit");
	}
	if (r < 0) {
		scsi_unit_unref(unit);
		return r;
	}
	scsi_unit_guard(unit);
	*ret = unit;
	return 0;
}

int scsi_unit_reload(struct scsi_unit *unit, struct error *err)
{
	int r;

	if (!unit->state_path)
		return 0;
	scsi_pr_clear(&unit->pr);
	unit->pr = (struct scsi_pr){.lost = unit->pr.lost};
	r = scsi_pr_restore(unit, err);
	scsi_unit_guard(unit);
	return r;
}

struct scsi_unit *scsi_unit_ref(struct scsi_unit *unit)
{
	atomic_fetch_add(&unit->refs, 1);
	return unit;
}

void scsi_unit_unref(struct scsi_unit *unit)
{
	if (!unit || atomic_fetch_sub(&unit->refs, 1) != 1)
		return;
	assert(!unit->paths && !unit->held && !unit->waiting && !unit->drains);
	scsi_pr_clear(&unit->pr);
	pthread_mutex_destroy(&unit->saving);
	pthread_mutex_destroy(&unit->lock);
	free(unit->state_path);
	free(unit);
}

void scsi_unit_resize(struct scsi_unit *unit, uint64_t size)
{
	size = whole_blocks(unit, size);
	pthread_mutex_lock(&unit->lock);
	if (atomic_exchange(&unit->size, size) != size)
		scsi_attention_raise_all(unit, NULL, SCSI_UA_CAPACITY);
	pthread_mutex_unlock(&unit->lock);
}

void scsi_unit_low_space(struct scsi_unit *unit)
{
	pthread_mutex_lock(&unit->lock);
	if (unit->low_space > 0 && !unit->mode.quiet && !unit->mode.disarmed)
		scsi_attention_raise_all(unit, NULL, SCSI_UA_LOW_SPACE);
	pthread_mutex_unlock(&unit->lock);
}

uint32_t scsi_unit_block_size(const struct scsi_unit *unit)
{
	return unit->block_size;
}

uint64_t scsi_unit_size(const struct scsi_unit *unit)
{
	return atomic_load(&unit->size);
}

void scsi_unit_guard(struct scsi_unit *unit)
{
	atomic_store(&unit->guarded,
		     unit->reserved || unit->pr.type || unit->pr.lost);
}

/* ---- unit attentions ---- */

static const enum scsi_asc attentions[SCSI_UA_END] = {
	[SCSI_UA_POWER_ON] = SCSI_ASC_POWER_ON,
	[SCSI_UA_RESET] = SCSI_ASC_RESET,
	[SCSI_UA_CLEARED] = SCSI_ASC_CLEARED,
	[SCSI_UA_PREEMPTED] = SCSI_ASC_PREEMPTED,
	[SCSI_UA_RELEASED] = SCSI_ASC_RELEASED,
	[SCSI_UA_UNREGISTERED] = SCSI_ASC_UNREGISTERED,
	[SCSI_UA_MEDIUM_CHANGED] = SCSI_ASC_MEDIUM_CHANGED,
	[SCSI_UA_CAPACITY] = SCSI_ASC_CAPACITY,
	[SCSI_UA_MODE_CHANGED] = SCSI_ASC_MODE_CHANGED,
	[SCSI_UA_LUNS_CHANGED] = SCSI_ASC_LUNS_CHANGED,
	[SCSI_UA_LOW_SPACE] = SCSI_ASC_LOW_SPACE,
};

enum scsi_asc scsi_attention_asc(unsigned attention)
{
	return attentions[attention];
}

void scsi_attention_raise(struct scsi_path *path, enum scsi_attention ua)
{
	atomic_fetch_or(&path->attentions, UINT32_C(1) << ua);
}

void scsi_attention_raise_all(struct scsi_unit *unit,
			      const struct scsi_path *but,
			      enum scsi_attention ua)
{
	for (struct scsi_path *p = unit->paths; p; p = p->next_of_unit)
		if (p != but)
			scsi_attention_raise(p, ua);
}
