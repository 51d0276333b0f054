/* SPDX-License-Identifier: Apache-2.0 */
#include "target/export_table.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

struct export_object {
	struct export_object *next_dead;
	unsigned refs; /* under the table's lock */
	char name[EXPORT_FULL_NAME_MAX];
	char description[EXPORT_DESCRIPTION_MAX + 1];
	uint64_t epoch;
	bool read_only;
	struct initiators initiators;
	int (*open)(void *context, struct loop *loop, bool read_only,
		    struct blockdev **ret, struct error *err);
	void (*release)(void *context);
	void *context;
};

/*
 * A name, as long as there is an export or a user of it, or a waiter, or it is
 * remembered that it is over.
 */
struct export_entry {
	struct export_entry *next;
	struct export_object *current; /* NULL: removed */
	uint64_t over; /* without current: epochs up to it are; 0: none */
	struct export_user *users;
	struct export_object *dead; /* last used by one who was expelled */
	unsigned expelled;          /* of the users */
	unsigned waiters;           /* for expelled to become 0 */
	struct export_stats past;   /* of users that have left */
	char name[];                /* without the epoch */
};

struct export_table {
	pthread_mutex_t lock; /* guards all of it; no other is taken inside */
	pthread_cond_t left;  /* an expelled user has */
	struct export_entry *entries; /* the last one named first */
	unsigned n_over;              /* entries with over > 0 */
};

const char *export_name(const struct export_object *export)
{
	return export->name;
}

bool export_is(const struct export_object *export, const char *name)
{
	size_t length = strlen(name);

	return strncmp(export->name, name, length) == 0 &&
	       (export->name[length] == '\0' || export->name[length] == '@');
}

const char *export_description(const struct export_object *export)
{
	return export->description;
}

bool export_read_only(const struct export_object *export)
{
	return export->read_only;
}

int export_open(struct export_object *export, struct loop *loop,
		struct blockdev **ret, struct error *err)
{
	return export->open(export->context, loop, export->read_only, ret, err);
}

/* ---- exports ---- */

static void context_release(void (*release)(void *context), void *context)
{
	if (release)
		release(context);
}

/* Drop one reference. What is returned is for export_free(). */
static struct export_object *export_unref(struct export_object *export)
{
	return export && --export->refs == 0 ? export : NULL;
}

/* A list of them; not under the lock, because release() is the owner's. */
static void export_free(struct export_object *export)
{
	while (export) {
		struct export_object *next = export->next_dead;

		context_release(export->release, export->context);
		free(export);
		export = next;
	}
}

static int name_ok(const char *name, struct error *err)
{
	size_t length = strlen(name);

	if (length == 0 || length > EXPORT_NAME_MAX)
		return error_set(err, EINVAL,
				 "an export's name has 1 to %d bytes",
				 EXPORT_NAME_MAX);
	if (strchr(name, '@'))
		return error_set(err, EINVAL,
				 "an export's name has no '@': the epoch comes "
				 "behind one");
	return 0;
}

static int export_new(const struct target_export *spec,
		      struct export_object **ret, struct error *err)
{
	struct export_object *export;
	int r = name_ok(spec->name, err);

	if (r < 0)
		return r;
	if (spec->description &&
	    strlen(spec->description) > EXPORT_DESCRIPTION_MAX)
		return error_set(err, EINVAL,
				 "an export's description has at most %d bytes",
				 EXPORT_DESCRIPTION_MAX);
	export = calloc(1, sizeof(*export));
	if (!export)
		return error_set(err, ENOMEM, "no memory for an export");
	r = initiators_parse(spec->initiators, spec->n_initiators,
			     &export->initiators, err);
	if (r < 0) {
		free(export);
		return r;
	}
	export->refs = 1;
	export->epoch = spec->epoch;
	export->read_only = spec->read_only;
	export->open = spec->open;
	export->release = spec->release;
	export->context = spec->context;
	if (spec->description)
		(void)snprintf(export->description, sizeof(export->description),
			       "%s", spec->description);
	if (spec->epoch > 0)
		(void)snprintf(export->name, sizeof(export->name),
			       "%s@%" PRIu64, spec->name, spec->epoch);
	else
		(void)snprintf(export->name, sizeof(export->name), "%s",
			       spec->name);
	*ret = export;
	return 0;
}

/* ---- entries ---- */

static struct export_entry *entry_find(struct export_table *table,
				       const char *name, size_t length)
{
	for (struct export_entry *entry = table->entries; entry;
	     entry = entry->next)
		if (strncmp(entry->name, name, length) == 0 &&
		    entry->name[length] == '\0')
			return entry;
	return NULL;
}

static struct export_entry *entry_make(struct export_table *table,
				       const char *name)
{
	struct export_entry *entry = entry_find(table, name, strlen(name));

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

/* Forget it when nobody needs it. */
static void entry_put(struct export_table *table, struct export_entry *entry)
{
	struct export_entry **at = &table->entries;

	if (entry->current || entry->over || entry->users || entry->waiters > 0)
		return;
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	free(entry);
}

static void entry_set_over(struct export_table *table,
			   struct export_entry *entry, uint64_t epoch)
{
	table->n_over -= entry->over > 0;
	entry->over = epoch;
	table->n_over += epoch > 0;
}

/* When too many are remembered, the oldest is not any more. */
static void forget_over(struct export_table *table)
{
	struct export_entry *oldest = NULL;

	if (table->n_over <= EXPORTS_OVER_MAX)
		return;
	for (struct export_entry *e = table->entries; e; e = e->next)
		if (e->over > 0)
			oldest = e;
	assert(oldest); /* they are counted */
	entry_set_over(table, oldest, 0);
	entry_put(table, oldest);
}

/* May @user go on under what the entry says now? */
static bool user_ok(const struct export_entry *entry,
		    const struct export_user *user)
{
	const struct export_object *now = entry->current;

	return now && now->epoch == user->export->epoch &&
	       now->read_only == user->export->read_only &&
	       initiators_admit(&now->initiators, &user->peer);
}

/*
 * @now is the export from here on: tell those who may not go on, and wait
 * until they have left. Returns what nobody uses any more.
 */
static struct export_object *entry_change(struct export_table *table,
					  struct export_entry *entry,
					  struct export_object *now)
{
	struct export_object *old = entry->current, *dead;

	entry->current = now;
	for (struct export_user *user = entry->users; user; user = user->next) {
		if (user->expelled || user_ok(entry, user))
			continue;
		user->expelled = true;
		entry->expelled++;
		user->expel(user);
	}
	entry->waiters++;
	while (entry->expelled > 0)
		pthread_cond_wait(&table->left, &table->lock);
	entry->waiters--;
	dead = entry->dead;
	entry->dead = NULL;
	old = export_unref(old);
	if (old) {
		old->next_dead = dead;
		dead = old;
	}
	entry_put(table, entry); /* it may have been removed meanwhile */
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
		export_free(export_unref(entry->current));
		free(entry);
	}
	pthread_cond_destroy(&table->left);
	pthread_mutex_destroy(&table->lock);
	free(table);
}

/* Put @export in, under the lock. @ret_old: the one it replaces. */
static int table_put(struct export_table *table, const char *name,
		     struct export_object *export,
		     struct export_object **ret_old, struct error *err)
{
	struct export_entry *entry = entry_make(table, name);

	if (!entry)
		return error_set(err, ENOMEM, "no memory for an export");
	if (entry->current && entry->current->epoch > export->epoch)
		return error_set(err, ESTALE,
				 "export '%s': epoch %" PRIu64
				 " is older than %" PRIu64,
				 name, export->epoch, entry->current->epoch);
	entry_set_over(table, entry, 0);
	*ret_old = entry_change(table, entry, export);
	return 0;
}

int export_table_set(struct export_table *table,
		     const struct target_export *spec, struct error *err)
{
	struct export_object *export = NULL, *old = NULL;
	int r = export_new(spec, &export, err);

	if (r < 0) {
		context_release(spec->release, spec->context);
		return r;
	}
	pthread_mutex_lock(&table->lock);
	r = table_put(table, spec->name, export, &old, err);
	pthread_mutex_unlock(&table->lock);
	if (r < 0)
		old = export;
	export_free(old);
	return r;
}

void export_table_remove(struct export_table *table, const char *name)
{
	struct export_entry *entry;
	struct export_object *old = NULL;

	pthread_mutex_lock(&table->lock);
	entry = entry_find(table, name, strlen(name));
	if (entry) {
		entry_set_over(table, entry, 0);
		old = entry_change(table, entry, NULL);
	}
	pthread_mutex_unlock(&table->lock);
	export_free(old);
}

int export_table_end(struct export_table *table, const char *name,
		     uint64_t epoch, struct error *err)
{
	struct export_entry *entry;
	struct export_object *old = NULL;
	int r = name_ok(name, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&table->lock);
	entry = entry_make(table, name);
	if (entry) {
		entry_set_over(table, entry, epoch);
		old = entry_change(table, entry, NULL);
		forget_over(table);
	}
	pthread_mutex_unlock(&table->lock);
	export_free(old);
	return entry ? 0 : error_set(err, ENOMEM, "no memory for an export");
}

unsigned export_table_users(struct export_table *table, const char *name)
{
	struct export_entry *entry;
	unsigned n = 0;

	pthread_mutex_lock(&table->lock);
	entry = entry_find(table, name, strlen(name));
	for (struct export_user *user = entry ? entry->users : NULL; user;
	     user = user->next)
		n++;
	pthread_mutex_unlock(&table->lock);
	return n;
}

static void connection_fill(const struct export_user *user,
			    struct target_connection *ret)
{
	*ret = (struct target_connection){.since_ms = user->since_ms};
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
	entry = entry_find(table, name, strlen(name));
	r = entry && entry->current ? entry_stats(entry, ret, ret_list, ret_n)
				    : -ENOENT;
	pthread_mutex_unlock(&table->lock);
	return r;
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
				 "what is behind '@' is not an epoch");
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

/* What nobody gets: for ever, or only as long as we don't know of it. */
static int not_there(const struct export_entry *entry, const char *at,
		     struct error *err)
{
	uint64_t epoch = 0;

	if (entry && at && epoch_parse(at + 1, &epoch) && epoch <= entry->over)
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
				 "the export is for those who say by TLS who "
				 "they are");
	if (!initiators_admit(&entry->current->initiators, peer))
		return error_set(err, EACCES, "not allowed from %s",
				 peer_address_format(peer, text, sizeof(text)));
	r = epoch_check(entry->current, at, err);
	if (r < 0)
		return r;
	if (entry->expelled > 0)
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
	entry = entry_find(table, name, length);
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
	entry = length <= EXPORT_NAME_MAX ? entry_find(table, name, length)
					  : NULL;
	r = entry_check(entry, at, &user->peer, err);
	if (r == 0) {
		user->entry = entry;
		user->export = entry->current;
		user->export->refs++;
		user->expelled = false;
		user->since_ms = clock_ms();
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
	bool expelled;

	pthread_mutex_lock(&table->lock);
	*user->link = user->next;
	if (user->next)
		user->next->link = user->link;
	if (user->stats)
		export_stats_add(&user->entry->past, user->stats);
	expelled = user->expelled;
	if (expelled && --user->entry->expelled == 0)
		pthread_cond_broadcast(&table->left);
	unused = export_unref(user->export);
	if (unused && expelled) { /* released before they who wait go on */
		unused->next_dead = user->entry->dead;
		user->entry->dead = unused;
		unused = NULL;
	}
	entry_put(table, user->entry);
	user->export = NULL;
	user->entry = NULL;
	pthread_mutex_unlock(&table->lock);
	export_free(unused);
	return expelled;
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
