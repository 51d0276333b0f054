/* SPDX-License-Identifier: Apache-2.0 */
/* A connection and the export that it asks for. */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "target/nbd/nbd_conn_internal.h"

static uint16_t export_flags(const struct blockdev *dev, bool read_only)
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
	const struct export_object *export = conn->export.user.export;
	const struct blockdev *dev = conn->export.dev;

	ret->size = dev->size;
	ret->block_size = dev->block_size;
	ret->preferred_size = dev->preferred_size;
	ret->flags = export_flags(dev,
				  export_read_only(export) || dev->read_only);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", export_name(export));
	(void)snprintf(ret->description, sizeof(ret->description), "%s",
		       export_description(export));
}

/* Describe the outcome of the handshake, for statistics. */
static void features_tell(struct nbd_conn *conn)
{
	const struct nbd_session *s = &conn->session;
	char tls[64] = "";

	if (conn->base.tls)
		(void)tls_session_describe(conn->base.tls, tls, sizeof(tls));
	(void)snprintf(conn->export.user.features,
		       sizeof(conn->export.user.features), "%s%s%s%s",
		       s->extended     ? "extended"
		       : s->structured ? "structured"
				       : "simple",
		       s->allocation ? " base:allocation" : "",
		       conn->base.tls ? " " : "", tls);
}

/* @keep: also wait until requests of the same client before it are done. */
static int export_enter(struct nbd_conn *conn, const char *name, bool keep,
			struct error *err)
{
	int r = 0;

	if (!conn->export.entered) {
		features_tell(conn);
		r = conn_export_enter(&conn->export, name, err);
	}
	if (r == 0 && keep && !export_read_only(conn->export.user.export))
		r = export_table_settle(conn->base.service->exports,
					&conn->export.user);
	return r;
}

/* Log why, which is no affair of the peer's. */
static int open_failed(struct nbd_conn *conn, struct error *err)
{
	char peer[PEER_ADDRESS_TEXT_MAX];
	unsigned dropped;

	if (log_limit_allow(&conn->base.service->log_limit, &dropped))
		log_write(LOG_LEVEL_WARNING,
			  "nbd: export '%s' refused to %s: %s",
			  export_name(conn->export.user.export),
			  peer_address_format(&conn->base.peer, peer,
					      sizeof(peer)),
			  error_text(err));
	conn_export_leave(&conn->export);
	return error_set(err, EIO, "the export can't be opened");
}

/* nbd_session_ops.open */
static int session_export_open(void *context, const char *name, bool keep,
			       struct nbd_export *ret, struct error *err)
{
	struct nbd_conn *conn = context;
	int r;

	if (conn->export.revoke.due)
		return error_set(err, ESHUTDOWN, "the connection is closing");
	r = export_enter(conn, name, keep, err);
	if (r < 0)
		return r;
	if (conn_export_open(&conn->export, err) < 0)
		return open_failed(conn, err);
	export_describe(conn, ret);
	if (!keep)
		conn_export_leave(&conn->export);
	return 0;
}

static int export_list_each(void *context, const char *name)
{
	return nbd_session_list_add(context, name);
}

/* nbd_session_ops.list */
static int export_list(void *context, struct nbd_session *session)
{
	struct nbd_conn *conn = context;

	return export_table_list(conn->base.service->exports, &conn->base.peer,
				 export_list_each, session);
}

const struct nbd_session_ops nbd_conn_session_ops = {
	.open = session_export_open,
	.list = export_list,
};
