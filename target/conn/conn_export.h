/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection's use of one export: entering, its device, its counts, and
 * leaving again when the export's owner revokes it.
 */
#ifndef TARGET_CONN_EXPORT_H
#define TARGET_CONN_EXPORT_H

#include "target/conn/conn.h"
#include "target/export/export_stats.h"

/* A message of another thread that ends the connection; sent once at most. */
struct conn_revoke {
	struct loop_message message;
	struct conn *conn;
	bool due; /* it is on its way, or has come */
	bool ran; /* it has come */
};

void conn_revoke_init(struct conn_revoke *revoke, struct conn *conn);

/* Any thread. */
void conn_revoke_post(struct conn_revoke *revoke);

/* The message is on its way: the connection may not be freed. */
static inline bool conn_revoke_is_coming(const struct conn_revoke *revoke)
{
	return revoke->due && !revoke->ran;
}

struct conn_export {
	struct export_user user; /* peer and features are set by the owner */
	struct export_stats stats;
	struct conn_revoke revoke;
	struct blockdev *dev; /* NULL: not open */
	bool entered;
};

/* @conn: borrowed until conn_revoke_is_coming() is false */
void conn_export_init(struct conn_export *use, struct conn *conn);

/* See export_table_enter(). */
int conn_export_enter(struct conn_export *use, const char *name,
		      struct error *err);

/* Open the device of an export that was entered; what its owner returns. */
int conn_export_open(struct conn_export *use, struct error *err);

/* Close the device, then leave. Nothing is at the device. Repeated: nothing. */
void conn_export_leave(struct conn_export *use);

/* The device has @size bytes by now, if it is open and export @name's. */
bool conn_export_grow(struct conn_export *use, const char *name, uint64_t size);

#endif
