/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iSCSI connections: conn.h around iscsi_session.h, and SCSI behind it. Large
 * commands to a slow device go in parts (iscsi_split_io.c).
 *
 * A session has ISCSI_WINDOW commands under way. A command that lacks buffers
 * waits in the service's line; data of a write is asked for when it has all
 * that it needs. A command gets all its buffers at once or none of them, so
 * that no two commands wait for each other's. A command that waits for too long
 * is told BUSY. Data that comes unasked for and has no room can't wait: data
 * behind it in the stream may be for commands that hold buffers. The data goes
 * by, and its command is told TASK SET FULL.
 */
#ifndef TARGET_ISCSI_CONN_H
#define TARGET_ISCSI_CONN_H

#include "target/conn/conn.h"
#include "target/iscsi/iscsi_table.h"

#define ISCSI_LOGIN_TIMEOUT_MS 15000 /* ours */
#define ISCSI_PING_MS          45000 /* of silence; as much again: it is gone */

/* The connections of one loop. */
struct iscsi_service {
	struct conn_service base;
	struct iscsi_table *table;
	unsigned ping_ms; /* ISCSI_PING_MS; may be set after init */
};

/* See conn_service_init(); @table is borrowed, too. */
void iscsi_service_init(struct iscsi_service *service, struct loop *loop,
			struct export_table *exports,
			struct iscsi_table *table);

#endif
