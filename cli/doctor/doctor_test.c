/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/doctor/doctor.h"

static struct node_state sound_node(void)
{
	struct node_state node = {.reachable = true, .clock_known = true};

	(void)strcpy(node.record.name, "a");
	(void)strcpy(node.record.control_address, "tcp:10.0.0.1:8080");
	(void)strcpy(node.version, TRIBUTARY_VERSION);
	return node;
}

/* The worst verdict on a node whose subject begins so; its text in @said. */
static enum doctor_verdict verdict_on(const struct node_state *node,
				      const char *subject, char *said)
{
	struct doctor doctor = {0};
	enum doctor_verdict worst = DOCTOR_OK;

	said[0] = '\0';
	doctor_look_at_node(&doctor, node);
	for (size_t i = 0; i < doctor.n; i++) {
		const struct doctor_finding *f = &doctor.findings[i];

		if (strncmp(f->subject, subject, strlen(subject)) != 0 ||
		    f->verdict < worst)
			continue;
		worst = f->verdict;
		(void)snprintf(said, DOCTOR_TEXT_SIZE, "%s", f->found);
		if (worst == DOCTOR_FAULT)
			assert_true(f->cost[0] && f->mend[0]);
	}
	free(doctor.findings);
	return worst;
}

static void a_sound_node_is_ok(void **state)
{
	struct node_state node = sound_node();
	char said[DOCTOR_TEXT_SIZE];

	(void)state;
	assert_int_equal(verdict_on(&node, "node a", said), DOCTOR_OK);
	assert_string_equal(said, "answers");
	node.record.control_address[0] = '\0';
	node.version[0] = '\0'; /* there is no blockd to say one */
	node.clock_known = false;
	assert_int_equal(verdict_on(&node, "node a", said), DOCTOR_OK);
	assert_string_equal(said, "only uses volumes");
}

static void a_silent_node_is_a_fault_with_its_reason(void **state)
{
	struct node_state node = sound_node();
	char said[DOCTOR_TEXT_SIZE];

	(void)state;
	node.reachable = false;
	(void)strcpy(node.problem, "connection refused");
	assert_int_equal(verdict_on(&node, "node a", said), DOCTOR_FAULT);
	assert_string_equal(said, "connection refused");
}

static enum doctor_verdict verdict_on_scrub(const struct node_state *nodes,
					    size_t n, char *said)
{
	struct doctor doctor = {0};
	enum doctor_verdict verdict;

	doctor_look_at_scrub(&doctor, nodes, n);
	assert_int_equal(doctor.n, 1);
	verdict = doctor.findings[0].verdict;
	(void)strcpy(said, doctor.findings[0].found);
	free(doctor.findings);
	return verdict;
}

static void a_scrub_is_noticed_that_is_old_or_found_something(void **state)
{
	const int64_t now_s = clock_wall_s();
	struct node_scrub scrubs[] = {{.at_s = now_s}, {.at_s = now_s - 60}};
	struct node_state nodes[] = {sound_node(), sound_node(), sound_node()};
	char said[DOCTOR_TEXT_SIZE];

	(void)state;
	nodes[0].record.scrub = &scrubs[0];
	nodes[1].record.scrub = &scrubs[1];
	nodes[2].record.control_address[0] = '\0'; /* it has no extents */
	assert_int_equal(verdict_on_scrub(nodes, 3, said), DOCTOR_OK);
	scrubs[0].orphans = 2;
	scrubs[1].missing = 1;
	assert_int_equal(verdict_on_scrub(nodes, 3, said), DOCTOR_NOTICE);
	assert_non_null(strstr(said, "records without an extent: 3"));
	scrubs[1].at_s -= 9 * 86400;
	assert_int_equal(verdict_on_scrub(nodes, 3, said), DOCTOR_NOTICE);
	assert_non_null(strstr(said, "not compared"));
	nodes[1].lost = true;
	scrubs[0].orphans = 0;
	assert_int_equal(verdict_on_scrub(nodes, 3, said), DOCTOR_OK);
	nodes[0].record.scrub = NULL;
	assert_int_equal(verdict_on_scrub(nodes, 3, said), DOCTOR_NOTICE);
}

static void another_version_is_noticed(void **state)
{
	struct node_state node = sound_node();
	char said[DOCTOR_TEXT_SIZE];

	(void)state;
	(void)strcpy(node.version, "0.0.9");
	assert_int_equal(verdict_on(&node, "node a", said), DOCTOR_NOTICE);
	assert_non_null(strstr(said, "0.0.9"));
}

static void clocks_apart_are_noticed_and_an_hour_is_a_fault(void **state)
{
	static const struct {
		int64_t ahead_ms;
		enum doctor_verdict verdict;
		const char *said;
	} cases[] = {
		{1000, DOCTOR_OK, "answers"},
		{-1000, DOCTOR_OK, "answers"},
		{5000, DOCTOR_NOTICE, "5 s ahead of"},
		{-5000, DOCTOR_NOTICE, "5 s behind"},
		{3600000, DOCTOR_FAULT, "3600 s ahead of"},
		{-3600000, DOCTOR_FAULT, "3600 s behind"},
	};
	struct node_state node = sound_node();
	char said[DOCTOR_TEXT_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		node.clock_ahead_ms = cases[i].ahead_ms;
		assert_int_equal(verdict_on(&node, "node a", said),
				 cases[i].verdict);
		assert_non_null(strstr(said, cases[i].said));
	}
	node.clock_known = false; /* an older one, which does not say */
	assert_int_equal(verdict_on(&node, "node a", said), DOCTOR_OK);
}

static void a_certificate_that_ends_soon_is_noticed(void **state)
{
	struct node_state node = sound_node();
	char said[DOCTOR_TEXT_SIZE];

	(void)state;
	(void)strcpy(node.warning, "certificate 'x' ends in 3 days");
	assert_int_equal(verdict_on(&node, "node a", said), DOCTOR_NOTICE);
	assert_string_equal(said, node.warning);
}

static void a_pool_is_judged_by_state_and_room(void **state)
{
	static const struct {
		const char *state, *message;
		uint64_t available;
		enum doctor_verdict verdict;
	} cases[] = {
		{"online", "", 512 << 20, DOCTOR_OK},
		{"online", "", 1 << 20, DOCTOR_NOTICE},
		{"online", "the disk is slow", 512 << 20, DOCTOR_NOTICE},
		{"failing", "", 0, DOCTOR_FAULT},
		{"missing", "no such file", 0, DOCTOR_FAULT},
	};
	struct node_state node = sound_node();
	struct node_pool pool = {.capacity = 1 << 30};
	char said[DOCTOR_TEXT_SIZE];

	(void)state;
	(void)strcpy(pool.name, "p");
	node.pools = &pool;
	node.n_pools = 1;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		(void)strcpy(pool.state, cases[i].state);
		(void)strcpy(pool.message, cases[i].message);
		pool.available = cases[i].available;
		assert_int_equal(verdict_on(&node, "pool a/p", said),
				 cases[i].verdict);
		assert_non_null(strstr(said, cases[i].message));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sound_node_is_ok),
		cmocka_unit_test(a_silent_node_is_a_fault_with_its_reason),
		cmocka_unit_test(
			a_scrub_is_noticed_that_is_old_or_found_something),
		cmocka_unit_test(another_version_is_noticed),
		cmocka_unit_test(
			clocks_apart_are_noticed_and_an_hour_is_a_fault),
		cmocka_unit_test(a_certificate_that_ends_soon_is_noticed),
		cmocka_unit_test(a_pool_is_judged_by_state_and_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
