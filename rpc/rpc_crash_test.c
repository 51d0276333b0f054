/* SPDX-License-Identifier: Apache-2.0 */
/* A server in a process of its own, that is killed or stands still. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/process.h"
#include "rpc/rpc_test_kit.h"

struct crash {
	struct kit kit;
	pid_t pid; /* 0: none */
};

static void serve(struct crash *c)
{
	const char *const argv[] = {"/proc/self/exe", "--serve", c->kit.address,
				    NULL};

	assert_int_equal(process_start(argv, -1, -1, &c->pid, NULL), 0);
}

static void end(struct crash *c)
{
	if (c->pid) {
		(void)kill(c->pid, SIGKILL);
		(void)waitpid(c->pid, NULL, 0);
	}
	c->pid = 0;
}

static int setup(void **state)
{
	struct crash *c = calloc(1, sizeof(*c));

	kit_make(&c->kit);
	*state = c;
	serve(c);
	return rpc_client_new(c->kit.address, NULL, NULL, &c->kit.client,
			      &c->kit.err);
}

static int teardown(void **state)
{
	struct crash *c = *state;

	end(c);
	kit_done(&c->kit);
	free(c);
	return 0;
}

static void *kill_soon(void *context)
{
	struct crash *c = context;

	(void)usleep(200000);
	end(c);
	return NULL;
}

static void *replace_soon(void *context)
{
	(void)kill_soon(context);
	(void)usleep(200000);
	serve(context);
	return NULL;
}

static void tells_that_the_server_died(void **state)
{
	struct crash *c = *state;
	pthread_t thread;
	int64_t start;

	assert_int_equal(kit_get(&c->kit, "echo:x", 30000, NULL), 0);
	start = clock_ms(); /* before that thread begins to wait */
	assert_int_equal(pthread_create(&thread, NULL, kill_soon, c), 0);
	assert_int_equal(kit_get(&c->kit, "wait:60000", 3000, NULL),
			 -EHOSTUNREACH);
	assert_in_range(clock_ms() - start, 150, 30000);
	assert_non_null(strstr(c->kit.err.msg, c->kit.address));
	assert_non_null(strstr(c->kit.err.msg, "Connection refused"));
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void sends_a_call_again_that_was_cut_off(void **state)
{
	struct crash *c = *state;
	pthread_t thread;

	assert_int_equal(kit_get(&c->kit, "echo:x", 30000, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, replace_soon, c), 0);
	if (kit_get(&c->kit, "wait:700", 30000, NULL) < 0)
		fail_msg("%s", c->kit.err.msg);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A connection that died unseen is no reason to fail. */
static void goes_on_with_the_next_server(void **state)
{
	struct crash *c = *state;

	for (int i = 0; i < 5; i++) {
		int64_t start;

		assert_int_equal(kit_get(&c->kit, "echo:x", 30000, NULL), 0);
		end(c);
		serve(c); /* over the dead one's socket and lock */
		start = clock_ms();
		if (kit_get(&c->kit, "echo:x", 30000, NULL) < 0)
			fail_msg("round %d: %s", i, c->kit.err.msg);
		assert_true(clock_ms() - start < 20000);
	}
}

static int count(void *context, const ProtobufCMessage *m)
{
	(void)m;
	*(int *)context += 1;
	return 0;
}

static void asks_the_next_server_for_a_stream(void **state)
{
	struct crash *c = *state;
	Tributary__V1__ListExtentsRequest in =
		TRIBUTARY__V1__LIST_EXTENTS_REQUEST__INIT;
	int n = 0;

	in.pool = (char *)"7";
	assert_int_equal(kit_get(&c->kit, "echo:x", 30000, NULL), 0);
	end(c);
	serve(c);
	assert_int_equal(rpc_client_stream(c->kit.client, kit_methods[1].path,
					   &in.base, kit_methods[1].out, 10000,
					   count, &n, &c->kit.err),
			 0);
	assert_int_equal(n, 7);
}

static void names_the_process_that_serves(void **state)
{
	struct crash *c = *state;
	char who[32];

	assert_int_equal(kit_get(&c->kit, "echo:x", 30000, NULL), 0);
	assert_int_equal(
		rpc_server_start(&c->kit.options, &c->kit.server, &c->kit.err),
		-EADDRINUSE);
	(void)snprintf(who, sizeof(who), "(pid %d)", (int)c->pid);
	assert_non_null(strstr(c->kit.err.msg, who));
	assert_int_equal(kit_get(&c->kit, "echo:x", 30000, NULL), 0);
}

static void waits_no_longer_than_told_for_one_that_stands_still(void **state)
{
	struct crash *c = *state;
	int64_t start;
	int status = 0;

	assert_int_equal(kit_get(&c->kit, "echo:x", 30000, NULL), 0);
	assert_int_equal(kill(c->pid, SIGSTOP), 0);
	/* The process goes on for a moment. */
	assert_int_equal(waitpid(c->pid, &status, WUNTRACED), c->pid);
	assert_true(WIFSTOPPED(status));
	start = clock_ms();
	assert_int_equal(kit_get(&c->kit, "echo:x", 500, NULL), -ETIMEDOUT);
	assert_true(clock_ms() - start < 20000);
	assert_int_equal(kill(c->pid, SIGCONT), 0);
	assert_int_equal(kit_get(&c->kit, "echo:x", 30000, NULL), 0);
}

static int serve_main(const char *address)
{
	static struct kit kit;
	struct rpc_server *server;

	kit.options = (struct rpc_server_options){
		.addresses = &address,
		.n_addresses = 1,
		.methods = kit_methods,
		.n_methods = kit_n_methods,
		.context = &kit.seen,
	};
	if (rpc_server_start(&kit.options, &server, NULL) < 0)
		return 1;
	for (;;)
		(void)pause();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		T(tells_that_the_server_died),
		T(sends_a_call_again_that_was_cut_off),
		T(goes_on_with_the_next_server),
		T(asks_the_next_server_for_a_stream),
		T(names_the_process_that_serves),
		T(waits_no_longer_than_told_for_one_that_stands_still),
	};

	if (argc == 3 && strcmp(argv[1], "--serve") == 0)
		return serve_main(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
