/* SPDX-License-Identifier: Apache-2.0 */
#include "target/conn/conn_export.h"

#include "base/cleanup.h"

static void revoke_run(struct loop_message *message)
{
	struct conn_revoke *revoke = container_of(message, struct conn_revoke,
						  message);

	revoke->due = revoke->ran = true;
	conn_kill(revoke->conn);
}

void conn_revoke_init(struct conn_revoke *revoke, struct conn *conn)
{
	revoke->conn = conn;
	revoke->message.run = revoke_run;
}

void conn_revoke_post(struct conn_revoke *revoke)
{
	loop_post(revoke->conn->loop, &revoke->message);
}

/* export_user.revoke */
static void export_revoke(struct export_user *user)
{
	struct conn_export *use = container_of(user, struct conn_export, user);

	conn_revoke_post(&use->revoke);
}

void conn_export_init(struct conn_export *use, struct conn *conn)
{
	conn_revoke_init(&use->revoke, conn);
	use->user.revoke = export_revoke;
	use->user.stats = &use->stats;
}

int conn_export_enter(struct conn_export *use, const char *name,
		      struct error *err)
{
	struct conn *conn = use->revoke.conn;
	int r;

	use->user.peer = conn->peer;
	r = export_table_enter(conn->service->exports, name, &use->user, err);
	use->entered = r == 0;
	return r;
}

int conn_export_open(struct conn_export *use, struct error *err)
{
	return export_open(use->user.export, use->revoke.conn->loop, &use->dev,
			   err);
}

void conn_export_leave(struct conn_export *use)
{
	blockdev_close(use->dev);
	use->dev = NULL;
	if (use->entered &&
	    export_table_leave(use->revoke.conn->service->exports, &use->user))
		use->revoke.due = true;
	use->entered = false;
}

bool conn_export_grow(struct conn_export *use, const char *name, uint64_t size)
{
	if (!use->dev || !export_is(use->user.export, name))
		return false;
	blockdev_grown(use->dev, size);
	return true;
}
