/* SPDX-License-Identifier: Apache-2.0 */
/* A session with its target: login, devices, and leaving again. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "target/iscsi/iscsi_conn_internal.h"

#define COMMIT_RETRY_MS 10 /* while an older session leaves */

/*
 * An initiator that comes back by another port may have hung up just now, on
 * another loop: what its session held (a reservation, a locked medium) is to
 * be gone when it looks.
 */
#define OTHERS_WAIT_MS 20

/* ---- revoking ---- */

/* iscsi_login_user.revoke */
static void login_revoke(struct iscsi_login_user *user)
{
	struct iscsi_conn *conn = container_of(user, struct iscsi_conn, user);

	conn_revoke_post(&conn->revoke);
}

void iscsi_conn_revoke_setup(struct iscsi_conn *conn)
{
	conn_revoke_init(&conn->revoke, &conn->base);
	conn->user.revoke = login_revoke;
}

bool iscsi_conn_is_called(const struct conn *base)
{
	const struct iscsi_conn *conn = (const struct iscsi_conn *)base;

	if (conn_revoke_is_coming(&conn->revoke))
		return true;
	for (struct iscsi_conn_lun *lun = conn->luns; lun; lun = lun->next)
		if (conn_revoke_is_coming(&lun->use.revoke))
			return true;
	return false;
}

/* ---- leaving ---- */

static void path_forget_device(struct scsi_path *path, void *context)
{
	(void)context;
	path->dev = NULL;
}

/* Devices close first; then the next user of the export may go on. */
void iscsi_conn_leave(struct conn *base)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	if (conn->nexus)
		scsi_nexus_each_path(conn->nexus, path_forget_device, NULL);
	scsi_nexus_free(take_ptr(conn->nexus));
	for (struct iscsi_conn_lun *lun = conn->luns; lun; lun = lun->next) {
		conn->by_lun[lun->lun] = NULL;
		conn_export_leave(&lun->use);
	}
	if (conn->entered &&
	    iscsi_login_leave(iscsi_service_of(conn)->table, &conn->user))
		conn->revoke.due = true;
	conn->entered = false;
}

/* ---- entering ---- */

static int lun_open(struct iscsi_conn_lun *lun)
{
	struct error err = {0};
	int r = conn_export_open(&lun->use, &err);

	if (r < 0)
		conn_complain(&lun->conn->base, "no device for",
			      error_text(&err));
	return r;
}

/*
 * -ESHUTDOWN: try again; -ENOMEM; any other: the peer does not see it. One
 * whose device can't be opened is there, and not ready.
 */
static int lun_enter(struct iscsi_conn *conn, unsigned number)
{
	char export[EXPORT_FULL_NAME_MAX];
	struct iscsi_conn_lun *lun;
	int r = iscsi_target_export(conn->target, number, export);

	if (r < 0)
		return r;
	lun = calloc(1, sizeof(*lun));
	if (!lun)
		return -ENOMEM;
	lun->conn = conn;
	lun->lun = number;
	conn_export_init(&lun->use, &conn->base);
	lun->use.user.scsi_target = iscsi_target_name(conn->target);
	lun->use.user.lun = number;
	iscsi_conn_features(conn, lun->use.user.features);
	r = conn_export_enter(&lun->use, export, NULL);
	if (r < 0) {
		free(lun);
		return r;
	}
	lun->next = conn->luns;
	conn->luns = lun;
	conn->by_lun[number] = lun;
	return 0;
}

/* Returns how many LUNs can be used; -ESHUTDOWN: try again. */
static int luns_enter(struct iscsi_conn *conn)
{
	bool has[SCSI_LUNS];
	int there = 0;

	iscsi_target_luns(conn->target, has);
	for (unsigned i = 0; i < SCSI_LUNS; i++) {
		int r = has[i] ? lun_enter(conn, i) : -ENOENT;

		if (r == -ESHUTDOWN || r == -ENOMEM)
			return r;
		if (r == 0 && lun_open(conn->by_lun[i]) == 0)
			there++;
	}
	return there;
}

/* Admit a LUN put into the target, or opened to the peer, since the login. */
bool iscsi_conn_admits_lun(unsigned lun, void *context)
{
	struct iscsi_conn *conn = context;

	if (conn->by_lun[lun])
		return true;
	if (conn->base.phase == CONN_CLOSING || lun_enter(conn, lun) < 0)
		return false;
	(void)lun_open(conn->by_lun[lun]); /* it is not ready, then */
	return true;
}

void iscsi_conn_free_luns(struct iscsi_conn *conn)
{
	while (conn->luns) {
		struct iscsi_conn_lun *lun = conn->luns;

		conn->luns = lun->next;
		free(lun);
	}
}

static void commit_retry_later(struct iscsi_conn *conn, unsigned delay_ms)
{
	conn->base.paused = true;
	conn_tick_start(&conn->base, delay_ms);
}

/* Leave the entered exports; false: one has been revoked meanwhile. */
static bool session_undo(struct iscsi_conn *conn)
{
	iscsi_conn_leave(&conn->base);
	if (iscsi_conn_is_called(&conn->base))
		return false;
	iscsi_conn_free_luns(conn);
	return true;
}

static void session_deny(struct iscsi_conn *conn,
			 enum iscsi_login_status status, const char *why)
{
	iscsi_conn_leave(&conn->base);
	conn->base.paused = false;
	iscsi_session_deny(&conn->session, status, why);
	conn_complain(&conn->base, "refused", why);
	conn_drain(&conn->base, CONN_STOP_TIMEOUT_MS);
}

static void session_begin(struct iscsi_conn *conn)
{
	conn->base.paused = false;
	conn_opened(&conn->base);
	iscsi_session_begin(&conn->session, conn->user.tsih);
	if (!conn->base.tick_runs)
		conn_tick_start(&conn->base, iscsi_service_of(conn)->ping_ms);
}

static const struct scsi_nexus_ops nexus_ops = {
	.open = iscsi_io_open,
	.admits = iscsi_conn_admits_lun,
};

static void session_enter(struct iscsi_conn *conn)
{
	const struct iscsi_login *login = &conn->session.login;
	int r = luns_enter(conn);

	if (r == -ESHUTDOWN) {
		if (session_undo(conn))
			commit_retry_later(conn, COMMIT_RETRY_MS);
		return; /* or it is killed by the message */
	}
	if (r == -ENOMEM) {
		session_deny(conn, ISCSI_LOGIN_NO_RESOURCES, "no memory");
		return;
	}
	if (r <= 0) {
		session_deny(conn, ISCSI_LOGIN_UNAVAILABLE,
			     "none of its units is available");
		return;
	}
	r = scsi_nexus_new(iscsi_target_scsi(conn->target), conn->base.loop,
			   login->initiator, login->isid, &conn->nexus);
	if (r < 0) {
		session_deny(conn, ISCSI_LOGIN_NO_RESOURCES, "no memory");
		return;
	}
	scsi_nexus_set_ops(conn->nexus, &nexus_ops, conn);
	session_begin(conn);
}

void iscsi_conn_commit(struct iscsi_conn *conn)
{
	const struct iscsi_login *login = &conn->session.login;
	int r;

	conn->user.initiator = login->initiator;
	conn->user.target = conn->target; /* NULL: a discovery session */
	for (unsigned i = 0; i < ISCSI_ISID_SIZE; i++)
		conn->user.isid[i] = login->isid[i];
	if (!conn->waited &&
	    iscsi_login_has_other(iscsi_service_of(conn)->table, &conn->user)) {
		conn->waited = true;
		commit_retry_later(conn, OTHERS_WAIT_MS);
		return;
	}
	r = iscsi_login_enter(iscsi_service_of(conn)->table, &conn->user);
	if (r == -EAGAIN) {
		commit_retry_later(conn, COMMIT_RETRY_MS);
		return;
	}
	if (r < 0) {
		session_deny(conn, ISCSI_LOGIN_NO_RESOURCES,
			     "too many sessions");
		return;
	}
	conn->entered = true;
	if (login->discovery)
		session_begin(conn);
	else
		session_enter(conn);
}

/* ---- questions of the session ---- */

static enum iscsi_login_status session_find(void *context,
					    const struct iscsi_login *login,
					    const struct chap_secrets **ret)
{
	struct iscsi_conn *conn = context;
	int r;

	conn->base.peer.initiator = login->initiator;
	*ret = iscsi_table_discovery(iscsi_service_of(conn)->table);
	if (login->discovery)
		return ISCSI_LOGIN_OK;
	r = iscsi_target_find(iscsi_service_of(conn)->table, login->target,
			      &conn->base.peer, &conn->target);
	switch (r) {
	case 0:
		/* The target's secrets may change before the login is over. */
		iscsi_target_secrets(conn->target, &conn->secrets);
		*ret = &conn->secrets;
		return ISCSI_LOGIN_OK;
	case -EACCES: return ISCSI_LOGIN_NOT_AUTHORIZED;
	case -ESTALE: return ISCSI_LOGIN_REMOVED;
	default: return ISCSI_LOGIN_NOT_FOUND;
	}
}

static bool session_exists(void *context, const struct iscsi_login *login)
{
	struct iscsi_conn *conn = context;

	return iscsi_login_exists(iscsi_service_of(conn)->table, login->tsih);
}

static int target_list_each(void *context, const char *name)
{
	return iscsi_session_list_add(context, name);
}

static int target_list(void *context, struct iscsi_session *session)
{
	struct iscsi_conn *conn = context;

	return iscsi_target_list(iscsi_service_of(conn)->table,
				 &conn->base.peer, target_list_each, session);
}

static void task_done(void *context, struct iscsi_task *task)
{
	(void)context;
	iscsi_io_sent(iscsi_io_of(task));
}

const struct iscsi_session_ops iscsi_conn_session_ops = {
	.login = {.find = session_find, .has_session = session_exists},
	.list = target_list,
	.task_done = task_done,
};
