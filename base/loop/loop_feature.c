/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/cleanup.h"
#include "base/loop/loop.h"

static const struct {
	const char *name;
	enum loop_feature feature;
} features[] = {
	{"coop-taskrun", LOOP_COOP_TASKRUN},
	{"single-issuer", LOOP_SINGLE_ISSUER},
	{"defer-taskrun", LOOP_DEFER_TASKRUN},
	{"send-zc", LOOP_SEND_ZC},
	{"poll-first", LOOP_POLL_FIRST},
	{"fixed-buffers", LOOP_FIXED_BUFFERS},
	{"streams", LOOP_STREAMS},
	{"busy-wait", LOOP_BUSY_WAIT},
	{"pipes", LOOP_DROPPED},
};

enum loop_feature loop_feature_find(const char *name)
{
	for (size_t i = 0; i < array_size(features); i++)
		if (strcmp(features[i].name, name) == 0)
			return features[i].feature;
	return 0;
}
