/* SPDX-License-Identifier: Apache-2.0 */
/* Runs as tables of device mapper, and back. */
#include <errno.h>

#include "blockd/direct/direct_mapper.h"

static uint64_t cluster_of(const struct direct_medium *medium)
{
	return UINT64_C(1) << medium->shift;
}

static int add_slow(struct mapper_table *table, dev_t slow, uint64_t from,
		    uint64_t end)
{
	return end > from
		       ? mapper_table_add_linear(table, end - from, slow, from)
		       : 0;
}

int direct_mapper_encode(const struct direct_medium *medium, dev_t slow,
			 uint64_t size, const struct direct_runs *runs,
			 struct mapper_table *ret)
{
	uint64_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < runs->n; i++) {
		const struct direct_run *run = &runs->items[i];
		const uint64_t start = run->logical << medium->shift;
		const uint64_t length = (uint64_t)run->count << medium->shift;

		r = add_slow(ret, slow, at, start);
		if (r == 0)
			r = mapper_table_add_linear(
				ret, length, medium->device,
				medium->data_start + ((uint64_t)run->physical
						      << medium->shift));
		at = start + length;
	}
	if (r == 0)
		r = add_slow(ret, slow, at, size);
	if (r < 0)
		mapper_table_done(ret);
	return r;
}

/* -EBADMSG: it is none that was made of whole clusters of the medium. */
static int decode_run(const struct direct_medium *medium,
		      const struct mapper_segment *segment,
		      struct direct_run *ret)
{
	const uint64_t cluster = cluster_of(medium);
	const uint64_t from = segment->place.offset;

	if (from < medium->data_start ||
	    (from - medium->data_start) % cluster || segment->start % cluster ||
	    segment->length % cluster ||
	    (from - medium->data_start) >> medium->shift > UINT32_MAX ||
	    segment->length >> medium->shift > UINT32_MAX)
		return -EBADMSG;
	*ret = (struct direct_run){
		.logical = segment->start >> medium->shift,
		.physical = (uint32_t)((from - medium->data_start) >>
				       medium->shift),
		.count = (uint32_t)(segment->length >> medium->shift),
	};
	return 0;
}

int direct_mapper_decode(const struct direct_medium *medium, dev_t slow,
			 const struct mapper_table *table,
			 struct direct_runs *ret)
{
	struct direct_runs runs = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < table->count; i++) {
		const struct mapper_segment *segment = &table->segments[i];
		struct direct_run run;

		if (segment->kind != MAPPER_LINEAR)
			r = -EBADMSG;
		else if (segment->place.device == slow)
			r = segment->place.offset == segment->start ? 0
								    : -EBADMSG;
		else if (segment->place.device != medium->device)
			r = -EBADMSG;
		else if ((r = decode_run(medium, segment, &run)) == 0)
			r = direct_runs_add(&runs, &run);
	}
	if (r < 0)
		direct_runs_done(&runs);
	else
		*ret = runs;
	return r;
}
