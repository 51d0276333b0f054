/* SPDX-License-Identifier: Apache-2.0 */
/* Users of exports: admission, entering, leaving, statistics. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "target/export/export_table_internal.h"

/* ---- admission ---- */

/* The export is still the LUN by which @user reaches it. */
bool export_same_lun(const struct export_object *export,
		     const struct export_user *user)
{
	return !user->scsi_target ||
	       (strcmp(export->scsi_target, user->scsi_target) == 0 &&
		export->lun == user->lun);
}

/* Behind '@': a decimal number without sign or leading zero, not 0. */
static bool epoch_parse(const char *text, uint64_t *ret)
{
	uint64_t epoch = 0;

	if (*text < '1' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(epoch, 10, &epoch) ||
		    __builtin_add_overflow(epoch, (uint64_t)(*text - '0'),
					   &epoch))
			return false;
	*ret = epoch;
	return *text == '\0';
}

/* The peer's epoch is the current one; @at: the '@' in its name, or NULL. */
static int epoch_check(const struct export_object *now, const char *at,
		       struct error *err)
{
	uint64_t epoch = 0;

	if (at && !epoch_parse(at + 1, &epoch))
		return error_set(err, ENOENT,
				 "the part after '@' is not an epoch");
	if (epoch == now->epoch)
		return 0;
	if (!at)
		return error_set(err, EACCES,
				 "the export has epoch %" PRIu64
				 "; ask for its name with @EPOCH behind it",
				 now->epoch);
	return error_set(err, EACCES, "epoch %" PRIu64 " is %s than %" PRIu64,
			 epoch, epoch < now->epoch ? "older" : "newer",
			 now->epoch);
}

/*
 * Refuse an export that is not there: for ever, or only as long as we don't
 * know of it.
 */
static int not_there(const struct export_entry *entry, const char *at,
		     struct error *err)
{
	uint64_t epoch = 0;

	if (entry && at && epoch_parse(at + 1, &epoch) &&
	    epoch <= entry->withdrawn_epoch)
		return error_set(err, EACCES,
				 "the export was withdrawn: epoch %" PRIu64
				 " is over",
				 epoch);
	return error_set(err, ENOENT, "there is no such export");
}

static int entry_check(const struct export_entry *entry, const char *at,
		       const struct peer_address *peer, struct error *err)
{
	char text[PEER_ADDRESS_TEXT_MAX];
	int r;

	if (!entry || !entry->current)
		return not_there(entry, at, err);
	if (initiators_want_tls(&entry->current->initiators, peer))
		return error_set(err, ENOKEY,
				 "the export needs TLS with a proved name");
	if (!initiators_admit(&entry->current->initiators, peer))
		return error_set(err, EACCES, "not allowed from %s",
				 peer_address_format(peer, text, sizeof(text)));
	r = epoch_check(entry->current, at, err);
	if (r < 0)
		return r;
	if (entry->revoked > 0)
		return error_set(err, ESHUTDOWN,
				 "the export is being taken over; try again");
	return 0;
}

bool export_table_admits(struct export_table *table, const char *name,
			 const struct peer_address *peer)
{
	const char *at = strrchr(name, '@');
	size_t length = at ? (size_t)(at - name) : strlen(name);
	struct export_entry *entry;
	int r;

	pthread_mutex_lock(&table->lock);
	entry = export_entry_find(table, name, length);
	r = entry_check(entry, at, peer, NULL);
	pthread_mutex_unlock(&table->lock);
	return r == 0 || r == -ESHUTDOWN;
}

int export_table_enter(struct export_table *table, const char *name,
		       struct export_user *user, struct error *err)
{
	const char *at = strrchr(name, '@');
	size_t length = at ? (size_t)(at - name) : strlen(name);
	struct export_entry *entry;
	int r;

	pthread_mutex_lock(&table->lock);
	entry = length <= EXPORT_NAME_MAX
			? export_entry_find(table, name, length)
			: NULL;
	r = entry_check(entry, at, &user->peer, err);
	if (r == 0 && !export_same_lun(entry->current, user))
		r = error_set(err, EACCES, "it is another LUN by now");
	if (r == 0) {
		user->entry = entry;
		user->export = entry->current;
		user->export->refs++;
		user->revoked = false;
		user->round = 0;
		user->caught_up = user->caught_at = table->round;
		user->since_ms = clock_ms();
		user->id = ++table->last_id;
		user->next = entry->users;
		user->link = &entry->users;
		if (user->next)
			user->next->link = &user->next;
		entry->users = user;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

bool export_table_leave(struct export_table *table, struct export_user *user)
{
	struct export_object *unused;
	bool revoked;

	pthread_mutex_lock(&table->lock);
	*user->link = user->next;
	if (user->next)
		user->next->link = user->link;
	if (user->stats)
		export_stats_add(&user->entry->past, user->stats);
	revoked = user->revoked;
	if (revoked && --user->entry->revoked == 0)
		pthread_cond_broadcast(&table->left);
	unused = export_object_unref(user->export);
	if (unused && revoked) { /* released before those waiting go on */
		unused->next_dead = user->entry->dead;
		user->entry->dead = unused;
		unused = NULL;
	}
	export_entry_put(table, user->entry);
	user->export = NULL;
	user->entry = NULL;
	pthread_mutex_unlock(&table->lock);
	export_object_free(unused);
	return revoked;
}

int export_table_list(struct export_table *table,
		      const struct peer_address *peer,
		      int (*each)(void *context, const char *name),
		      void *context)
{
	int r = 0;

	pthread_mutex_lock(&table->lock);
	for (struct export_entry *entry = table->entries; entry && r == 0;
	     entry = entry->next)
		if (entry->current &&
		    initiators_admit(&entry->current->initiators, peer))
			r = each(context, entry->current->name);
	pthread_mutex_unlock(&table->lock);
	return r;
}

/* ---- statistics ---- */

unsigned export_table_users(struct export_table *table, const char *name)
{
	struct export_entry *entry;
	unsigned n = 0;

	pthread_mutex_lock(&table->lock);
	entry = export_entry_find(table, name, strlen(name));
	for (struct export_user *user = entry ? entry->users : NULL; user;
	     user = user->next)
		n++;
	pthread_mutex_unlock(&table->lock);
	return n;
}

static void connection_fill(const struct export_user *user,
			    struct target_connection *ret)
{
	*ret = (struct target_connection){.id = user->id,
					  .since_ms = user->since_ms};
	(void)peer_address_format(&user->peer, ret->peer, sizeof(ret->peer));
	(void)snprintf(ret->features, sizeof(ret->features), "%s",
		       user->features);
	if (user->stats)
		export_stats_add(&ret->stats, user->stats);
}

/* The lock is held. */
static int entry_stats(const struct export_entry *entry,
		       struct export_stats *ret,
		       struct target_connection **ret_list, size_t *ret_n)
{
	struct target_connection *list = NULL;
	size_t n = 0;

	for (struct export_user *user = entry->users; user; user = user->next)
		n++;
	if (ret_list) {
		list = calloc(n + 1, sizeof(*list));
		if (!list)
			return -ENOMEM;
		*ret_list = list;
		*ret_n = n;
	}
	*ret = entry->past;
	for (struct export_user *user = entry->users; user; user = user->next) {
		if (user->stats)
			export_stats_add(ret, user->stats);
		if (list)
			connection_fill(user, list++);
	}
	return 0;
}

int export_table_stats(struct export_table *table, const char *name,
		       struct export_stats *ret,
		       struct target_connection **ret_list, size_t *ret_n)
{
	struct export_entry *entry;
	int r;

	pthread_mutex_lock(&table->lock);
	entry = export_entry_find(table, name, strlen(name));
	r = entry && entry->current ? entry_stats(entry, ret, ret_list, ret_n)
				    : -ENOENT;
	pthread_mutex_unlock(&table->lock);
	return r;
}
