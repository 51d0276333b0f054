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
#include "volume/store/http/json_lines.h"

struct seen {
	unsigned count;
	uint32_t sum; /* of what the answers say, in their order */
};

static void add(struct seen *seen, const char *text)
{
	for (; *text; text++)
		seen->sum = seen->sum * 31 + (uint8_t)*text;
}

static void see(struct seen *seen, const struct etcd_answer *answer)
{
	if (answer->revision < 0 || answer->count > ETCD_ITEMS_MAX ||
	    strlen(answer->reason) >= sizeof(answer->reason))
		abort();
	seen->sum = seen->sum * 31 + (uint32_t)answer->revision;
	for (size_t i = 0; i < answer->count; i++) {
		const struct etcd_item *item = &answer->items[i];

		if (!item->key[0] || strlen(item->value) != item->length ||
		    !etcd_answer_item(answer, item->key))
			abort();
		add(seen, item->key);
		add(seen, item->value);
	}
}

static int see_line(void *seen_, struct json_object *object, struct error *err)
{
	struct seen *seen = seen_;
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

static int feed(const char *bytes, size_t length, size_t piece,
		struct seen *ret)
{
	struct json_lines lines = {0};
	int r = 0;

	while (r == 0 && length > 0) {
		size_t n = piece < length ? piece : length;

		r = json_lines_feed(&lines, bytes, n, see_line, ret, NULL);
		bytes += n;
		length -= n;
	}
	json_lines_done(&lines);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole = {0}, pieces = {0};
	int a, b;

	if (size < 2)
		return 0;
	a = feed((const char *)data + 1, size - 1, size, &whole);
	b = feed((const char *)data + 1, size - 1, data[0] % 64 + 1, &pieces);
	if (a != b || whole.count != pieces.count || whole.sum != pieces.sum)
		abort();
	return 0;
}
