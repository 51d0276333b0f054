/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "blockd/testkit/raw_store_kit.h"

static unsigned run_below(struct run *run, unsigned n)
{
	run->random = run->random * 1103515245 + 12345;
	return (run->random >> 8) % n;
}

void run_must(struct run *run, int r, const char *what)
{
	if (r < 0)
		fail_msg("%s: %s", what, error_text(&run->err));
}

void run_change(struct run *run, const struct raw_record *records, size_t n)
{
	run_must(run,
		 power_states_change(&run->states, run->store, records, n,
				     &run->err),
		 "change");
}

void run_make_object(struct run *run, uint32_t id, uint32_t from)
{
	char text[3000];
	struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .object = id,
		 .clusters = LENGTH,
		 .text = text},
		{.type = RAW_SHARE, .object = id, .from = from},
	};

	memset(text, 'a' + (int)run_below(run, 26), sizeof(text));
	records[0].text_length = run_below(run, sizeof(text));
	run_change(run, records, from ? 2 : 1);
}

bool run_exists(struct run *run, uint32_t id)
{
	struct raw_state *state = raw_store_lock(run->store);
	bool there = raw_state_object(state, id);

	raw_store_unlock(run->store);
	return there;
}

static void map_some(struct run *run, uint32_t id)
{
	struct raw_record map = {.type = RAW_MAP, .object = id};
	uint32_t want = 1 + run_below(run, 4);

	map.logical = run_below(run, LENGTH - want + 1);
	map.count = raw_store_take(run->store, want, RAW_HOLE, &map.physical);
	if (map.count)
		run_change(run, &map, 1);
}

static void reuse(struct run *run)
{
	struct raw_leaving leaving;

	if (raw_store_leave(run->store, &leaving))
		raw_store_left(run->store, &leaving);
}

static void grow(struct run *run)
{
	struct raw_medium *medium = &run->power.medium;

	if (medium->size < MEDIUM)
		medium->size += UINT64_C(1) << 18;
	run_must(run, raw_store_extend(run->store, medium->size, &run->err),
		 "extend");
}

void run_step(struct run *run)
{
	uint32_t id = 1 + run_below(run, OBJECTS),
		 from = 1 + run_below(run, OBJECTS);

	switch (run_below(run, 12)) {
	case 0:
		if (run_exists(run, id))
			run_change(run,
				   &(struct raw_record){.type = RAW_DROP,
							.object = id},
				   1);
		break;
	case 1:
	case 2:
		run_make_object(run, id,
				run_exists(run, from) && from != id ? from : 0);
		break;
	case 3:
		if (run_exists(run, id))
			run_change(run,
				   &(struct raw_record){
					   .type = RAW_UNMAP,
					   .object = id,
					   .logical = run_below(run, 20),
					   .count = 20},
				   1);
		break;
	case 4:
	case 5:
		run_must(run,
			 raw_store_commit(run->store,
					  power_states_newest(&run->states),
					  &run->err),
			 "commit");
		break;
	case 6:
		if (run_below(run, 8) == 0)
			run_must(run,
				 raw_store_checkpoint(run->store, &run->err),
				 "checkpoint");
		else if (run_below(run, 4) == 0)
			grow(run);
		break;
	default:
		reuse(run);
		if (run_exists(run, id))
			map_some(run, id);
		break;
	}
}

void run_open(struct run *run)
{
	struct raw_report report;

	run_must(run,
		 raw_store_open(&run->power.medium, &run->store, &report,
				&run->err),
		 "open");
}

void run_init(struct run *run)
{
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.text = "pool",
		.text_length = 4,
	};

	*run = (struct run){.random = 1};
	power_init(&run->power, SMALL, MEDIUM);
	run_must(run, raw_store_format(&run->power.medium, &options, &run->err),
		 "format");
	run_open(run);
	power_states_note(&run->states, run->store);
}

void run_done(struct run *run)
{
	raw_store_close(run->store);
	power_done(&run->power);
	power_states_done(&run->states);
}

int run_open_result(struct run *run)
{
	struct raw_report report;
	struct raw_store *store = NULL;
	int r = raw_store_open(&run->power.medium, &store, &report, &run->err);

	raw_store_close(store);
	return r;
}
