/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts, values, keys and additional headers of a peer. What must hold:
 * pairs lie inside the text, in order; a number or binary value survives
 * being written and read again; results of keys stay in the ranges of RFC
 * 7143 13; an AHS's CDB lies inside it.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/export/iscsi_name.h"
#include "target/iscsi/iscsi_keys.h"
#include "target/iscsi/iscsi_proto.h"
#include "target/iscsi/iscsi_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void value_check(const char *value)
{
	uint8_t a[ISCSI_BINARY_MAX], b[ISCSI_BINARY_MAX];
	char text[3 + 2 * ISCSI_BINARY_MAX];
	uint64_t number = 0, again = 0;
	int n = iscsi_binary_parse(value, a, sizeof(a));

	if (n > 0) {
		(void)iscsi_binary_format(text, a, (size_t)n);
		assert(iscsi_binary_parse(text, b, sizeof(b)) == n);
		assert(memcmp(a, b, (size_t)n) == 0);
	}
	if (iscsi_number_parse(value, &number) == 0) {
		(void)snprintf(text, sizeof(text), "%" PRIu64, number);
		assert(iscsi_number_parse(text, &again) == 0);
		assert(again == number);
	}
	if (iscsi_name_ok(value))
		assert(strlen(value) <= ISCSI_NAME_MAX);
}

static void params_check(const struct iscsi_params *p)
{
	assert(p->max_segment >= 512 && p->max_segment <= ISCSI_DATA_MAX);
	assert(p->max_burst >= 512 && p->max_burst <= ISCSI_BURST_MAX);
	assert(p->first_burst >= 512 &&
	       p->first_burst <= ISCSI_FIRST_BURST_MAX);
	assert(p->max_r2t >= 1 && p->max_r2t <= ISCSI_R2T_MAX);
	assert(p->time2wait <= 3600 && p->time2retain <= 3600);
}

static void text_check(const uint8_t *data, size_t size, bool discovery)
{
	struct iscsi_text text = {0};
	struct iscsi_answer answer = {0};
	struct iscsi_params params;
	struct iscsi_pair pair;
	uint64_t seen = 0;
	size_t at = 0, before = 0;

	iscsi_params_init(&params);
	if (iscsi_text_append(&text, data, size) < 0)
		return;
	while (iscsi_text_next(&text, &at, &pair) > 0) {
		assert(at > before && at <= text.length);
		assert(strlen(pair.key) <= ISCSI_KEY_MAX);
		assert(strlen(pair.value) <= ISCSI_VALUE_MAX);
		before = at;
		value_check(pair.value);
		(void)iscsi_key_take(&params, &seen, &pair, ISCSI_PHASE_LOGIN,
				     discovery, &answer);
		params_check(&params);
	}
	assert(!answer.failed);
	iscsi_answer_done(&answer);
	iscsi_text_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct iscsi_ahs ahs = {0};

	if (size < 1)
		return 0;
	text_check(data + 1, size - 1, data[0] & 1);
	if (iscsi_ahs_decode(data + 1, size - 1, &ahs) == 0 && ahs.cdb)
		assert(ahs.cdb > data &&
		       ahs.cdb + ahs.cdb_length <= data + size);
	return 0;
}
