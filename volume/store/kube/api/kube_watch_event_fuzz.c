/* SPDX-License-Identifier: Apache-2.0 */
/*
 * However a stream is cut into pieces, the same events come out of it, and
 * every one has an object. The first byte says how it is cut.
 */
#include <stdint.h>
#include <stdlib.h>

#include "volume/store/kube/api/kube_watch_event.h"
#include "volume/testkit/json_lines_fuzz_kit.h"

#define EVENTS_MAX 4096

static int see(void *context, enum kube_watch_event_type type,
	       struct json_object *object, struct error *err)
{
	struct lines_seen *seen = context;

	(void)err;
	if (!json_object_is_type(object, json_type_object))
		abort();
	lines_seen_number(seen, (uint32_t)type);
	lines_seen_text(seen, json_object_to_json_string(object));
	return ++seen->count == EVENTS_MAX ? -1 : 0;
}

static int see_line(void *seen, struct json_object *object, struct error *err)
{
	return kube_watch_event_tell(object, see, seen, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_lines_fuzz(data, size, see_line);
	return 0;
}
