/* SPDX-License-Identifier: Apache-2.0 */
#include "target/iscsi_table.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define INITIATORS_MAX 64   /* names of one place; ours */
#define LOGINS_MAX     4096 /* sessions; ours */

/* Bytes that one command may move: what a loop has buffers for (target.c). */
#define TRANSFER_MAX (UINT32_C(32) << 20)

struct iscsi_place {
	struct iscsi_table *table;
	struct iscsi_place *next, **link;
	unsigned refs; /* of rows and sessions, under the table's lock */
	unsigned rows;
	size_t base_length; /* of @name, without the epoch */
	char name[ISCSI_NAME_MAX + 1];
	struct scsi_target *target;
	struct iscsi_chap_secrets secrets;
	char **initiators; /* owned; names that may log in */
	size_t n_initiators;
};

struct row {
	struct row *next;
	struct iscsi_place *place;
	unsigned lun;
	struct scsi_unit *unit;
	struct scsi_unit_options options; /* without its pointers */
	char export[EXPORT_FULL_NAME_MAX];
	char name[EXPORT_NAME_MAX + 1];
};

struct iscsi_table {
	/* Guards all of it; the export table's is taken inside. */
	pthread_mutex_t lock;
	struct export_table *exports;
	struct iscsi_place *places;
	struct row *rows;
	struct iscsi_login_user *logins;
	unsigned n_logins;
	uint16_t tsih; /* the last one given */
};

struct iscsi_table *iscsi_table_new(struct export_table *exports)
{
	struct iscsi_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	pthread_mutex_init(&table->lock, NULL);
	table->exports = exports;
	return table;
}

/* ---- places ---- */

static void place_free(struct iscsi_place *place)
{
	*place->link = place->next;
	if (place->next)
		place->next->link = place->link;
	for (size_t i = 0; i < place->n_initiators; i++)
		free(place->initiators[i]);
	free(place->initiators);
	scsi_target_unref(place->target);
	explicit_bzero(&place->secrets, sizeof(place->secrets));
	free(place);
}

/* The table's lock is held. */
static void place_put(struct iscsi_place *place)
{
	if (--place->refs == 0)
		place_free(place);
}

void iscsi_place_unref(struct iscsi_place *place)
{
	struct iscsi_table *table = place ? place->table : NULL;

	if (!table)
		return;
	pthread_mutex_lock(&table->lock);
	place_put(place);
	pthread_mutex_unlock(&table->lock);
}

static struct iscsi_place *place_by_name(struct iscsi_table *table,
					 const char *name)
{
	struct iscsi_place *place = table->places;

	while (place && (place->rows == 0 || strcmp(place->name, name) != 0))
		place = place->next;
	return place;
}

static int place_new(struct iscsi_table *table, const char *name,
		     size_t base_length, struct iscsi_place **ret,
		     struct error *err)
{
	struct iscsi_place *place = calloc(1, sizeof(*place));
	int r;

	if (!place)
		return error_set(err, ENOMEM, "no memory for an iSCSI target");
	r = scsi_target_new(name, &place->target, err);
	if (r < 0) {
		free(place);
		return r;
	}
	place->table = table;
	place->base_length = base_length;
	(void)snprintf(place->name, sizeof(place->name), "%s", name);
	place->link = &table->places;
	place->next = table->places;
	if (place->next)
		place->next->link = &place->next;
	table->places = place;
	*ret = place;
	return 0;
}

/* Who may log in, and how, is what was said last of one of its exports. */
static int place_admit(struct iscsi_place *place,
		       const struct target_scsi *scsi, struct error *err)
{
	char **names = NULL;

	if (scsi->n_initiators > INITIATORS_MAX)
		return error_set(err, EINVAL, "more than %d initiator names",
				 INITIATORS_MAX);
	if (scsi->n_initiators > 0)
		names = calloc(scsi->n_initiators, sizeof(*names));
	for (size_t i = 0; names && i < scsi->n_initiators; i++) {
		names[i] = strdup(scsi->initiators[i]);
		if (names[i])
			continue;
		while (i-- > 0)
			free(names[i]);
		free(names);
		names = NULL;
	}
	if (scsi->n_initiators > 0 && !names)
		return error_set(err, ENOMEM, "no memory for a name");
	for (size_t i = 0; i < place->n_initiators; i++)
		free(place->initiators[i]);
	free(place->initiators);
	place->initiators = names;
	place->n_initiators = scsi->n_initiators;
	explicit_bzero(&place->secrets, sizeof(place->secrets));
	if (scsi->secrets)
		place->secrets = *scsi->secrets;
	return 0;
}

/* ---- rows ---- */

static struct row **row_find(struct iscsi_table *table, const char *name)
{
	struct row **at = &table->rows;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

static void row_remove(struct row **at)
{
	struct row *row = *at;

	*at = row->next;
	scsi_target_remove(row->place->target, row->lun);
	scsi_unit_unref(row->unit);
	row->place->rows--;
	place_put(row->place);
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
		.state_path = scsi->state_path,
	};

	memcpy(options.uuid, scsi->uuid, sizeof(options.uuid));
	return options;
}

static bool same_unit(const struct scsi_unit_options *a,
		      const struct scsi_unit_options *b)
{
	return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 &&
	       a->block_size == b->block_size &&
	       a->physical_size == b->physical_size &&
	       a->read_only == b->read_only && a->removable == b->removable &&
	       a->thin == b->thin;
}

/* "NAME" or "NAME:EPOCH" of the place; -EINVAL. */
static int place_name(const struct target_export *spec,
		      char ret[static ISCSI_NAME_MAX + 1],
		      size_t *ret_base_length, struct error *err)
{
	const char *name = spec->scsi->name;
	char text[ISCSI_NAME_MAX + EXPORT_NAME_MAX + 32];
	int length;

	if (name)
		length = snprintf(text, sizeof(text), "%s", name);
	else
		length = snprintf(text, sizeof(text), "%s:%s",
				  TARGET_ISCSI_PREFIX, spec->name);
	*ret_base_length = (size_t)length;
	if (spec->epoch > 0 && (size_t)length < sizeof(text))
		(void)snprintf(text + length, sizeof(text) - (size_t)length,
			       ":%" PRIu64, spec->epoch);
	if (!iscsi_name_ok(text))
		return error_set(err, EINVAL,
				 "'%s' can't be an iSCSI name: up to %d "
				 "letters, digits, '-', '.' and ':'",
				 text, ISCSI_NAME_MAX);
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

static int row_add(struct iscsi_table *table, const struct target_export *spec,
		   struct iscsi_place *place, struct error *err)
{
	struct scsi_unit_options options = unit_options(spec);
	struct row *row = calloc(1, sizeof(*row));
	int r = row ? 0 : error_set(err, ENOMEM, "no memory for a LUN");

	if (r == 0)
		r = scsi_unit_new(&options, &row->unit, err);
	if (r == 0) {
		r = scsi_target_add(place->target, spec->scsi->lun, row->unit,
				    err);
		if (r < 0)
			scsi_unit_unref(row->unit);
	}
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
	row->place = place;
	place->rows++;
	place->refs++;
	row->next = table->rows;
	table->rows = row;
	return 0;
}

/* The lock is held. */
static int set(struct iscsi_table *table, const struct target_export *spec,
	       struct error *err)
{
	struct scsi_unit_options options = unit_options(spec);
	struct row **at = row_find(table, spec->name);
	char name[ISCSI_NAME_MAX + 1];
	struct iscsi_place *place;
	size_t base_length = 0;
	int r = place_name(spec, name, &base_length, err);

	if (r < 0)
		return r;
	if (*at && ((*at)->lun != spec->scsi->lun ||
		    strcmp((*at)->place->name, name) != 0 ||
		    !same_unit(&(*at)->options, &options)))
		row_remove(at);
	place = place_by_name(table, name);
	if (!place)
		r = place_new(table, name, base_length, &place, err);
	if (r < 0)
		return r;
	place->refs++;
	r = place_admit(place, spec->scsi, err);
	at = row_find(table, spec->name);
	if (r == 0 && *at)
		scsi_unit_resize((*at)->unit, options.size);
	else if (r == 0)
		r = row_add(table, spec, place, err);
	place_put(place);
	return r;
}

int iscsi_table_set(struct iscsi_table *table, const struct target_export *spec,
		    struct error *err)
{
	int r = 0;

	if (spec->scsi->lun >= SCSI_LUNS)
		return error_set(err, EINVAL, "a LUN is less than %d",
				 SCSI_LUNS);
	if (spec->scsi->secrets)
		r = iscsi_chap_check(spec->scsi->secrets, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&table->lock);
	r = set(table, spec, err);
	pthread_mutex_unlock(&table->lock);
	return r;
}

void iscsi_table_remove(struct iscsi_table *table, const char *name)
{
	struct row **at;

	pthread_mutex_lock(&table->lock);
	at = row_find(table, name);
	if (*at)
		row_remove(at);
	pthread_mutex_unlock(&table->lock);
}

void iscsi_table_grow(struct iscsi_table *table, const char *name,
		      uint64_t size)
{
	struct row **at;

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
	pthread_mutex_destroy(&table->lock);
	free(table);
}

/* ---- who may ---- */

static bool initiator_ok(const struct iscsi_place *place, const char *initiator)
{
	for (size_t i = 0; i < place->n_initiators; i++)
		if (strcasecmp(place->initiators[i], initiator) == 0)
			return true;
	return place->n_initiators == 0;
}

/* The peer may use one of its exports at least. */
static bool address_ok(struct iscsi_table *table,
		       const struct iscsi_place *place,
		       const struct peer_address *peer)
{
	for (struct row *row = table->rows; row; row = row->next)
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
		     const char *initiator, const struct peer_address *peer,
		     struct iscsi_place **ret)
{
	struct iscsi_place *place;
	int r = 0;

	pthread_mutex_lock(&table->lock);
	place = place_by_name(table, name);
	if (!place)
		r = other_epoch(table, name) ? -ESTALE : -ENOENT;
	else if (!initiator_ok(place, initiator) ||
		 !address_ok(table, place, peer))
		r = -EACCES;
	if (r == 0) {
		place->refs++;
		*ret = place;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

int iscsi_place_list(struct iscsi_table *table, const char *initiator,
		     const struct peer_address *peer,
		     int (*each)(void *context, const char *name),
		     void *context)
{
	int r = 0;

	pthread_mutex_lock(&table->lock);
	for (struct iscsi_place *p = table->places; p && r == 0; p = p->next)
		if (p->rows > 0 && initiator_ok(p, initiator) &&
		    address_ok(table, p, peer))
			r = each(context, p->name);
	pthread_mutex_unlock(&table->lock);
	return r;
}

const struct iscsi_chap_secrets *iscsi_place_secrets(
	const struct iscsi_place *place)
{
	return &place->secrets;
}

struct scsi_target *iscsi_place_target(const struct iscsi_place *place)
{
	return place->target;
}

int iscsi_place_luns(struct iscsi_place *place, struct iscsi_place_lun **ret)
{
	struct iscsi_table *table = place->table;
	struct iscsi_place_lun *luns;
	int n = 0;

	pthread_mutex_lock(&table->lock);
	luns = calloc(place->rows ?: 1, sizeof(*luns));
	for (struct row *row = table->rows; luns && row; row = row->next) {
		if (row->place != place)
			continue;
		luns[n].lun = row->lun;
		(void)snprintf(luns[n].export, sizeof(luns[n].export), "%s",
			       row->export);
		n++;
	}
	pthread_mutex_unlock(&table->lock);
	if (!luns)
		return -ENOMEM;
	*ret = luns;
	return n;
}

/* ---- logins ---- */

static void expel(struct iscsi_login_user *user)
{
	if (user->expelled)
		return;
	user->expelled = true;
	user->expel(user);
}

static struct iscsi_login_user *login_of_port(
	const struct iscsi_table *table, const struct iscsi_login_user *user)
{
	for (struct iscsi_login_user *l = table->logins; l; l = l->next)
		if (l->place == user->place &&
		    memcmp(l->isid, user->isid, sizeof(l->isid)) == 0 &&
		    strcasecmp(l->initiator, user->initiator) == 0)
			return l;
	return NULL;
}

bool iscsi_login_has_other(struct iscsi_table *table,
			   const struct iscsi_login_user *user)
{
	bool found = false;

	pthread_mutex_lock(&table->lock);
	for (struct iscsi_login_user *l = table->logins; l; l = l->next)
		found |= user->place && l->place == user->place &&
			 strcasecmp(l->initiator, user->initiator) == 0;
	pthread_mutex_unlock(&table->lock);
	return found;
}

static bool tsih_taken(const struct iscsi_table *table, uint16_t tsih)
{
	for (struct iscsi_login_user *l = table->logins; l; l = l->next)
		if (l->tsih == tsih)
			return true;
	return tsih == 0;
}

int iscsi_login_enter(struct iscsi_table *table, struct iscsi_login_user *user)
{
	struct iscsi_login_user *old;
	int r = 0;

	pthread_mutex_lock(&table->lock);
	old = user->place ? login_of_port(table, user) : NULL;
	if (old) {
		expel(old);
		r = -EAGAIN;
	} else if (table->n_logins >= LOGINS_MAX) {
		r = -EMFILE;
	} else {
		while (tsih_taken(table, ++table->tsih))
			;
		user->tsih = table->tsih;
		user->expelled = false;
		user->next = table->logins;
		user->link = &table->logins;
		if (user->next)
			user->next->link = &user->next;
		table->logins = user;
		table->n_logins++;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

bool iscsi_login_leave(struct iscsi_table *table, struct iscsi_login_user *user)
{
	bool expelled;

	pthread_mutex_lock(&table->lock);
	*user->link = user->next;
	if (user->next)
		user->next->link = user->link;
	table->n_logins--;
	expelled = user->expelled;
	pthread_mutex_unlock(&table->lock);
	return expelled;
}

bool iscsi_login_exists(struct iscsi_table *table, uint16_t tsih)
{
	bool exists;

	pthread_mutex_lock(&table->lock);
	exists = tsih_taken(table, tsih);
	pthread_mutex_unlock(&table->lock);
	return exists;
}

void iscsi_place_expel(struct iscsi_place *place)
{
	struct iscsi_table *table = place->table;

	pthread_mutex_lock(&table->lock);
	for (struct iscsi_login_user *l = table->logins; l; l = l->next)
		if (l->place == place)
			expel(l);
	pthread_mutex_unlock(&table->lock);
}
