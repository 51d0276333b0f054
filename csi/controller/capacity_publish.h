/* SPDX-License-Identifier: Apache-2.0 */
/* The room for claims of each class, where a scheduler looks for it. */
#ifndef CSI_CAPACITY_PUBLISH_H
#define CSI_CAPACITY_PUBLISH_H

#include "csi/call/call.h"

/*
 * Publish the room for claims of each class that binds late, as GetCapacity
 * answers it for a class. A class with an impossible parameter has none. The
 * nodes are asked once for all classes. A store without a scheduler: 0.
 */
int capacity_publish(struct csi *csi, struct error *err);

#endif
