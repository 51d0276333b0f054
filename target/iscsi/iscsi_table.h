/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The iSCSI targets that initiators may log in to, and the sessions. All loops
 * share the table, under a lock that is taken at login and logout, never for a
 * command.
 *
 *	target  a name to log in to, of one epoch, with the units of its LUNs
 *	row     an export as a LUN of a target
 *	login   a session
 *
 * Whether a peer may use an export, and that nothing older reaches it, is the
 * affair of export_table.h. A session uses those exports of its target that
 * admit it, and sees no others.
 */
#ifndef TARGET_ISCSI_TABLE_H
#define TARGET_ISCSI_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "target/export/export_table.h"
#include "target/iscsi/iscsi_chap.h"
#include "target/iscsi/iscsi_proto.h"
#include "target/scsi/scsi.h"
#include "target/target.h"

struct iscsi_target;
struct iscsi_row;
struct iscsi_table;

struct iscsi_table *iscsi_table_new(struct export_table *exports);

/* No login and no reference to a target is left. NULL is fine. */
void iscsi_table_free(struct iscsi_table *table);

/* An export that is to be a LUN; its owner's only for the calls. */
struct iscsi_ready {
	struct iscsi_row *row;
	struct iscsi_target *target;
	struct iscsi_ready *next;
};

/*
 * Prepare an export's place, while nothing has changed yet. An export takes its
 * place in three steps: prepare; vacate, before the export table has @spec;
 * commit, when it has. Or prepare and cancel. The calls for one name come one
 * after the other.
 *
 * @spec  has a @spec->scsi
 *
 * -EINVAL: @spec can't be a LUN; -EEXIST: the LUN is taken; -ENOMEM, and what
 * scsi_unit_new() returns.
 */
int iscsi_table_prepare(struct iscsi_table *table,
			const struct target_export *spec,
			struct iscsi_ready *ret, struct error *err);

/*
 * Let nobody in by the export's old name, when @spec has another name, another
 * kind of unit, or no unit.
 */
void iscsi_table_vacate(struct iscsi_table *table,
			const struct target_export *spec);

/*
 * Make the export what @spec says, from here on. Fails only where the file of
 * its reservations can't be read a second time: then the export is no LUN.
 */
int iscsi_table_commit(struct iscsi_table *table, struct iscsi_ready *ready,
		       const struct target_export *spec, struct error *err);

/* Drop a prepared export. */
void iscsi_table_cancel(struct iscsi_table *table, struct iscsi_ready *ready);

/* The export @name (without epoch) is no LUN any more. */
void iscsi_table_remove(struct iscsi_table *table, const char *name);

/* See target_export_low_space(). */
void iscsi_table_low_space(struct iscsi_table *table, const char *name);

/* Grow the unit of the export, whose devices reach up to @size already. */
void iscsi_table_grow(struct iscsi_table *table, const char *name,
		      uint64_t size);

/*
 * Set the secrets that discovery sessions have to prove, before the first of
 * these. -EINVAL.
 */
int iscsi_table_set_discovery(struct iscsi_table *table,
			      const struct chap_secrets *secrets,
			      struct error *err);
const struct chap_secrets *iscsi_table_discovery(
	const struct iscsi_table *table);

/* ---- targets ---- */

/*
 * The target that a peer asks for by @name: a reference of the caller's own.
 * -ENOENT; -ESTALE: there is one, but of another epoch; -EACCES: none of its
 * exports admits this peer.
 */
int iscsi_target_find(struct iscsi_table *table, const char *name,
		      const struct peer_address *peer,
		      struct iscsi_target **ret);
void iscsi_target_unref(struct iscsi_target *target); /* NULL is fine */

const char *iscsi_target_name(const struct iscsi_target *target);

/* Return the secrets that an initiator has to prove now. */
void iscsi_target_secrets(struct iscsi_target *target,
			  struct chap_secrets *ret);
struct scsi_target *iscsi_target_scsi(const struct iscsi_target *target);

/* Which LUNs the target has. */
void iscsi_target_luns(struct iscsi_target *target, bool ret[static SCSI_LUNS]);

/* The full name of the export that is LUN @lun of the target; -ENOENT. */
int iscsi_target_export(struct iscsi_target *target, unsigned lun,
			char ret[static EXPORT_FULL_NAME_MAX]);

/* Call @each for each target that the peer may log in to. */
int iscsi_target_list(struct iscsi_table *table,
		      const struct peer_address *peer,
		      int (*each)(void *context, const char *name),
		      void *context);

/* ---- logins ---- */

/* Embedded in a connection. */
struct iscsi_login_user {
	/*
	 * The session may not go on: leave soon. Called once at most, from
	 * any thread, with the table's lock held: post a message, no more.
	 */
	void (*revoke)(struct iscsi_login_user *user);
	const char *initiator; /* borrowed */
	uint8_t isid[ISCSI_ISID_SIZE];
	struct iscsi_target *target; /* borrowed */

	/* The table's. */
	uint16_t tsih; /* not 0 */
	struct iscsi_login_user *next, **link;
	bool revoked;
};

/*
 * A session begins. -EAGAIN: the same initiator port has one there already,
 * which is told to leave (session reinstatement, RFC 7143 6.3.5): try again
 * soon. -EMFILE: there are too many.
 */
int iscsi_login_enter(struct iscsi_table *table, struct iscsi_login_user *user);

/* The same initiator has a session with that target by another port. */
bool iscsi_login_has_other(struct iscsi_table *table,
			   const struct iscsi_login_user *user);

/* Returns whether it has been revoked: revoke() has returned. */
bool iscsi_login_leave(struct iscsi_table *table,
		       struct iscsi_login_user *user);

bool iscsi_login_exists(struct iscsi_table *table, uint16_t tsih);

/* All sessions with the target leave. */
void iscsi_target_revoke(struct iscsi_target *target);

#endif
