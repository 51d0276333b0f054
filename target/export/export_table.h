/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exports of a target, and their users. The table is shared by all loops of
 * the target, and is the one place of target/ with a lock. The lock is taken
 * when a connection opens or closes an export, never for a request.
 */
#ifndef TARGET_EXPORT_TABLE_H
#define TARGET_EXPORT_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "target/export/initiators.h"
#include "target/target.h"

/* Bytes of an export's name: an epoch (20 digits) and '@' go behind it. */
#define EXPORT_NAME_MAX 1024

/* NAME or NAME@EPOCH, with the NUL. */
#define EXPORT_FULL_NAME_MAX (EXPORT_NAME_MAX + 22)

#define EXPORT_DESCRIPTION_MAX 255 /* bytes; ours */

/* Names remembered that were withdrawn; of more, the oldest are forgotten. */
#define EXPORTS_WITHDRAWN_MAX 4096

struct export_table;

/* An export as it was set; immutable, and alive while anybody uses it. */
struct export_object;

const char *export_name(
	const struct export_object *export); /* with the epoch */
/* The export was set as @name, whatever its epoch. */
bool export_is(const struct export_object *export, const char *name);
const char *export_description(
	const struct export_object *export); /* "": none */
bool export_read_only(const struct export_object *export);

/* Call the owner's open(), on the loop that will use the device. */
int export_open(struct export_object *export, struct loop *loop,
		struct blockdev **ret, struct error *err);

/* A connection's use of an export; embedded in the connection. */
struct export_user {
	struct peer_address peer; /* set by the user before entering */
	/*
	 * The user may not go on: leave soon. Called once at most, from any
	 * thread, with the table's lock held: post a message, do nothing else.
	 */
	void (*revoke)(struct export_user *user);
	/*
	 * Look at the received requests, then call export_table_answer().
	 * Called with the table's lock held, from any thread: post a message,
	 * do nothing else. Not called again before the answer. NULL: others do
	 * not wait for this user.
	 */
	void (*ask)(struct export_user *user);
	/*
	 * export_table_round() when the oldest change of data that is at the
	 * device was begun; 0: there is none. Kept by the user.
	 */
	_Atomic uint64_t oldest;
	/* Set by the user before entering; NULL: it does not count. */
	const struct export_stats *stats;
	/*
	 * Set before entering, borrowed: the iSCSI target and LUN that it
	 * reaches the export by. The user is revoked when the export becomes
	 * another LUN. NULL: not by iSCSI.
	 */
	const char *scsi_target;
	unsigned lun;
	char features[TARGET_FEATURES_MAX];

	/* The table's, under its lock. */
	struct export_object *export;
	struct export_entry *entry;
	struct export_user *next, **link;
	int64_t since_ms;
	uint64_t id;
	bool revoked;
	uint64_t round;     /* it waits for all that was before; 0: not yet */
	int64_t waits_ms;   /* since */
	uint64_t caught_up; /* with what was received before this round */
	uint64_t caught_at; /* changes begun before this may be among those */
	bool asked;         /* and has not answered */
};

struct export_table *export_table_new(void);

/*
 * Free the table and release all exports. Nobody uses an export any more. NULL
 * is fine.
 */
void export_table_free(struct export_table *table);

/* An export that is to be; its owner's only for the two calls. */
struct export_ready {
	struct export_object *export;
	struct export_entry *entry;
};

/*
 * Prepare target_export_set(), while nothing has changed yet. All steps that
 * can fail, for want of memory or by @spec, are here. On success one of the two
 * functions that follow has to be called. On failure @spec's context is
 * released.
 */
int export_table_prepare(struct export_table *table,
			 const struct target_export *spec,
			 struct export_ready *ret, struct error *err);

/*
 * Make it the current export; returns after every user that may not go on
 * has left. -ESTALE: one of a higher epoch came between; nothing has changed.
 */
int export_table_commit(struct export_table *table, struct export_ready *ready,
			struct error *err);

/* Nothing comes of it; its context is released. */
void export_table_cancel(struct export_table *table,
			 struct export_ready *ready);

/*
 * See target_export_remove() and target_export_end(): they return after every
 * user has left.
 */
void export_table_remove(struct export_table *table, const char *name);
int export_table_end(struct export_table *table, const char *name,
		     uint64_t epoch, struct error *err);

/* Users of that name, the revoked ones too. */
unsigned export_table_users(struct export_table *table, const char *name);

/* See target_export_stats(). */
int export_table_stats(struct export_table *table, const char *name,
		       struct export_stats *ret,
		       struct target_connection **ret_list, size_t *ret_n);

/*
 * Use the export that a peer asks for.
 *
 * @name  as the peer says it: NAME or NAME@EPOCH
 *
 * -ENOENT: no such export now. -EACCES: the epoch is not the current one, or is
 * over; the peer is not admitted; or the export has become another LUN.
 * -ENOKEY: the peer may be admitted by TLS. -ESHUTDOWN: an older user has to
 * leave first, try again. The peer is told @err.
 */
int export_table_enter(struct export_table *table, const char *name,
		       struct export_user *user, struct error *err);

/*
 * End the use: nothing of the user's reaches the device any more. Returns
 * whether the user has been revoked: then revoke() has returned and its message
 * is on the way.
 */
bool export_table_leave(struct export_table *table, struct export_user *user);

/*
 * Make a new user wait for the requests that all other users had received when
 * it came. The reason: a peer that has lost its connection connects again,
 * sends the unanswered requests again, and goes on. A request that the peer
 * sent before must not come to the device after that.
 *
 * A request at the device is waited for until it is done. Any other received
 * request is waited for until it has reached the device, or never will as the
 * peer has hung up. A user that for a second makes no progress with received
 * requests is told to hang up.
 *
 * -EAGAIN: ask again in a while. Between the two @user has entered.
 */
int export_table_settle(struct export_table *table, struct export_user *user);

/* Return the round of all that begins now. Any thread. */
uint64_t export_table_round(const struct export_table *table);

/*
 * @user was asked.
 *
 * @round  export_table_round() before it looked, when all that it had received
 *         was done or is at the device; 0: ask again
 *
 * False: others have waited for too long; hang up where the peer is why.
 */
bool export_table_answer(struct export_table *table, struct export_user *user,
			 uint64_t round);
/* The message of ask() is on the way. */
bool export_table_is_asked(struct export_table *table,
			   const struct export_user *user);

/* Would @peer be let in by export_table_enter(), but for users that have to
 * leave? */
bool export_table_admits(struct export_table *table, const char *name,
			 const struct peer_address *peer);

/*
 * Call @each with the full name of each export that @peer may use, until it
 * returns a negative errno, which is returned. The lock is held meanwhile.
 */
int export_table_list(struct export_table *table,
		      const struct peer_address *peer,
		      int (*each)(void *context, const char *name),
		      void *context);

#endif
