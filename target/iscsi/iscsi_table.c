/* SPDX-License-Identifier: Apache-2.0 */
/* Exports as LUNs of targets: the rows, and the targets that they make. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/export/iscsi_name.h"
#include "target/iscsi/iscsi_table_internal.h"

/* Bytes that one command may move: a loop has buffers for them (target.c). */
#define TRANSFER_MAX (UINT32_C(32) << 20)

struct iscsi_table *iscsi_table_new(struct export_table *exports)
{
	struct iscsi_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	pthread_mutex_init(&table->lock, NULL);
	table->exports = exports;
	return table;
}

/* ---- targets ---- */

static void row_target_free(struct iscsi_target *target)
{
	*target->link = target->next;
	if (target->next)
		target->next->link = target->link;
	scsi_target_unref(target->scsi);
	explicit_bzero(&target->secrets, sizeof(target->secrets));
	free(target);
}

/* The table's lock is held. */
static void target_put(struct iscsi_target *target)
{
	if (--target->refs == 0)
		row_target_free(target);
}

void iscsi_target_unref(struct iscsi_target *target)
{
	struct iscsi_table *table = target ? target->table : NULL;

	if (!table)
		return;
	pthread_mutex_lock(&table->lock);
	target_put(target);
	pthread_mutex_unlock(&table->lock);
}

/* "NAME:TAG" of the target? */
static bool is_tagged(const struct iscsi_target *target, const char *name)
{
	size_t length = strlen(target->name);

	return target->tag[0] && strncmp(name, target->name, length) == 0 &&
	       name[length] == ':' &&
	       strcmp(name + length + 1, target->tag) == 0;
}

struct iscsi_target *iscsi_target_by_name(struct iscsi_table *table,
					  const char *name)
{
	struct iscsi_target *target = table->targets;

	while (target &&
	       (target->rows == 0 ||
		(strcmp(target->name, name) != 0 && !is_tagged(target, name))))
		target = target->next;
	return target;
}

static int row_target_new(struct iscsi_table *table, const char *name,
			  size_t base_length, struct iscsi_target **ret,
			  struct error *err)
{
	struct iscsi_target *target = calloc(1, sizeof(*target));
	int r;

	if (!target)
		return error_set(err, ENOMEM, "no memory for an iSCSI target");
	r = scsi_target_new(name, &target->scsi, err);
	if (r < 0) {
		free(target);
		return r;
	}
	target->table = table;
	target->base_length = base_length;
	(void)snprintf(target->name, sizeof(target->name), "%s", name);
	target->link = &table->targets;
	target->next = table->targets;
	if (target->next)
		target->next->link = &target->next;
	table->targets = target;
	*ret = target;
	return 0;
}

/* ---- rows ---- */

static struct iscsi_row **row_find(struct iscsi_table *table, const char *name)
{
	struct iscsi_row **at = &table->rows;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

static void row_remove(struct iscsi_row **at)
{
	struct iscsi_row *row = *at;

	*at = row->next;
	scsi_target_remove(row->target->scsi, row->lun);
	scsi_unit_unref(row->unit);
	row->target->rows--;
	target_put(row->target);
	free(row);
}

static struct scsi_unit_options unit_options(const struct target_export *spec)
{
	const struct target_scsi *scsi = spec->scsi;
	struct scsi_unit_options options = {
		.serial = scsi->serial,
		.product = scsi->product,
		.size = scsi->size,
		.block_size = scsi->block_size ?: 512,
		.physical_size = scsi->physical_size,
		.transfer_max = TRANSFER_MAX,
		.read_only = spec->read_only,
		.removable = scsi->removable,
		.thin = scsi->thin,
		.low_space = scsi->low_space,
		.state_path = scsi->state_path,
	};

	memcpy(options.uuid, scsi->uuid, sizeof(options.uuid));
	return options;
}

static bool row_same_unit(const struct scsi_unit_options *a,
			  const struct scsi_unit_options *b)
{
	return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 &&
	       a->block_size == b->block_size &&
	       a->physical_size == b->physical_size &&
	       a->read_only == b->read_only && a->removable == b->removable &&
	       a->thin == b->thin;
}

static void row_free(struct iscsi_row *row)
{
	if (row)
		scsi_unit_unref(row->unit);
	free(row);
}

/* In no target yet. */
static int row_new(const struct target_export *spec, struct iscsi_row **ret,
		   struct error *err)
{
	struct scsi_unit_options options = unit_options(spec);
	struct iscsi_row *row = calloc(1, sizeof(*row));
	int r = row ? 0 : error_set(err, ENOMEM, "no memory for a LUN");

	if (r == 0)
		r = scsi_unit_new(&options, &row->unit, err);
	if (r < 0) {
		free(row);
		return r;
	}
	options.serial = NULL;
	options.product = NULL;
	options.state_path = NULL;
	row->options = options;
	row->lun = spec->scsi->lun;
	(void)snprintf(row->name, sizeof(row->name), "%s", spec->name);
	if (spec->epoch > 0)
		(void)snprintf(row->export, sizeof(row->export), "%s@%" PRIu64,
			       spec->name, spec->epoch);
	else
		(void)snprintf(row->export, sizeof(row->export), "%s",
			       spec->name);
	*ret = row;
	return 0;
}

/*
 * Give the row its place. Reservations are read once more, as an earlier user
 * of the export may have changed them until now.
 */
static int row_put(struct iscsi_table *table, struct iscsi_row *row,
		   struct iscsi_target *target, struct error *err)
{
	int r = scsi_unit_reload(row->unit, err);

	if (r == 0)
		r = scsi_target_add(target->scsi, row->lun, row->unit, err);
	if (r < 0)
		return r;
	row->target = target;
	target->rows++;
	target->refs++;
	row->next = table->rows;
	table->rows = row;
	return 0;
}

static const char *tag_of(const struct target_export *spec)
{
	return spec->scsi && spec->scsi->tag ? spec->scsi->tag : "";
}

/* Tell whether everything that initiators know of the row stays as it was. */
static bool row_stays(const struct iscsi_row *row,
		      const struct target_export *spec, const char *target)
{
	struct scsi_unit_options options = unit_options(spec);

	return row->lun == spec->scsi->lun &&
	       strcmp(row->target->name, target) == 0 &&
	       strcmp(row->target->tag, tag_of(spec)) == 0 &&
	       row_same_unit(&row->options, &options);
}

/* ---- an export takes its place ---- */

static int spec_check(const struct target_export *spec, struct error *err)
{
	char name[ISCSI_NAME_MAX + 1];
	size_t base_length;
	int r = iscsi_name_of_export(spec, name, &base_length, err);

	if (r == 0 && spec->scsi->lun >= SCSI_LUNS)
		r = error_set(err, EINVAL, "a LUN is less than %d", SCSI_LUNS);
	if (r == 0 && strlen(tag_of(spec)) > TARGET_ISCSI_TAG_MAX)
		r = error_set(err, EINVAL, "a tag has at most %d bytes",
			      TARGET_ISCSI_TAG_MAX);
	if (r == 0 && spec->scsi->secrets)
		r = chap_secrets_check(spec->scsi->secrets, err);
	return r;
}

static int taken(const struct iscsi_row *by, const char *target,
		 struct error *err)
{
	return error_set(err, EEXIST, "LUN %u of '%s' is export '%s'", by->lun,
			 target, by->name);
}

/* Another export is that LUN, or is about to be. The lock is held. */
static int lun_check(const struct iscsi_table *table,
		     const struct target_export *spec, const char *target,
		     struct error *err)
{
	for (const struct iscsi_row *row = table->rows; row; row = row->next)
		if (row->lun == spec->scsi->lun &&
		    strcmp(row->target->name, target) == 0 &&
		    strcmp(row->name, spec->name) != 0)
			return taken(row, target, err);
	for (const struct iscsi_ready *r = table->coming; r; r = r->next)
		if (r->row->lun == spec->scsi->lun &&
		    strcmp(r->target->name, target) == 0)
			return taken(r->row, target, err);
	return 0;
}

/* The lock is held. */
static void ready_end(struct iscsi_table *table, struct iscsi_ready *ready)
{
	struct iscsi_ready **at = &table->coming;

	while (*at != ready)
		at = &(*at)->next;
	*at = ready->next;
	target_put(ready->target);
	row_free(ready->row);
}

int iscsi_table_prepare(struct iscsi_table *table,
			const struct target_export *spec,
			struct iscsi_ready *ret, struct error *err)
{
	char name[ISCSI_NAME_MAX + 1];
	size_t base_length = 0;
	struct iscsi_row *row = NULL;
	int r = spec_check(spec, err);

	if (r == 0)
		r = iscsi_name_of_export(spec, name, &base_length, err);
	if (r == 0)
		r = row_new(spec, &row, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&table->lock);
	*ret = (struct iscsi_ready){.row = row, .next = table->coming};
	r = lun_check(table, spec, name, err);
	if (r == 0)
		r = row_target_new(table, name, base_length, &ret->target, err);
	if (r == 0) {
		ret->target->refs++;
		table->coming = ret;
	}
	pthread_mutex_unlock(&table->lock);
	if (r < 0)
		row_free(row);
	return r;
}

int iscsi_table_commit(struct iscsi_table *table, struct iscsi_ready *ready,
		       const struct target_export *spec, struct error *err)
{
	struct iscsi_target *target;
	struct iscsi_row *row;
	int r = 0;

	pthread_mutex_lock(&table->lock);
	target = iscsi_target_by_name(table, ready->target->name)
			 ?: ready->target;
	row = *row_find(table, spec->name);
	if (row) {
		scsi_unit_resize(row->unit, spec->scsi->size);
	} else {
		r = row_put(table, ready->row, target, err);
		if (r == 0)
			ready->row = NULL;
	}
	if (r == 0) {
		(void)snprintf(target->tag, sizeof(target->tag), "%s",
			       tag_of(spec));
		explicit_bzero(&target->secrets, sizeof(target->secrets));
		if (spec->scsi->secrets)
			target->secrets = *spec->scsi->secrets;
	}
	ready_end(table, ready);
	pthread_mutex_unlock(&table->lock);
	return r;
}

void iscsi_table_cancel(struct iscsi_table *table, struct iscsi_ready *ready)
{
	pthread_mutex_lock(&table->lock);
	ready_end(table, ready);
	pthread_mutex_unlock(&table->lock);
}

void iscsi_table_vacate(struct iscsi_table *table,
			const struct target_export *spec)
{
	char name[ISCSI_NAME_MAX + 1];
	size_t base_length;
	struct iscsi_row **at;

	pthread_mutex_lock(&table->lock);
	at = row_find(table, spec->name);
	if (*at && (!spec->scsi ||
		    iscsi_name_of_export(spec, name, &base_length, NULL) < 0 ||
		    !row_stays(*at, spec, name))) {
		if (strcmp((*at)->target->tag, tag_of(spec)) != 0)
			iscsi_target_revoke_locked((*at)->target);
		row_remove(at);
	}
	pthread_mutex_unlock(&table->lock);
}

void iscsi_table_remove(struct iscsi_table *table, const char *name)
{
	struct iscsi_row **at;

	pthread_mutex_lock(&table->lock);
	at = row_find(table, name);
	if (*at)
		row_remove(at);
	pthread_mutex_unlock(&table->lock);
}

void iscsi_table_low_space(struct iscsi_table *table, const char *name)
{
	struct iscsi_row **at;

	pthread_mutex_lock(&table->lock);
	at = row_find(table, name);
	if (*at && (*at)->options.thin)
		scsi_unit_low_space((*at)->unit);
	pthread_mutex_unlock(&table->lock);
}

void iscsi_table_grow(struct iscsi_table *table, const char *name,
		      uint64_t size)
{
	struct iscsi_row **at;

	pthread_mutex_lock(&table->lock);
	at = row_find(table, name);
	if (*at && scsi_unit_size((*at)->unit) < size)
		scsi_unit_resize((*at)->unit, size);
	pthread_mutex_unlock(&table->lock);
}

void iscsi_table_free(struct iscsi_table *table)
{
	if (!table)
		return;
	while (table->rows)
		row_remove(&table->rows);
	explicit_bzero(&table->discovery, sizeof(table->discovery));
	pthread_mutex_destroy(&table->lock);
	free(table);
}

int iscsi_table_set_discovery(struct iscsi_table *table,
			      const struct chap_secrets *secrets,
			      struct error *err)
{
	int r = chap_secrets_check(secrets, err);

	if (r == 0)
		table->discovery = *secrets;
	return r;
}

const struct chap_secrets *iscsi_table_discovery(
	const struct iscsi_table *table)
{
	return &table->discovery;
}
