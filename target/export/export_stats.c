/* SPDX-License-Identifier: Apache-2.0 */
#include "target/export/export_stats.h"

const char *export_op_name(enum export_op op)
{
	static const char *const names[EXPORT_OPS] = {
		[EXPORT_OP_READ] = "read",
		[EXPORT_OP_WRITE] = "write",
		[EXPORT_OP_FLUSH] = "flush",
		[EXPORT_OP_DISCARD] = "discard",
		[EXPORT_OP_WRITE_ZEROES] = "write-zeroes",
		[EXPORT_OP_OTHER] = "other",
	};

	return names[op];
}

/*
 * Count in one thread. Others may read meanwhile, and see a whole value, old or
 * new.
 */
static void stats_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

static uint64_t counted(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void export_stats_note(struct export_stats *stats, enum export_op op,
		       uint64_t bytes, int64_t ns, bool failed)
{
	struct export_op_stats *s = &stats->ops[op];
	uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;
	unsigned bucket = us ? 64 - (unsigned)__builtin_clzll(us) : 0;

	stats_count(&s->operations, 1);
	stats_count(failed ? &s->errors : &s->bytes, failed ? 1 : bytes);
	stats_count(&s->total_us, us);
	if (bucket >= EXPORT_LATENCIES)
		bucket = EXPORT_LATENCIES - 1;
	stats_count(&s->latency[bucket], 1);
}

void export_stats_add(struct export_stats *to, const struct export_stats *from)
{
	for (unsigned op = 0; op < EXPORT_OPS; op++) {
		const struct export_op_stats *f = &from->ops[op];
		struct export_op_stats *t = &to->ops[op];

		t->operations += counted(&f->operations);
		t->errors += counted(&f->errors);
		t->bytes += counted(&f->bytes);
		t->total_us += counted(&f->total_us);
		for (unsigned i = 0; i < EXPORT_LATENCIES; i++)
			t->latency[i] += counted(&f->latency[i]);
	}
}
