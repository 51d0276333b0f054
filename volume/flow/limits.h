/* SPDX-License-Identifier: Apache-2.0 */
/* Division of a volume's limits among its extents. */
#ifndef VOLUME_LIMITS_H
#define VOLUME_LIMITS_H

#include "volume/op/context.h"

/* Tell every extent its part, as the record has it now. */
int limits_apply(struct operation *op, struct error *err);

#endif
