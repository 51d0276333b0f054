/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of flows: order, failures, another run, undoing and keeping. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "volume/op/flow.h"

struct work {
	struct operation op;
	char done[16]; /* a letter for each call */
	int second;    /* results */
	int undone;
	unsigned runs_max;
};

static struct work *work_add(struct operation *op, const char *letter)
{
	struct work *w = container_of(op, struct work, op);

	(void)strcat(w->done, letter);
	return w;
}

static int run_first(struct operation *op, struct error *err)
{
	(void)err;
	(void)work_add(op, "1");
	return 0;
}

static int run_second(struct operation *op, struct error *err)
{
	int r = work_add(op, "2")->second;

	return r < 0 ? error_set(err, -r, "cause") : r;
}

static int run_third(struct operation *op, struct error *err)
{
	(void)err;
	(void)work_add(op, "3");
	return 0;
}

static bool again(struct operation *op, int r, unsigned runs)
{
	return r == -ESTALE && runs < work_add(op, "a")->runs_max;
}

static int undo(struct operation *op, int r, struct error *err)
{
	struct work *w = work_add(op, "u");

	assert_int_equal(r, w->second);
	assert_true(op->undoing);
	return w->undone < 0 ? error_set(err, -w->undone, "why") : w->undone;
}

static int keep(struct operation *op, int r, struct error *err)
{
	assert_false(op->undoing);
	(void)work_add(op, "k");
	return error_prefix(err, r, "repeat: ");
}

static void check_text(struct work *w, enum flow_failure failure, int r,
		       const char *done, const char *text)
{
	const struct flow_phase phases[] = {{run_first, FLOW_LEAVE},
					    {run_second, failure},
					    {run_third, FLOW_LEAVE},
					    {NULL, FLOW_LEAVE}};
	const struct flow flow = {phases, again, undo, keep};
	struct error err = {0};

	w->done[0] = '\0';
	assert_int_equal(flow_run(&flow, &w->op, &err), r);
	assert_string_equal(w->done, done);
	assert_string_equal(err.msg, text);
	w->done[0] = '\0';
	assert_int_equal(flow_run(&flow, &w->op, NULL), r);
	assert_string_equal(w->done, done);
}

static void phases_run_in_order_until_one_says_that_all_is_done(void **state)
{
	struct work w = {0};

	(void)state;
	check_text(&w, FLOW_UNDO, 0, "123", "");
	w.second = 1;
	check_text(&w, FLOW_UNDO, 0, "12", "");
}

static void a_failure_is_left_kept_or_undone_by_the_table(void **state)
{
	struct work w = {.second = -EIO};

	(void)state;
	check_text(&w, FLOW_LEAVE, -EIO, "12", "cause");
	check_text(&w, FLOW_KEEP, -EIO, "12k", "repeat: cause");
	check_text(&w, FLOW_UNDO, -EIO, "12u", "cause");
	w.undone = 1;
	check_text(&w, FLOW_UNDO, -EIO, "12uk", "repeat: cause");
}

static void a_failure_to_undo_is_told_after_its_cause(void **state)
{
	struct work w = {.second = -EIO, .undone = -ENOSPC};

	(void)state;
	check_text(&w, FLOW_UNDO, -EHOSTUNREACH, "12uk",
		   "repeat: cause; and to undo it failed: why");
}

static void only_what_would_be_undone_runs_again(void **state)
{
	struct work w = {.second = -ESTALE, .runs_max = 2};

	(void)state;
	check_text(&w, FLOW_UNDO, -ESTALE, "12a12au", "cause");
	check_text(&w, FLOW_KEEP, -ESTALE, "12k", "repeat: cause");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			phases_run_in_order_until_one_says_that_all_is_done),
		cmocka_unit_test(a_failure_is_left_kept_or_undone_by_the_table),
		cmocka_unit_test(a_failure_to_undo_is_told_after_its_cause),
		cmocka_unit_test(only_what_would_be_undone_runs_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
