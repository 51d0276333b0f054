/* SPDX-License-Identifier: Apache-2.0 */
/* Exports by their names, and how one takes the place of another. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "target/export/export_table_internal.h"

struct export_entry *export_entry_find(struct export_table *table,
				       const char *name, size_t length)
{
	for (struct export_entry *entry = table->entries; entry;
	     entry = entry->next)
		if (strncmp(entry->name, name, length) == 0 &&
		    entry->name[length] == '\0')
			return entry;
	return NULL;
}

/* Forget it when nobody needs it. */
void export_entry_put(struct export_table *table, struct export_entry *entry)
{
	struct export_entry **at = &table->entries;

	if (entry->current || entry->withdrawn_epoch || entry->users ||
	    entry->waiters > 0)
		return;
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	free(entry);
}

/* ---- entries ---- */

static struct export_entry *entry_make(struct export_table *table,
				       const char *name)
{
	struct export_entry *entry = export_entry_find(table, name,
						       strlen(name));

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry) + strlen(name) + 1);
	if (!entry)
		return NULL;
	memcpy(entry->name, name, strlen(name) + 1);
	entry->next = table->entries;
	table->entries = entry;
	return entry;
}

static void entry_set_withdrawn(struct export_table *table,
				struct export_entry *entry, uint64_t epoch)
{
	table->n_withdrawn -= entry->withdrawn_epoch > 0;
	entry->withdrawn_epoch = epoch;
	table->n_withdrawn += epoch > 0;
}

/* When too many are remembered, the oldest is not any more. */
static void withdrawn_forget(struct export_table *table)
{
	struct export_entry *oldest = NULL;

	if (table->n_withdrawn <= EXPORTS_WITHDRAWN_MAX)
		return;
	for (struct export_entry *e = table->entries; e; e = e->next)
		if (e->withdrawn_epoch > 0)
			oldest = e;
	assert(oldest); /* they are counted */
	entry_set_withdrawn(table, oldest, 0);
	export_entry_put(table, oldest);
}

static bool export_same_unit(const struct unit *a, const struct unit *b)
{
	return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0 &&
	       a->block_size == b->block_size &&
	       a->physical_size == b->physical_size &&
	       a->removable == b->removable && a->thin == b->thin;
}

/* Tell whether @user may go on under the entry's present export. */
static bool user_ok(const struct export_entry *entry,
		    const struct export_user *user)
{
	const struct export_object *now = entry->current;

	return now && now->epoch == user->export->epoch &&
	       now->read_only == user->export->read_only &&
	       export_same_lun(now, user) &&
	       (!user->scsi_target ||
		export_same_unit(&now->unit, &user->export->unit)) &&
	       initiators_admit(&now->initiators, &user->peer);
}

/*
 * @now is the export from here on: tell users that may not go on, and wait
 * until they have left. Returns what nobody uses any more.
 */
static struct export_object *entry_change(struct export_table *table,
					  struct export_entry *entry,
					  struct export_object *now)
{
	struct export_object *old = entry->current, *dead;

	entry->current = now;
	for (struct export_user *user = entry->users; user; user = user->next) {
		if (user->revoked || user_ok(entry, user))
			continue;
		user->revoked = true;
		entry->revoked++;
		user->revoke(user);
	}
	entry->waiters++;
	while (entry->revoked > 0)
		pthread_cond_wait(&table->left, &table->lock);
	entry->waiters--;
	dead = entry->dead;
	entry->dead = NULL;
	old = export_object_unref(old);
	if (old) {
		old->next_dead = dead;
		dead = old;
	}
	export_entry_put(table, entry); /* it may have been removed meanwhile */
	return dead;
}

/* ---- the table ---- */

struct export_table *export_table_new(void)
{
	struct export_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	pthread_mutex_init(&table->lock, NULL);
	pthread_cond_init(&table->left, NULL);
	table->round = 1;
	return table;
}

void export_table_free(struct export_table *table)
{
	if (!table)
		return;
	while (table->entries) {
		struct export_entry *entry = table->entries;

		assert(!entry->users && entry->waiters == 0);
		table->entries = entry->next;
		export_object_free(export_object_unref(entry->current));
		free(entry);
	}
	pthread_cond_destroy(&table->left);
	pthread_mutex_destroy(&table->lock);
	free(table);
}

static int stale(const struct export_entry *entry,
		 const struct export_object *export, struct error *err)
{
	if (!entry->current || entry->current->epoch <= export->epoch)
		return 0;
	return error_set(err, ESTALE,
			 "export '%s': epoch %" PRIu64
			 " is older than %" PRIu64,
			 entry->name, export->epoch, entry->current->epoch);
}

int export_table_prepare(struct export_table *table,
			 const struct target_export *spec,
			 struct export_ready *ret, struct error *err)
{
	struct export_object *export = NULL;
	struct export_entry *entry;
	int r = export_object_new(spec, &export, err);

	if (r < 0) {
		if (spec->release)
			spec->release(spec->context);
		return r;
	}
	pthread_mutex_lock(&table->lock);
	entry = entry_make(table, spec->name);
	r = entry ? stale(entry, export, err)
		  : error_set(err, ENOMEM, "no memory for an export");
	if (r == 0) {
		entry->waiters++;
		*ret = (struct export_ready){export, entry};
	}
	pthread_mutex_unlock(&table->lock);
	if (r < 0)
		export_object_free(export);
	return r;
}

int export_table_commit(struct export_table *table, struct export_ready *ready,
			struct error *err)
{
	struct export_entry *entry = ready->entry;
	struct export_object *unused = ready->export;
	int r;

	pthread_mutex_lock(&table->lock);
	entry->waiters--;
	r = stale(entry, ready->export, err);
	if (r == 0) {
		entry_set_withdrawn(table, entry, 0);
		unused = entry_change(table, entry, ready->export);
	}
	pthread_mutex_unlock(&table->lock);
	export_object_free(unused);
	return r;
}

void export_table_cancel(struct export_table *table, struct export_ready *ready)
{
	pthread_mutex_lock(&table->lock);
	ready->entry->waiters--;
	export_entry_put(table, ready->entry);
	pthread_mutex_unlock(&table->lock);
	export_object_free(ready->export);
}

void export_table_remove(struct export_table *table, const char *name)
{
	struct export_entry *entry;
	struct export_object *old = NULL;

	pthread_mutex_lock(&table->lock);
	entry = export_entry_find(table, name, strlen(name));
	if (entry) {
		entry_set_withdrawn(table, entry, 0);
		old = entry_change(table, entry, NULL);
	}
	pthread_mutex_unlock(&table->lock);
	export_object_free(old);
}

int export_table_end(struct export_table *table, const char *name,
		     uint64_t epoch, struct error *err)
{
	struct export_entry *entry;
	struct export_object *old = NULL;
	int r = export_name_check(name, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&table->lock);
	entry = entry_make(table, name);
	if (entry) {
		entry_set_withdrawn(table, entry, epoch);
		old = entry_change(table, entry, NULL);
		withdrawn_forget(table);
	}
	pthread_mutex_unlock(&table->lock);
	export_object_free(old);
	return entry ? 0 : error_set(err, ENOMEM, "no memory for an export");
}
