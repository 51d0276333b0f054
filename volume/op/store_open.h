/* SPDX-License-Identifier: Apache-2.0 */
/* The stores that there are, by the names of their kinds. */
#ifndef VOLUME_STORE_OPEN_H
#define VOLUME_STORE_OPEN_H

#include "volume/store/store.h"

/*
 * @location  "local:/path/file.db", or a path (then local);
 *            "kube:[NAMESPACE][,kubeconfig=PATH][,context=NAME]";
 *            "etcd:[PREFIX],endpoint=URL..." (etcd_config.h)
 *
 * -EINVAL: no such store, the text lists those there are.
 */
int store_open(const char *location, struct store **ret, struct error *err);

#endif
