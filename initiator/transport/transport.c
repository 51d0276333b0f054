/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct transport *const transports[] = {
	&transport_loop, &transport_nbd,  &transport_iscsi,
	&transport_fuse, &transport_ublk, NULL,
};

const struct transport *transport_find(const char *name)
{
	for (size_t i = 0; transports[i]; i++)
		if (!strcmp(transports[i]->name, name))
			return transports[i];
	return NULL;
}

static bool has_source(const struct initiator_request *request,
		       const struct transport *t)
{
	if (request->n_parts)
		return t->parts;
	if (t->local)
		return request->local_path;
	if (t->iscsi)
		return request->iscsi_portal && request->iscsi_target;
	return request->address && request->export_name;
}

static const char *source_of(const struct transport *t)
{
	if (t->local)
		return "the extent's own file";
	return t->iscsi ? "an iSCSI portal and target: the node of the extent "
			  "does not serve it by iSCSI (listen-iscsi)"
			: "an address and an export";
}

static int choose_named(const struct initiator_request *request,
			const struct initiator_capability *capabilities,
			const struct transport **ret, char *ret_why,
			struct error *err)
{
	for (size_t i = 0; transports[i]; i++) {
		const struct transport *t = transports[i];

		if (strcmp(t->name, request->transport) != 0)
			continue;
		if (request->n_parts && !t->parts)
			return error_set(err, ENODEV,
					 "transport %s makes no device of "
					 "several extents: fuse, ublk and auto "
					 "do",
					 t->name);
		if (!has_source(request, t))
			return error_set(err, EINVAL, "transport %s needs %s",
					 t->name, source_of(t));
		if (!capabilities[i].usable)
			return error_set(err, ENODEV,
					 "transport %s is not possible here: "
					 "%s",
					 t->name, capabilities[i].why);
		(void)snprintf(ret_why, INITIATOR_TEXT_MAX, "asked for");
		*ret = t;
		return 0;
	}
	return error_set(
		err, EINVAL,
		"no transport '%s': auto, loop, nbd, iscsi, fuse or ublk",
		request->transport);
}

/*
 * Choose for an extent on this node: loop or none. A kernel that writes its
 * dirty pages through its own NBD client to a server on the same machine can
 * wait for memory that only that server could free.
 */
static int choose_local(const struct initiator_capability *loop,
			const struct transport **ret, char *ret_why,
			struct error *err)
{
	if (!loop->usable)
		return error_set(err, ENODEV,
				 "the extent is on this node, but %s",
				 loop->why);
	(void)snprintf(ret_why, INITIATOR_TEXT_MAX,
		       "the extent is on this node");
	*ret = &transport_loop;
	return 0;
}

/* Choose for a device of several exports. */
static int choose_parts(const struct initiator_capability *fuse,
			const struct transport **ret, char *ret_why,
			struct error *err)
{
	if (!fuse->usable)
		return error_set(err, ENODEV,
				 "no way to make one device of several extents "
				 "here: %.180s",
				 fuse->why);
	(void)snprintf(ret_why, INITIATOR_TEXT_MAX,
		       "several extents: FUSE file and loop device");
	*ret = &transport_fuse;
	return 0;
}

int transport_choose(const struct initiator_request *request,
		     const struct initiator_capability *capabilities,
		     const struct transport **ret, char *ret_why,
		     struct error *err)
{
	const struct initiator_capability *nbd = &capabilities[1];
	const struct initiator_capability *iscsi = &capabilities[2];
	const struct initiator_capability *fuse = &capabilities[3];

	if (strcmp(request->transport, "auto") != 0)
		return choose_named(request, capabilities, ret, ret_why, err);
	if (request->n_parts)
		return choose_parts(fuse, ret, ret_why, err);
	if (request->local_path)
		return choose_local(&capabilities[0], ret, ret_why, err);
	if (iscsi->usable && !nbd->usable &&
	    has_source(request, &transport_iscsi)) {
		(void)snprintf(ret_why, INITIATOR_TEXT_MAX,
			       "%.180s; its iSCSI client instead", nbd->why);
		*ret = &transport_iscsi;
		return 0;
	}
	if (!has_source(request, &transport_nbd))
		return error_set(err, EINVAL,
				 "an attachment needs a file of this node, or "
				 "an address and an export");
	if (nbd->usable) {
		(void)snprintf(ret_why, INITIATOR_TEXT_MAX,
			       "the kernel has an NBD client");
		*ret = &transport_nbd;
		return 0;
	}
	if (!fuse->usable)
		return error_set(err, ENODEV,
				 "no way to attach a remote extent here: "
				 "%.120s; %.120s; %.120s",
				 nbd->why,
				 has_source(request, &transport_iscsi)
					 ? iscsi->why
					 : "it is not served by iSCSI",
				 fuse->why);
	(void)snprintf(ret_why, INITIATOR_TEXT_MAX,
		       "%.180s; FUSE file and loop device instead", nbd->why);
	*ret = &transport_fuse;
	return 0;
}
