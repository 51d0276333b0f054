/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_netlink.h"

#include <errno.h>
#include <linux/nbd-netlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <string.h>

#include "base/cleanup.h"

/*
 * Map an error: libnl's codes are its own; those of the kernel's answers map
 * back.
 */
static int netlink_errno_of(int nl)
{
	switch (-nl) {
	case NLE_BUSY: return EBUSY;
	case NLE_NODEV:
	case NLE_OBJ_NOTFOUND: return ENODEV;
	case NLE_INVAL: return EINVAL;
	case NLE_PERM:
	case NLE_NOACCESS: return EPERM;
	case NLE_NOMEM: return ENOMEM;
	case NLE_EXIST: return EEXIST;
	case NLE_RANGE: return ERANGE;
	default: return EIO;
	}
}

static void cleanup_sock(struct nl_sock **sock)
{
	nl_socket_free(*sock); /* NULL is fine */
}

static void cleanup_msg(struct nl_msg **msg)
{
	nlmsg_free(*msg); /* NULL is fine */
}

static int open_family(struct nl_sock **ret, int *ret_family, struct error *err)
{
	auto_cleanup(cleanup_sock) struct nl_sock *sock = nl_socket_alloc();
	int r;

	if (!sock)
		return error_set(err, ENOMEM, "no memory for netlink");
	r = genl_connect(sock);
	if (r < 0)
		return error_set(err, netlink_errno_of(r), "netlink: %s",
				 nl_geterror(r));
	r = genl_ctrl_resolve(sock, NBD_GENL_FAMILY_NAME);
	if (r < 0)
		return error_set(err, ENODEV, "the kernel has no NBD client");
	*ret_family = r;
	*ret = take_ptr(sock);
	return 0;
}

int nbd_netlink_probe(struct error *err)
{
	auto_cleanup(cleanup_sock) struct nl_sock *sock = NULL;
	int family;

	return open_family(&sock, &family, err);
}

static int start(uint8_t command, struct nl_sock **ret_sock,
		 struct nl_msg **ret_msg, struct error *err)
{
	int family, r = open_family(ret_sock, &family, err);

	if (r < 0)
		return r;
	*ret_msg = nlmsg_alloc();
	if (!*ret_msg || !genlmsg_put(*ret_msg, NL_AUTO_PORT, NL_AUTO_SEQ,
				      family, 0, 0, command, NBD_GENL_VERSION))
		return error_set(err, ENOMEM, "no memory for netlink");
	return 0;
}

/* Send @msg, which is taken, as nl_send_sync() does. */
static int netlink_finish(struct nl_sock *sock, struct nl_msg *msg,
			  const char *what, struct error *err)
{
	int r = nl_send_sync(sock, msg);

	if (r < 0)
		return error_set(err, netlink_errno_of(r),
				 "kernel NBD client: %s: %s", what,
				 nl_geterror(r));
	return 0;
}

/* Add the sockets. 0 or a negative number of libnl's. */
static int put_sockets(struct nl_msg *msg, const int *sockets, unsigned n)
{
	struct nlattr *list = nla_nest_start(msg, NBD_ATTR_SOCKETS);
	int r = list ? 0 : -NLE_NOMEM;

	for (unsigned i = 0; i < n && !r; i++) {
		struct nlattr *item = nla_nest_start(msg, NBD_SOCK_ITEM);

		r = item ? nla_put_u32(msg, NBD_SOCK_FD, (uint32_t)sockets[i])
			 : -NLE_NOMEM;
		if (!r)
			nla_nest_end(msg, item);
	}
	if (!r)
		nla_nest_end(msg, list);
	return r;
}

static int put_device(struct nl_msg *msg, const struct nbd_netlink_device *d)
{
	int r = nla_put_u64(msg, NBD_ATTR_SIZE_BYTES, d->size);

	if (!r)
		r = nla_put_u64(msg, NBD_ATTR_BLOCK_SIZE_BYTES, d->block_size);
	if (!r)
		r = nla_put_u64(msg, NBD_ATTR_SERVER_FLAGS, d->flags);
	if (!r)
		r = nla_put_u64(msg, NBD_ATTR_TIMEOUT, d->timeout_s);
	if (!r)
		r = nla_put_u64(msg, NBD_ATTR_DEAD_CONN_TIMEOUT,
				d->dead_timeout_s);
	if (!r)
		r = nla_put_string(msg, NBD_ATTR_BACKEND_IDENTIFIER,
				   d->backend);
	if (!r)
		r = put_sockets(msg, d->sockets, d->n_sockets);
	return r;
}

static int take_index(struct nl_msg *msg, void *context)
{
	struct nlattr *attrs[NBD_ATTR_MAX + 1];
	int *index = context;

	if (!genlmsg_parse(nlmsg_hdr(msg), 0, attrs, NBD_ATTR_MAX, NULL) &&
	    attrs[NBD_ATTR_INDEX])
		*index = (int)nla_get_u32(attrs[NBD_ATTR_INDEX]);
	return NL_OK;
}

int nbd_netlink_connect(const struct nbd_netlink_device *device,
			unsigned *ret_index, struct error *err)
{
	auto_cleanup(cleanup_sock) struct nl_sock *sock = NULL;
	auto_cleanup(cleanup_msg) struct nl_msg *msg = NULL;
	int index = -1, r = start(NBD_CMD_CONNECT, &sock, &msg, err);

	if (r < 0)
		return r;
	/* Without NBD_ATTR_INDEX the kernel takes a free one and tells. */
	if (put_device(msg, device) < 0)
		return error_set(err, ENOMEM, "no memory for netlink");
	if (nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, take_index,
				&index) < 0)
		return error_set(err, EIO, "netlink: no callback");
	r = netlink_finish(sock, take_ptr(msg), "connect", err);
	if (r < 0)
		return r;
	if (index < 0)
		return error_set(err, EIO,
				 "the kernel did not say which nbd device");
	*ret_index = (unsigned)index;
	return 0;
}

int nbd_netlink_disconnect(unsigned index, struct error *err)
{
	auto_cleanup(cleanup_sock) struct nl_sock *sock = NULL;
	auto_cleanup(cleanup_msg) struct nl_msg *msg = NULL;
	int r = start(NBD_CMD_DISCONNECT, &sock, &msg, err);

	if (r < 0)
		return r;
	if (nla_put_u32(msg, NBD_ATTR_INDEX, index) < 0)
		return error_set(err, ENOMEM, "no memory for netlink");
	r = netlink_finish(sock, take_ptr(msg), "disconnect", err);
	return r == -EINVAL || r == -ENODEV ? 0 : r; /* not connected */
}

static int reconfigure(unsigned index, const char *backend, struct nl_sock **s,
		       struct nl_msg **m, struct error *err)
{
	int r = start(NBD_CMD_RECONFIGURE, s, m, err);

	if (r < 0)
		return r;
	if (nla_put_u32(*m, NBD_ATTR_INDEX, index) < 0 ||
	    nla_put_string(*m, NBD_ATTR_BACKEND_IDENTIFIER, backend) < 0)
		return error_set(err, ENOMEM, "no memory for netlink");
	return 0;
}

int nbd_netlink_reconnect(unsigned index,
			  const struct nbd_netlink_device *device,
			  struct error *err)
{
	auto_cleanup(cleanup_sock) struct nl_sock *sock = NULL;
	auto_cleanup(cleanup_msg) struct nl_msg *msg = NULL;
	int r = reconfigure(index, device->backend, &sock, &msg, err);

	if (r < 0)
		return r;
	if (put_sockets(msg, device->sockets, device->n_sockets) < 0)
		return error_set(err, ENOMEM, "no memory for netlink");
	return netlink_finish(sock, take_ptr(msg), "reconnect", err);
}

int nbd_netlink_resize(unsigned index, const char *backend, uint64_t size,
		       struct error *err)
{
	auto_cleanup(cleanup_sock) struct nl_sock *sock = NULL;
	auto_cleanup(cleanup_msg) struct nl_msg *msg = NULL;
	int r = reconfigure(index, backend, &sock, &msg, err);

	if (r < 0)
		return r;
	if (nla_put_u64(msg, NBD_ATTR_SIZE_BYTES, size) < 0)
		return error_set(err, ENOMEM, "no memory for netlink");
	return netlink_finish(sock, take_ptr(msg), "resize", err);
}
