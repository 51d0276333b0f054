/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest's shim answers: read or refused, and then nothing is set. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "csi/kata/kata_shim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kata_stats stats;
	uint8_t before[sizeof(stats)];
	int r;

	memset(before, 0x5a, sizeof(before));
	memcpy(&stats, before, sizeof(stats));
	r = kata_stats_parse((const char *)data, size, &stats);
	if (r < 0) {
		assert(r == -EBADMSG);
		assert(memcmp((const uint8_t *)&stats, before,
			      sizeof(before)) == 0);
		return 0;
	}
	assert(strnlen(stats.message, sizeof(stats.message)) <
	       sizeof(stats.message));
	assert(stats.abnormal || !stats.message[0]);
	assert(stats.bytes.total <= INT64_MAX &&
	       stats.inodes.used <= INT64_MAX);
	assert(stats.has_bytes || stats.bytes.total == 0);
	return 0;
}
