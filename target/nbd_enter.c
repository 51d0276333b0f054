/* SPDX-License-Identifier: Apache-2.0 */
/* A connection and the export that it asks for. */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "target/nbd_conn_internal.h"

void nbd_conn_leave(struct nbd_conn *conn)
{
	blockdev_close(conn->dev);
	conn->dev = NULL;
	if (conn->entered &&
	    export_table_leave(conn->service->table, &conn->user))
		conn->expelled = true;
	conn->entered = false;
}

static void expel_run(struct loop_message *message)
{
	struct nbd_conn *conn = container_of(message, struct nbd_conn,
					     expel_message);

	conn->expel_ran = true;
	conn->expelled = true;
	nbd_conn_kill(conn);
}

/* On another thread. */
static void expel(struct export_user *user)
{
	struct nbd_conn *conn = container_of(user, struct nbd_conn, user);

	loop_post(conn->loop, &conn->expel_message);
}

void nbd_conn_expel_setup(struct nbd_conn *conn)
{
	conn->user.expel = expel;
	conn->expel_message.run = expel_run;
}

static uint16_t device_flags(const struct blockdev *dev, bool read_only)
{
	uint16_t flags = NBD_TRANSMIT_SEND_FLUSH | NBD_TRANSMIT_CAN_MULTI_CONN;

	if (dev->ops->cache)
		flags |= NBD_TRANSMIT_SEND_CACHE;
	if (read_only)
		return flags | NBD_TRANSMIT_READ_ONLY;
	flags |= NBD_TRANSMIT_SEND_FUA | NBD_TRANSMIT_SEND_WRITE_ZEROES;
	if (dev->ops->discard)
		flags |= NBD_TRANSMIT_SEND_TRIM;
	if (dev->ops->write_zeroes)
		flags |= NBD_TRANSMIT_SEND_FAST_ZERO;
	return flags;
}

static void export_describe(const struct nbd_conn *conn, struct nbd_export *ret)
{
	const struct export_object *export = conn->user.export;
	const struct blockdev *dev = conn->dev;

	ret->size = dev->size;
	ret->block_size = dev->block_size;
	ret->preferred_size = dev->preferred_size;
	ret->flags = device_flags(dev,
				  export_read_only(export) || dev->read_only);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", export_name(export));
	(void)snprintf(ret->description, sizeof(ret->description), "%s",
		       export_description(export));
}

/* For those who watch: what the handshake has come to. */
static void features_tell(struct nbd_conn *conn)
{
	const struct nbd_session *s = &conn->session;
	char tls[64] = "";

	if (conn->tls)
		(void)tls_session_describe(conn->tls, tls, sizeof(tls));
	(void)snprintf(conn->user.features, sizeof(conn->user.features),
		       "%s%s%s%s",
		       s->extended     ? "extended"
		       : s->structured ? "structured"
				       : "simple",
		       s->allocation ? " base:allocation" : "",
		       conn->tls ? " " : "", tls);
}

/* nbd_session_ops.open */
static int session_open(void *context, const char *name, bool keep,
			struct nbd_export *ret, struct error *err)
{
	struct nbd_conn *conn = context;
	char peer[PEER_ADDRESS_TEXT_MAX];
	unsigned dropped;
	int r;

	if (conn->expelled)
		return error_set(err, ESHUTDOWN, "the connection is closing");
	features_tell(conn);
	r = export_table_enter(conn->service->table, name, &conn->user, err);
	if (r < 0)
		return r;
	conn->entered = true;
	r = export_open(conn->user.export, conn->loop, &conn->dev, err);
	if (r < 0) {
		if (log_limit_allow(&conn->service->log_limit, &dropped))
			log_write(LOG_LEVEL_WARNING,
				  "nbd: export '%s' refused to %s: %s",
				  export_name(conn->user.export),
				  peer_address_format(&conn->user.peer, peer,
						      sizeof(peer)),
				  error_text(err));
		nbd_conn_leave(conn);
		return error_set(err, EIO, "the export can't be opened");
	}
	export_describe(conn, ret);
	if (!keep)
		nbd_conn_leave(conn);
	return 0;
}

static int list_each(void *context, const char *name)
{
	return nbd_session_list_add(context, name);
}

/* nbd_session_ops.list */
static int session_list(void *context, struct nbd_session *session)
{
	struct nbd_conn *conn = context;

	return export_table_list(conn->service->table, &conn->user.peer,
				 list_each, session);
}

const struct nbd_session_ops nbd_conn_session_ops = {
	.open = session_open,
	.list = session_list,
};
