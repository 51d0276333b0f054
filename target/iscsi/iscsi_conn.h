/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iSCSI connections on a loop: sockets, devices, SCSI and the loop around
 * iscsi_session.h. As with NBD (nbd_conn.h) one receive takes many PDUs and
 * one send carries whatever answers are ready; while commands are small one
 * operation receives them again and again (a stream, base/loop/loop.h), and
 * data of a large write is received where the device takes it from; large
 * commands to a slow device go in parts (iscsi_parts.c).
 *
 * What keeps it bounded: a session has ISCSI_WINDOW commands under way and
 * ISCSI_CONN_BUFFER_MAX bytes of buffers. The first few come from a reserve
 * (buffer_share.h). A command that lacks one waits in a line of the service;
 * data of a write is asked for when it has all that it needs. It gets them at
 * once or none of them, so that no two hold what the other waits for. Who waits
 * for too long is told BUSY, and a peer that sits on buffers meanwhile is
 * dropped. Data that comes unasked for and has no room can't wait: what is
 * behind it in the stream may be for commands that hold buffers. It goes by,
 * and its command is told TASK SET FULL.
 */
#ifndef TARGET_ISCSI_CONN_H
#define TARGET_ISCSI_CONN_H

#include <stdbool.h>

#include "base/log.h"
#include "base/loop/loop.h"
#include "target/export/initiators.h"
#include "target/iscsi/iscsi_table.h"
#include "target/net/buffer_share.h"

/* Bytes of buffers one connection may hold, or one command if larger. */
#define ISCSI_CONN_BUFFER_MAX (UINT32_C(32) << 20)

#define ISCSI_LOGIN_TIMEOUT_MS 15000 /* ours */

/*
 * Connections of a loop that have not logged in; of more, the one that has
 * taken longest is dropped, so that who says nothing keeps nobody out. Ours.
 */
#define ISCSI_OPENING_MAX 128

#define ISCSI_STOP_TIMEOUT_MS  2000  /* target_free(), target.h */
#define ISCSI_DRAIN_TIMEOUT_MS 30000 /* for a peer that has said goodbye */
#define ISCSI_PING_MS          45000 /* of silence; as much again: it is gone */

/* While some wait for buffers. Ours. */
#define ISCSI_WAIT_CHECK_MS 50
#define ISCSI_WAIT_MAX_MS   8000 /* then it is told BUSY */
#define ISCSI_STUCK_MAX_MS  5000 /* of a peer that holds buffers */
/* Bytes in that time, of one that owes data. */
#define ISCSI_STUCK_DATA_MIN (UINT32_C(16) << 10)

struct iscsi_conn;
struct iscsi_io;

/* The connections of one loop; all on its thread. */
struct iscsi_service {
	struct loop *loop;
	struct export_table *exports;
	struct iscsi_table *table;
	unsigned ping_ms;        /* ISCSI_PING_MS; may be set after init */
	unsigned peer_timeout_s; /* socket.h; the same */
	/* @n connections have ended and are freed; 0: only a timer has. */
	void (*ended)(struct iscsi_service *service, unsigned n);

	struct iscsi_conn *conns; /* the newest first */
	unsigned opening;         /* of them: not logged in yet */
	bool stopping;
	struct iscsi_io *waiting_first, *waiting_last; /* for buffers */
	bool refused;       /* some had data without room for it... */
	int64_t refused_ms; /* ...the last one then */
	struct buffer_share buffers;
	struct loop_batch wake;
	struct loop_timer check; /* runs only while somebody waits */
	bool check_runs;
	struct log_limit log_limit;
};

/* @loop, @exports, @table: borrowed until every connection has ended. */
void iscsi_service_init(struct iscsi_service *service, struct loop *loop,
			struct export_table *exports, struct iscsi_table *table,
			void (*ended)(struct iscsi_service *service,
				      unsigned n));

/* As nbd_service_stop(); initiators are told, too. */
void iscsi_service_stop(struct iscsi_service *service);

/* As nbd_service_grow(); the unit is the table's affair. */
void iscsi_service_grow(struct iscsi_service *service, const char *name,
			uint64_t size);

/* As nbd_service_still(). */
bool iscsi_service_still(const struct iscsi_service *service);

/* As nbd_conn_start(). */
void iscsi_conn_start(struct iscsi_service *service, int fd,
		      const struct peer_address *peer);

#endif
