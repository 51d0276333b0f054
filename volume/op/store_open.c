/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/store_open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/store/etcd/store_etcd.h"
#include "volume/store/kube/store_kube.h"
#include "volume/store/local/store_local.h"

static const struct store_ops *const stores[] = {
	&store_local_ops, &store_kube_ops, &store_etcd_ops};

int store_open(const char *location, struct store **ret, struct error *err)
{
	const char *colon = strchr(location, ':');
	char known[128] = "";

	if (!colon || location[0] == '/' || location[0] == '.')
		return store_local_ops.open(location, ret, err);
	for (size_t i = 0; i < array_size(stores); i++) {
		const char *name = stores[i]->name;

		if (strlen(name) == (size_t)(colon - location) &&
		    strncmp(location, name, strlen(name)) == 0)
			return stores[i]->open(colon + 1, ret, err);
		(void)snprintf(known + strlen(known),
			       sizeof(known) - strlen(known), "%s'%s:'",
			       i ? ", " : "", name);
	}
	return error_set(err, EINVAL, "no store '%s'; there is %s", location,
			 known);
}
