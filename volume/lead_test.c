/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "volume/context.h"
#include "volume/kube_lease.h"
#include "volume/kube_test_server.h"
#include "volume/lead.h"

#define PATIENCE_MS 20000

static struct test_server server;
static bool prepared;
static char directory[64];
static char local[96];

/* One who would lead. */
struct candidate {
	struct volume_context *ctx;
	struct volume_lead *lead;
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
	assert_int_equal(volume_lead_start(candidate->ctx, "test", changed,
					   candidate, &candidate->lead, NULL),
			 0);
	return candidate;
}

static void candidate_free(struct candidate *candidate)
{
	volume_lead_stop(candidate->lead);
	assert_false(candidate->leading);
	volume_context_close(candidate->ctx);
	free(candidate);
}

static void wait_until_leads(struct candidate *candidate, bool leading)
{
	for (int ms = 0; candidate->leading != leading; ms += 20) {
		assert_true(ms < PATIENCE_MS);
		(void)poll(NULL, 0, 20);
	}
	assert_int_equal(volume_lead_is(candidate->lead), leading);
}

static void wait_until_told(struct candidate *candidate)
{
	for (int ms = 0; candidate->told == 0; ms += 20) {
		assert_true(ms < PATIENCE_MS);
		(void)poll(NULL, 0, 20);
	}
}

static void one_leads_and_the_next_follows(const char *location)
{
	struct candidate *a = candidate_new(location), *b;

	wait_until_leads(a, true);
	b = candidate_new(location);
	wait_until_told(b);
	assert_false(volume_lead_is(b->lead));
	assert_non_null(strstr(b->text, "leading"));
	assert_true(volume_lead_is(a->lead));
	candidate_free(a);
	wait_until_leads(b, true);
	/* Said once why it does not lead, once that it does. */
	assert_int_equal(b->told, 2);
	candidate_free(b);
}

static void on_one_machine(void **state)
{
	(void)state;
	one_leads_and_the_next_follows(local);
}

static void in_a_cluster(void **state)
{
	(void)state;
	if (!prepared)
		skip();
	one_leads_and_the_next_follows(server.location);
}

/* Its renewals do not arrive, and by the server's clock its time is over. */
static void one_that_is_cut_off_is_followed_and_knows(void **state)
{
	struct candidate *a, *b;

	(void)state;
	if (!prepared)
		skip();
	a = candidate_new(server.location);
	wait_until_leads(a, true);
	b = candidate_new(server.location);
	wait_until_told(b);
	test_server_write(&server, "clock", "20");
	wait_until_leads(b, true);
	wait_until_leads(a, false);
	assert_true(volume_lead_is(b->lead));
	/* What it gives back now is not the other's. */
	candidate_free(a);
	assert_true(volume_lead_is(b->lead));
	candidate_free(b);
}

static void the_server_comes_back_in_time(void **state)
{
	struct candidate *a;

	(void)state;
	if (!prepared)
		skip();
	a = candidate_new(server.location);
	wait_until_leads(a, true);
	/* Longer than a renewal's turn, shorter than the lease. */
	test_server_faults(&server, "PUT leader-test 1000 cut\n");
	(void)poll(NULL, 0, (KUBE_LEASE_RENEW_S + 2) * 1000);
	assert_true(volume_lead_is(a->lead));
	test_server_faults(&server, "");
	(void)test_server_count(&server, "", "");
	for (int ms = 0; ms < PATIENCE_MS; ms += 100) {
		if (test_server_count(&server, "PUT", "leader-test 200") > 0)
			break;
		(void)poll(NULL, 0, 100);
	}
	assert_true(volume_lead_is(a->lead));
	assert_int_equal(a->told, 1);
	candidate_free(a);
}

static void a_server_that_is_down_is_waited_for(void **state)
{
	struct candidate *a;

	(void)state;
	if (!prepared)
		skip();
	test_server_faults(&server, "* . 1000 status 403\n");
	a = candidate_new(server.location);
	wait_until_told(a);
	assert_false(volume_lead_is(a->lead));
	assert_non_null(strstr(a->text, "grant"));
	test_server_faults(&server, "");
	wait_until_leads(a, true);
	candidate_free(a);
}

static void a_bad_name_is_refused(void **state)
{
	const struct volume_config config = {.store = local, .node = "n"};
	struct volume_context *ctx;
	struct volume_lead *lead;

	(void)state;
	assert_int_equal(volume_context_open(&config, &ctx, NULL), 0);
	assert_int_equal(volume_lead_start(ctx, "a/b", NULL, NULL, &lead, NULL),
			 -EINVAL);
	volume_context_close(ctx);
}

static int begin(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/lead-test.XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	(void)snprintf(local, sizeof(local), "local:%s/records.db", directory);
	if (prepared)
		test_server_start(&server);
	return 0;
}

static int end(void **state)
{
	static const char *const files[] = {"", "-wal", "-shm"};
	char name[128];

	(void)state;
	test_server_stop(&server);
	test_server_write(&server, "faults", "");
	test_server_write(&server, "clock", "0");
	for (size_t i = 0; i < array_size(files); i++) {
		(void)snprintf(name, sizeof(name), "%s/records.db%s", directory,
			       files[i]);
		(void)unlink(name);
	}
	return rmdir(directory);
}

#define LEAD_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LEAD_TEST(on_one_machine),
		LEAD_TEST(in_a_cluster),
		LEAD_TEST(one_that_is_cut_off_is_followed_and_knows),
		LEAD_TEST(the_server_comes_back_in_time),
		LEAD_TEST(a_server_that_is_down_is_waited_for),
		LEAD_TEST(a_bad_name_is_refused),
	};
	int r;

	prepared = test_server_prepare(&server);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	test_server_remove(&server);
	return r;
}
