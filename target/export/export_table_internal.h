/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of export_table.h. Nobody else includes it. */
#ifndef TARGET_EXPORT_TABLE_INTERNAL_H
#define TARGET_EXPORT_TABLE_INTERNAL_H

#include <pthread.h>

#include "target/export/export_table.h"
#include "target/export/iscsi_name.h"

/* Properties of a disk that iSCSI initiators never ask for again. */
struct unit {
	uint8_t uuid[16];
	uint32_t block_size, physical_size;
	bool removable, thin;
};

struct export_object {
	struct export_object *next_dead;
	unsigned refs; /* under the table's lock */
	char name[EXPORT_FULL_NAME_MAX];
	char description[EXPORT_DESCRIPTION_MAX + 1];
	uint64_t epoch;
	bool read_only;
	char scsi_target[ISCSI_NAME_MAX + 1]; /* "": not by iSCSI */
	unsigned lun;
	struct unit unit;
	struct initiators initiators;
	int (*open)(void *context, struct loop *loop, bool read_only,
		    struct blockdev **ret, struct error *err);
	void (*release)(void *context);
	void *context;
};

/*
 * A name, as long as there is an export or a user of it, or a waiter, or it is
 * remembered that it was withdrawn.
 */
struct export_entry {
	struct export_entry *next;
	struct export_object *current; /* NULL: removed */
	uint64_t withdrawn_epoch; /* without current: and all below; 0: none */
	struct export_user *users;
	struct export_object *dead; /* last used by a revoked user */
	unsigned revoked;           /* of the users */
	unsigned waiters;           /* for revoked to become 0 */
	struct export_stats past;   /* of users that have left */
	char name[];                /* without the epoch */
};

struct export_table {
	pthread_mutex_t lock; /* guards all of it; no other is taken inside */
	pthread_cond_t left;  /* an revoked user has */
	struct export_entry *entries; /* the last one named first */
	unsigned n_withdrawn;         /* entries with a withdrawn epoch */
	uint64_t last_id;             /* of a user */
	_Atomic uint64_t round;       /* export_table_settle(); from 1 */
};

/* -EINVAL: no export may be called that. */
int export_name_check(const char *name, struct error *err);

/*
 * Make an export with one reference, the caller's. -EINVAL, -ENOMEM: the
 * context in @spec is still the caller's. Returned owned.
 */
int export_object_new(const struct target_export *spec,
		      struct export_object **ret, struct error *err);

/* Drop one reference, under the lock. A returned export is to be freed. */
struct export_object *export_object_unref(struct export_object *export);

/*
 * Free a list of exports (next_dead). Not under the lock, because release() is
 * the owner's. NULL is fine.
 */
void export_object_free(struct export_object *export);

/* The lock is held for the rest. */

/* @length: bytes of @name that count. NULL: none. */
struct export_entry *export_entry_find(struct export_table *table,
				       const char *name, size_t length);

/* Forget it when nobody needs it. */
void export_entry_put(struct export_table *table, struct export_entry *entry);

/* The export is still the LUN by which @user reaches it. */
bool export_same_lun(const struct export_object *export,
		     const struct export_user *user);

#endif
