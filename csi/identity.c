/* SPDX-License-Identifier: Apache-2.0 */
/* The Identity service. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "csi/call/reply.h"
#include "csi/service.h"

#define FUSE_DEVICE "/dev/fuse"

int csi_get_plugin_info(struct csi_call *c, const void *in, void *out)
{
	Csi__V1__GetPluginInfoResponse *reply = out;

	(void)in;
	reply->name = rpc_strdup(c->rpc, CSI_DRIVER_NAME);
	reply->vendor_version = rpc_strdup(c->rpc, TRIBUTARY_VERSION);
	return 0;
}

static Csi__V1__PluginCapability *identity_capability(
	struct csi_call *c, Csi__V1__PluginCapability__Service__Type type)
{
	Csi__V1__PluginCapability *cap = reply_new(
		c, &csi__v1__plugin_capability__descriptor);

	cap->type_case = CSI__V1__PLUGIN_CAPABILITY__TYPE_SERVICE;
	cap->service = reply_new(
		c, &csi__v1__plugin_capability__service__descriptor);
	cap->service->type = type;
	return cap;
}

/* Volumes grow while they are used. */
static Csi__V1__PluginCapability *identity_expansion(struct csi_call *c)
{
	Csi__V1__PluginCapability *cap = reply_new(
		c, &csi__v1__plugin_capability__descriptor);

	cap->type_case = CSI__V1__PLUGIN_CAPABILITY__TYPE_VOLUME_EXPANSION;
	cap->volume_expansion = reply_new(
		c, &csi__v1__plugin_capability__volume_expansion__descriptor);
	cap->volume_expansion->type =
		CSI__V1__PLUGIN_CAPABILITY__VOLUME_EXPANSION__TYPE__ONLINE;
	return cap;
}

/* Of the plugin as a whole: the same in every mode. */
int csi_get_plugin_capabilities(struct csi_call *c, const void *in, void *out)
{
	static const Csi__V1__PluginCapability__Service__Type types[] = {
		CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE,
		CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__VOLUME_ACCESSIBILITY_CONSTRAINTS,
		CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__GROUP_CONTROLLER_SERVICE,
		CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__SNAPSHOT_METADATA_SERVICE,
	};
	Csi__V1__GetPluginCapabilitiesResponse *reply = out;
	size_t n = array_size(types);

	(void)in;
	reply->n_capabilities = n + 1;
	reply->capabilities = rpc_alloc(c->rpc, (n + 1) * sizeof(void *));
	for (size_t i = 0; i < n; i++)
		reply->capabilities[i] = identity_capability(c, types[i]);
	reply->capabilities[n] = identity_expansion(c);
	return 0;
}

int csi_probe(struct csi_call *c, const void *in, void *out)
{
	(void)in;
	(void)out; /* without "ready": ready */
	if (csi_check_store(c->csi, c->err) < 0)
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"the records of volumes cannot be read: %s",
				error_text(c->err));
	if (c->csi->mode != CSI_MODE_CONTROLLER &&
	    access(FUSE_DEVICE, R_OK | W_OK) < 0)
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				FUSE_DEVICE ": %s; load the kernel module "
					    "fuse, and let this process use "
					    "the device",
				strerror(errno));
	return 0;
}
