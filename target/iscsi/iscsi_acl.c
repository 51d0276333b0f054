/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer may log in to, and find there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/iscsi/iscsi_table_internal.h"

/* The peer may use one of its exports at least. */
static bool admitted(struct iscsi_table *table, const struct iscsi_place *place,
		     const struct peer_address *peer)
{
	for (struct iscsi_row *row = table->rows; row; row = row->next)
		if (row->place == place &&
		    export_table_admits(table->exports, row->export, peer))
			return true;
	return false;
}

/* There is a place of that name, but for the epoch. */
static bool other_epoch(const struct iscsi_table *table, const char *name)
{
	for (struct iscsi_place *p = table->places; p; p = p->next)
		if (p->rows > 0 &&
		    strncmp(p->name, name, p->base_length) == 0 &&
		    (name[p->base_length] == '\0' ||
		     name[p->base_length] == ':'))
			return true;
	return false;
}

int iscsi_place_find(struct iscsi_table *table, const char *name,
		     const struct peer_address *peer, struct iscsi_place **ret)
{
	struct iscsi_place *place;
	int r = 0;

	pthread_mutex_lock(&table->lock);
	place = iscsi_place_by_name(table, name);
	if (!place)
		r = other_epoch(table, name) ? -ESTALE : -ENOENT;
	else if (!admitted(table, place, peer))
		r = -EACCES;
	if (r == 0) {
		place->refs++;
		*ret = place;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

int iscsi_place_list(struct iscsi_table *table, const struct peer_address *peer,
		     int (*each)(void *context, const char *name),
		     void *context)
{
	int r = 0;

	pthread_mutex_lock(&table->lock);
	for (struct iscsi_place *p = table->places; p && r == 0; p = p->next)
		if (p->rows > 0 && admitted(table, p, peer))
			r = each(context, p->name);
	pthread_mutex_unlock(&table->lock);
	return r;
}

void iscsi_place_secrets(struct iscsi_place *place,
			 struct iscsi_chap_secrets *ret)
{
	struct iscsi_table *table = place->table;

	pthread_mutex_lock(&table->lock);
	*ret = place->secrets;
	pthread_mutex_unlock(&table->lock);
}

struct scsi_target *iscsi_place_target(const struct iscsi_place *place)
{
	return place->target;
}

const char *iscsi_place_name(const struct iscsi_place *place)
{
	return place->name;
}

void iscsi_place_luns(struct iscsi_place *place, bool ret[static SCSI_LUNS])
{
	struct iscsi_table *table = place->table;

	memset(ret, 0, SCSI_LUNS * sizeof(ret[0]));
	pthread_mutex_lock(&table->lock);
	for (struct iscsi_row *row = table->rows; row; row = row->next)
		if (row->place == place)
			ret[row->lun] = true;
	pthread_mutex_unlock(&table->lock);
}

int iscsi_place_export(struct iscsi_place *place, unsigned lun,
		       char ret[static EXPORT_FULL_NAME_MAX])
{
	struct iscsi_table *table = place->table;
	int r = -ENOENT;

	pthread_mutex_lock(&table->lock);
	for (struct iscsi_row *row = table->rows; row; row = row->next) {
		if (row->place != place || row->lun != lun)
			continue;
		memcpy(ret, row->export, strlen(row->export) + 1);
		r = 0;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}
