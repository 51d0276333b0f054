/* SPDX-License-Identifier: Apache-2.0 */
/* Targets that a peer may log in to, and the LUNs that it finds there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/iscsi/iscsi_table_internal.h"

/* The peer may use one of its exports at least. */
static bool target_admits(struct iscsi_table *table,
			  const struct iscsi_target *target,
			  const struct peer_address *peer)
{
	for (struct iscsi_row *row = table->rows; row; row = row->next)
		if (row->target == target &&
		    export_table_admits(table->exports, row->export, peer))
			return true;
	return false;
}

/* Tell whether there is a target of that name, but for the epoch. */
static bool other_epoch(const struct iscsi_table *table, const char *name)
{
	for (struct iscsi_target *p = table->targets; p; p = p->next)
		if (p->rows > 0 &&
		    strncmp(p->name, name, p->base_length) == 0 &&
		    (name[p->base_length] == '\0' ||
		     name[p->base_length] == ':'))
			return true;
	return false;
}

int iscsi_target_find(struct iscsi_table *table, const char *name,
		      const struct peer_address *peer,
		      struct iscsi_target **ret)
{
	struct iscsi_target *target;
	int r = 0;

	pthread_mutex_lock(&table->lock);
	target = iscsi_target_by_name(table, name);
	if (!target)
		r = other_epoch(table, name) ? -ESTALE : -ENOENT;
	else if (!target_admits(table, target, peer))
		r = -EACCES;
	if (r == 0) {
		target->refs++;
		*ret = target;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

int iscsi_target_list(struct iscsi_table *table,
		      const struct peer_address *peer,
		      int (*each)(void *context, const char *name),
		      void *context)
{
	int r = 0;

	pthread_mutex_lock(&table->lock);
	for (struct iscsi_target *p = table->targets; p && r == 0; p = p->next)
		if (p->rows > 0 && target_admits(table, p, peer))
			r = each(context, p->name);
	pthread_mutex_unlock(&table->lock);
	return r;
}

void iscsi_target_secrets(struct iscsi_target *target, struct chap_secrets *ret)
{
	struct iscsi_table *table = target->table;

	pthread_mutex_lock(&table->lock);
	*ret = target->secrets;
	pthread_mutex_unlock(&table->lock);
}

struct scsi_target *iscsi_target_scsi(const struct iscsi_target *target)
{
	return target->scsi;
}

const char *iscsi_target_name(const struct iscsi_target *target)
{
	return target->name;
}

void iscsi_target_luns(struct iscsi_target *target, bool ret[static SCSI_LUNS])
{
	struct iscsi_table *table = target->table;

	memset(ret, 0, SCSI_LUNS * sizeof(ret[0]));
	pthread_mutex_lock(&table->lock);
	for (struct iscsi_row *row = table->rows; row; row = row->next)
		if (row->target == target)
			ret[row->lun] = true;
	pthread_mutex_unlock(&table->lock);
}

int iscsi_target_export(struct iscsi_target *target, unsigned lun,
			char ret[static EXPORT_FULL_NAME_MAX])
{
	struct iscsi_table *table = target->table;
	int r = -ENOENT;

	pthread_mutex_lock(&table->lock);
	for (struct iscsi_row *row = table->rows; row; row = row->next) {
		if (row->target != target || row->lun != lun)
			continue;
		memcpy(ret, row->export, strlen(row->export) + 1);
		r = 0;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}
