/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool whose power fails at every write and flush, while extents are
 * written, snapshotted, cloned, reverted, discarded and dropped, also while
 * something is committed. Then it fails again, at a write of the recovery.
 *
 * What opens after a failure is a state that there was, and none older than
 * the last commit that was answered. Each block of an extent then has what it
 * had in that state, or what was written to it in place since, and nothing
 * older than what a flush has answered for. A snapshot has what its origin had
 * at the cut, whatever happened to either of them since.
 *
 * SEED=N is the first seed, SEEDS=N how many follow each other, STEPS=N how
 * long each run is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/testkit/every.h"
#include "blockd/testkit/power_run.h"

/* ---- after a failure ---- */

static bool object_holds(struct run *run, struct power *after,
			 const struct raw_store *store, uint32_t id,
			 uint64_t ticket, size_t at)
{
	const struct raw_object *object = raw_state_object(&store->state, id);

	if (!object || strcmp(object->text, DELETING) == 0)
		return true;
	for (uint32_t i = 0; i < LENGTH; i++) {
		uint32_t entry = raw_map_get(&object->map, i);

		for (unsigned b = 0; b < BLOCKS; b++) {
			uint32_t value = power_run_value_at(store, after->bytes,
							    entry, b);

			if (power_run_may_be(&run->blocks[id][i][b], value,
					     ticket, &run->power.events[at],
					     at))
				continue;
			(void)snprintf(run->why, sizeof(run->why),
				       "%s %u has %u in block %u of cluster %u",
				       run->snapshot[id] ? "snapshot"
							 : "extent",
				       id, value, b, i);
			return false;
		}
	}
	return true;
}

/* Is it the state after @ticket, with its data? */
static bool state_holds(struct run *run, struct power *after,
			struct raw_store *store, uint64_t ticket, size_t at)
{
	if (run->states.prints[ticket] != power_fingerprint(store))
		return false;
	for (uint32_t id = 1; id <= OBJECTS; id++)
		if (!object_holds(run, after, store, id, ticket, at))
			return false;
	return true;
}

static bool store_holds(struct run *run, struct power *after,
			struct raw_store *store, size_t at)
{
	const struct power_event *event = &run->power.events[at];
	struct error err;
	bool good = false;

	(void)snprintf(run->why, sizeof(run->why), "no state from %lu to %lu",
		       (unsigned long)event->durable,
		       (unsigned long)event->newest);
	for (uint64_t t = event->durable; !good && t <= event->newest; t++)
		good = state_holds(run, after, store, t, at);
	if (good && raw_state_verify(&store->state, &err) < 0) {
		(void)snprintf(run->why, sizeof(run->why), "%s",
			       error_text(&err));
		return false;
	}
	return good;
}

/* Nobody else has written to its clusters, not even to those of one copy. */
static bool checkpoint_holds(struct run *run, const struct raw_report *report)
{
	if (report->copies_damaged == report->log_copies)
		return true;
	(void)snprintf(run->why, sizeof(run->why), "the checkpoint is damaged");
	return false;
}

/* Open the medium, and find the ticket of its state. */
static bool holds(void *context, struct power *after, size_t at)
{
	struct run *run = context;
	struct raw_report report;
	struct raw_store *store;
	struct error err;
	size_t length;
	bool good;

	if (raw_store_open(&after->medium, &store, &report, &err) < 0) {
		(void)snprintf(run->why, sizeof(run->why), "%s",
			       error_text(&err));
		good = false;
	} else {
		good = store_holds(run, after, store, at) &&
		       checkpoint_holds(run, &report);
		raw_store_close(store);
	}
	if (good) {
		run->why[0] = '\0';
		return true;
	}
	length = strlen(run->why);
	(void)snprintf(run->why + length, sizeof(run->why) - length,
		       ", power failed at event %zu", at);
	return false;
}

/* What a run of @steps has brought to light goes to @ret_why; "": nothing. */
static void run_one(unsigned seed, unsigned steps, enum flaw flaw,
		    char ret_why[200], bool tell)
{
	struct run *run = malloc(sizeof(*run));

	assert_non_null(run);
	power_run_init(run, seed, flaw);
	for (unsigned i = 0; i < steps; i++)
		power_run_step(run);
	power_fail_everywhere(&run->power, seed, holds, run);
	if (tell)
		print_message("seed %u: %u steps, %zu states, %zu writes and "
			      "flushes, %u writes in place, %u copies, %u of "
			      "them again, %u written in part and %u times "
			      "more of those, %u checkpoints ahead\n",
			      seed, steps, run->states.n, run->power.n,
			      run->in_place, run->copies, run->again,
			      run->partial, run->marks, run->ahead);
	memcpy(ret_why, run->why, sizeof(run->why));
	power_run_done(run);
	free(run);
}

/* ---- the tests ---- */

static unsigned from_environment(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

static void survives_a_power_failure_at_any_write(void **unused)
{
	const unsigned first = from_environment("SEED", 1);
	const unsigned seeds = from_environment("SEEDS", 1);
	char why[200];

	(void)unused;
	for (unsigned seed = first; seed < first + seeds; seed++) {
		run_one(seed, from_environment("STEPS", 600), NO_FLAW, why,
			true);
		if (why[0])
			fail_msg("seed %u: %s", seed, why);
	}
}

/* The test above can fail: one of these seeds finds it out. Of SEED=1 only. */
static void finds_out(enum flaw flaw)
{
	char why[200] = "";

	if (from_environment("SEED", 1) != 1)
		skip(); /* it is the same for each */
	for (unsigned seed = 1; seed <= 10 && !why[0]; seed++)
		run_one(seed, 500, flaw, why, false);
	if (!why[0])
		fail_msg("nothing was found");
	print_message("%s\n", why);
}

static void finds_out_who_reuses_before_it_is_durable(void **unused)
{
	(void)unused;
	finds_out(REUSES_EARLY);
}

static void finds_out_who_writes_in_place_before_it_is_durable(void **unused)
{
	(void)unused;
	finds_out(OWNS_EARLY);
}

static void finds_out_who_drops_what_may_still_be_wanted(void **unused)
{
	(void)unused;
	finds_out(DROPS_AT_ONCE);
}

static void finds_out_who_writes_in_place_what_is_shared(void **unused)
{
	(void)unused;
	finds_out(WRITES_SHARED);
}

static void finds_out_who_maps_a_stale_copy(void **unused)
{
	(void)unused;
	finds_out(MAPS_STALE_COPIES);
}

static void finds_out_who_maps_before_the_data_is_there(void **unused)
{
	(void)unused;
	finds_out(MAPS_EARLY);
}

static void finds_out_who_marks_before_the_data_is_there(void **unused)
{
	(void)unused;
	finds_out(MARKS_EARLY);
}

static void finds_out_who_maps_more_than_was_written(void **unused)
{
	(void)unused;
	finds_out(MAPS_WHOLE);
}

static void finds_out_a_medium_that_loses_flushes(void **unused)
{
	(void)unused;
	finds_out(LOSES_FLUSHES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(survives_a_power_failure_at_any_write),
		cmocka_unit_test(finds_out_who_reuses_before_it_is_durable),
		cmocka_unit_test(
			finds_out_who_writes_in_place_before_it_is_durable),
		cmocka_unit_test(finds_out_who_drops_what_may_still_be_wanted),
		cmocka_unit_test(finds_out_who_writes_in_place_what_is_shared),
		cmocka_unit_test(finds_out_who_maps_a_stale_copy),
		cmocka_unit_test(finds_out_who_maps_before_the_data_is_there),
		cmocka_unit_test(finds_out_who_marks_before_the_data_is_there),
		cmocka_unit_test(finds_out_who_maps_more_than_was_written),
		cmocka_unit_test(finds_out_a_medium_that_loses_flushes),
	};

	/* With a share of the steps, the test above is not tested again. */
	const size_t n = every() > 1 ? 1 : sizeof(tests) / sizeof(*tests);

	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
