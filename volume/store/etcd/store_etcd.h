/* SPDX-License-Identifier: Apache-2.0 */
/* The store of hosts that share an etcd; store_etcd.c says what it is. */
#ifndef VOLUME_STORE_ETCD_H
#define VOLUME_STORE_ETCD_H

#include "volume/store/store.h"

extern const struct store_ops store_etcd_ops; /* location: etcd_config.h */

#endif
