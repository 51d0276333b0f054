/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room for claims of each class, as CSIStorageCapacity (storage.k8s.io/v1),
 * which the scheduler looks at before it chooses a node.
 *
 * Every node reaches every volume. So a class has one object for all nodes,
 * named as the class, with an empty selector of nodes.
 */
#ifndef VOLUME_KUBE_CAPACITY_H
#define VOLUME_KUBE_CAPACITY_H

#include "volume/store/kube/api/kube_call.h"
#include "volume/store/store.h"

/* As struct store_ops has it: the StorageClasses of @driver that bind late. */
int kube_classes_list(struct kube_http *http, const char *driver,
		      struct store_class **ret, size_t *ret_count,
		      struct error *err);

/*
 * As struct store_ops has it. Objects with @driver in the label
 * csi.storage.k8s.io/drivername are taken as ours, also those that a
 * provisioner made.
 */
int kube_rooms_publish(struct kube_http *http, const char *driver,
		       const struct store_class *classes, size_t count,
		       struct error *err);

#endif
