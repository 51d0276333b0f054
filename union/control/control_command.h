/* SPDX-License-Identifier: Apache-2.0 */
/* The effects of a request over the control socket. */
#ifndef UNION_CONTROL_COMMAND_H
#define UNION_CONTROL_COMMAND_H

#include "union/control/control_proto.h"
#include "union/live/drain.h"

struct control_target {
	struct unionfs *fs;
	struct drains *drains;
	const char *mountpoint; /* absolute, resolved */
};

/* Carry out @request; return the line to reply, owned. NULL: ENOMEM. */
char *control_command_do(const struct control_target *target,
			 const struct control_request *request);

#endif
