/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a union: mounted, and served until it is unmounted. */
#ifndef UNION_MOUNT_H
#define UNION_MOUNT_H

#include "base/error.h"
#include "union/config/options.h"

/*
 * Mount and serve, in the calling process. SIGTERM, SIGINT and SIGHUP unmount
 * the union. A busy union is detached, then served until its last user is gone;
 * a second signal ends it at once.
 *
 * @ready  called once the kernel has asked its first question
 *
 * Returns when the union is unmounted: 0, or -errno with @err.
 */
int mount_serve(const struct union_options *options, void (*ready)(void *),
		void *context, struct error *err);

#endif
