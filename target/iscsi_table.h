/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iSCSI initiators may log in to, and who has: shared by all loops of a
 * target, with a lock, which is taken at login and logout, never for a
 * command.
 *
 *	place   a name to log in to, of one epoch, with the units of its LUNs
 *	row     an export as a LUN of a place
 *	login   a session
 *
 * Who may use an export, and that nothing older reaches it, is the affair of
 * export_table.h: a session uses all exports of its place.
 */
#ifndef TARGET_ISCSI_TABLE_H
#define TARGET_ISCSI_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "target/export_table.h"
#include "target/iscsi_chap.h"
#include "target/iscsi_proto.h"
#include "target/scsi.h"
#include "target/target.h"

struct iscsi_table;

struct iscsi_table *iscsi_table_new(struct export_table *exports);

/* No login and no reference to a place is left. NULL is fine. */
void iscsi_table_free(struct iscsi_table *table);

/*
 * The export @spec, which has a @spec->scsi and is in the export table, is
 * what that says, from here on. -EINVAL, -EEXIST (the LUN is taken), -ENOMEM,
 * and what scsi_unit_new() returns.
 */
int iscsi_table_set(struct iscsi_table *table, const struct target_export *spec,
		    struct error *err);

/* The export @name (without epoch) is no LUN any more. */
void iscsi_table_remove(struct iscsi_table *table, const char *name);

/* Its devices reach up to @size already. */
void iscsi_table_grow(struct iscsi_table *table, const char *name,
		      uint64_t size);

/* ---- places ---- */

struct iscsi_place;

/*
 * The place that a peer asks for by @name: a reference of the caller's own.
 * -ENOENT; -ESTALE: there is one, but of another epoch; -EACCES: not for this
 * initiator, or not from this address.
 */
int iscsi_place_find(struct iscsi_table *table, const char *name,
		     const char *initiator, const struct peer_address *peer,
		     struct iscsi_place **ret);
void iscsi_place_unref(struct iscsi_place *place); /* NULL is fine */

/* What an initiator has to prove; as long as the reference is held. */
const struct iscsi_chap_secrets *iscsi_place_secrets(
	const struct iscsi_place *place);
struct scsi_target *iscsi_place_target(const struct iscsi_place *place);

/* One LUN of a place. */
struct iscsi_place_lun {
	unsigned lun;
	char export[EXPORT_FULL_NAME_MAX];
};

/* Returns how many; @ret: that many, owned. -ENOMEM. */
int iscsi_place_luns(struct iscsi_place *place, struct iscsi_place_lun **ret);

/* Call @each for each place that the peer may log in to. */
int iscsi_place_list(struct iscsi_table *table, const char *initiator,
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
	void (*expel)(struct iscsi_login_user *user);
	const char *initiator; /* borrowed */
	uint8_t isid[ISCSI_ISID_SIZE];
	struct iscsi_place *place; /* borrowed */

	/* The table's. */
	uint16_t tsih; /* not 0 */
	struct iscsi_login_user *next, **link;
	bool expelled;
};

/*
 * A session begins. -EAGAIN: the same initiator port has one there already,
 * which is told to leave (session reinstatement, RFC 7143 6.3.5): try again
 * soon. -EMFILE: there are too many.
 */
int iscsi_login_enter(struct iscsi_table *table, struct iscsi_login_user *user);

/* The same initiator has a session with that place by another port. */
bool iscsi_login_has_other(struct iscsi_table *table,
			   const struct iscsi_login_user *user);

/* Returns whether it has been expelled: expel() has returned. */
bool iscsi_login_leave(struct iscsi_table *table,
		       struct iscsi_login_user *user);

bool iscsi_login_exists(struct iscsi_table *table, uint16_t tsih);

/* All sessions with the place leave. */
void iscsi_place_expel(struct iscsi_place *place);

#endif
