/* SPDX-License-Identifier: Apache-2.0 */
/*
 * However a stream is cut into pieces, the same answers come out of it, and
 * each is what its header promises. Each line is also read as an error. The
 * first byte says how the stream is cut.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "volume/store/etcd/etcd_answer.h"
#include "volume/testkit/json_lines_fuzz_kit.h"

static void see(struct lines_seen *seen, const struct etcd_answer *answer)
{
	if (answer->revision < 0 || answer->count > ETCD_ITEMS_MAX ||
	    strlen(answer->reason) >= sizeof(answer->reason))
		abort();
	lines_seen_number(seen, (uint32_t)answer->revision);
	for (size_t i = 0; i < answer->count; i++) {
		const struct etcd_item *item = &answer->items[i];

		if (!item->key[0] || strlen(item->value) != item->length ||
		    !etcd_answer_item(answer, item->key))
			abort();
		lines_seen_text(seen, item->key);
		lines_seen_text(seen, item->value);
	}
}

static int see_line(void *seen_, struct json_object *object, struct error *err)
{
	struct lines_seen *seen = seen_;
	struct etcd_answer answer;
	int r = etcd_answer_decode_stream(object, &answer, err);

	if (r == 0) {
		see(seen, &answer);
		etcd_answer_done(&answer);
	}
	if (etcd_answer_decode(object, &answer, err) == 0) {
		see(seen, &answer);
		etcd_answer_done(&answer);
	}
	if (etcd_failure(object, err) >= 0)
		abort();
	seen->count++;
	return r == -EPROTO ? 0 : r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_lines_fuzz(data, size, see_line);
	return 0;
}
