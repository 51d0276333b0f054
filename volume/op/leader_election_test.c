/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/testkit/store_test_kit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/op/context.h"
#include "volume/op/leader_election.h"
#include "volume/store/kube/kube_lease.h"

/* A candidate. */
struct candidate {
	struct volume_context *ctx;
	struct volume_election *election;
	atomic_int leading; /* as it was told */
	atomic_int told;
	char text[ERROR_TEXT_MAX];
};

static void changed(void *candidate_, bool leading, const char *text)
{
	struct candidate *candidate = candidate_;

	(void)snprintf(candidate->text, sizeof(candidate->text), "%s", text);
	candidate->leading = leading;
	candidate->told++;
}

static struct candidate *candidate_new(const char *location)
{
	const struct volume_config config = {.store = location, .node = "n"};
	struct candidate *candidate = calloc(1, sizeof(*candidate));
	struct error err = {0};

	assert_non_null(candidate);
	if (volume_context_open(&config, &candidate->ctx, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(volume_election_join(candidate->ctx, "test", changed,
					      candidate, &candidate->election,
					      NULL),
			 0);
	return candidate;
}

static void candidate_free(struct candidate *candidate)
{
	volume_election_leave(candidate->election);
	assert_false(candidate->leading);
	volume_context_close(candidate->ctx);
	free(candidate);
}

static void wait_until_leads(struct candidate *candidate, bool leading)
{
	scene_wait(candidate->leading == leading);
	assert_int_equal(volume_election_leads(candidate->election), leading);
}

static void wait_until_told(struct candidate *candidate)
{
	scene_wait(candidate->told > 0);
}

static void one_leads_and_the_next_follows(const char *location)
{
	struct candidate *a = candidate_new(location), *b;

	wait_until_leads(a, true);
	b = candidate_new(location);
	wait_until_told(b);
	assert_false(volume_election_leads(b->election));
	assert_non_null(strstr(b->text, "leading"));
	assert_true(volume_election_leads(a->election));
	candidate_free(a);
	wait_until_leads(b, true);
	/* Reported once why it does not lead, once that it does. */
	assert_int_equal(b->told, 2);
	candidate_free(b);
}

static void on_one_machine(void **state)
{
	(void)state;
	one_leads_and_the_next_follows(scene.local);
}

static void in_a_cluster(void **state)
{
	(void)state;
	if (!scene.prepared)
		skip();
	one_leads_and_the_next_follows(scene.server.location);
}

/* Its renewals do not arrive, and by the server's clock its time is over. */
static void one_that_is_cut_off_is_followed_and_knows(void **state)
{
	struct candidate *a, *b;

	(void)state;
	if (!scene.prepared)
		skip();
	a = candidate_new(scene.server.location);
	wait_until_leads(a, true);
	b = candidate_new(scene.server.location);
	wait_until_told(b);
	test_server_write(&scene.server, "clock", "20");
	wait_until_leads(b, true);
	wait_until_leads(a, false);
	assert_true(volume_election_leads(b->election));
	/* The lease that it gives back now is not the other's. */
	candidate_free(a);
	assert_true(volume_election_leads(b->election));
	candidate_free(b);
}

static void the_server_comes_back_in_time(void **state)
{
	struct candidate *a;

	(void)state;
	if (!scene.prepared)
		skip();
	a = candidate_new(scene.server.location);
	wait_until_leads(a, true);
	/* Longer than a renewal's turn, shorter than the lease. */
	test_server_faults(&scene.server, "PUT leader-test 1000 cut\n");
	(void)poll(NULL, 0, (LEASE_RENEW_S + 2) * 1000);
	assert_true(volume_election_leads(a->election));
	test_server_faults(&scene.server, "");
	(void)test_server_count(&scene.server, "", "");
	scene_wait(test_server_count(&scene.server, "PUT", "leader-test 200") >
		   0);
	assert_true(volume_election_leads(a->election));
	assert_int_equal(a->told, 1);
	candidate_free(a);
}

static void a_server_that_is_down_is_waited_for(void **state)
{
	struct candidate *a;

	(void)state;
	if (!scene.prepared)
		skip();
	test_server_faults(&scene.server, "* . 1000 status 403\n");
	a = candidate_new(scene.server.location);
	wait_until_told(a);
	assert_false(volume_election_leads(a->election));
	assert_non_null(strstr(a->text, "grant"));
	test_server_faults(&scene.server, "");
	wait_until_leads(a, true);
	candidate_free(a);
}

static void a_bad_name_is_refused(void **state)
{
	const struct volume_config config = {.store = scene.local, .node = "n"};
	struct volume_context *ctx;
	struct volume_election *election;

	(void)state;
	assert_int_equal(volume_context_open(&config, &ctx, NULL), 0);
	assert_int_equal(
		volume_election_join(ctx, "a/b", NULL, NULL, &election, NULL),
		-EINVAL);
	volume_context_close(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(on_one_machine),
		SCENE_TEST(in_a_cluster),
		SCENE_TEST(one_that_is_cut_off_is_followed_and_knows),
		SCENE_TEST(the_server_comes_back_in_time),
		SCENE_TEST(a_server_that_is_down_is_waited_for),
		SCENE_TEST(a_bad_name_is_refused),
	};

	return cmocka_run_group_tests(tests, scene_prepare, scene_remove);
}
