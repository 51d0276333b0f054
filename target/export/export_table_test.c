/* SPDX-License-Identifier: Apache-2.0 */
#include "target/export/export_table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"

static const struct peer_address here = {.family = AF_INET,
					 .bytes = {127, 0, 0, 1}};

static atomic_int released;

static void release(void *context)
{
	atomic_fetch_add((atomic_int *)context, 1);
}

static int set(struct export_table *table, const char *name, uint64_t epoch,
	       const char *initiator, struct error *err)
{
	struct export_ready ready;
	int r = export_table_prepare(table,
				     &(struct target_export){
					     .name = name,
					     .epoch = epoch,
					     .initiators = &initiator,
					     .n_initiators = initiator ? 1 : 0,
					     .release = release,
					     .context = &released,
				     },
				     &ready, err);

	return r < 0 ? r : export_table_commit(table, &ready, err);
}

static void what_is_prepared_counts_when_it_is_committed(void **state)
{
	const char *any = "any";
	struct target_export spec = {.name = "a",
				     .epoch = 5,
				     .initiators = &any,
				     .n_initiators = 1,
				     .release = release,
				     .context = &released};
	struct export_user user = {.peer = here};
	struct export_ready first, second;
	struct error err = {0};

	assert_int_equal(export_table_prepare(*state, &spec, &first, NULL), 0);
	assert_int_equal(export_table_enter(*state, "a@5", &user, &err),
			 -ENOENT);
	export_table_cancel(*state, &first);
	assert_int_equal(released, 1);
	assert_int_equal(export_table_prepare(*state, &spec, &first, NULL), 0);
	spec.epoch = 6;
	assert_int_equal(export_table_prepare(*state, &spec, &second, NULL), 0);
	assert_int_equal(export_table_commit(*state, &second, &err), 0);
	assert_int_equal(export_table_commit(*state, &first, &err), -ESTALE);
	assert_int_equal(released, 2);
	assert_int_equal(export_table_enter(*state, "a@6", &user, &err), 0);
	assert_false(export_table_leave(*state, &user));
}

static int setup(void **state)
{
	released = 0;
	*state = export_table_new();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	export_table_free(*state);
	return 0;
}

static void admits_only_the_current_epoch(void **state)
{
	struct export_user user = {.peer = here};
	struct error err = {0};

	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	assert_int_equal(export_table_enter(*state, "x@3", &user, &err),
			 -EACCES);
	assert_string_equal(err.msg, "epoch 3 is older than 5");
	assert_int_equal(export_table_enter(*state, "x@6", &user, &err),
			 -EACCES);
	assert_int_equal(export_table_enter(*state, "x", &user, &err), -EACCES);
	assert_non_null(strstr(err.msg, "epoch 5"));
	assert_int_equal(export_table_enter(*state, "x@5", &user, &err), 0);
	assert_string_equal(export_name(user.export), "x@5");
	assert_false(export_table_leave(*state, &user));
}

static void takes_only_epochs_that_are_written_right(void **state)
{
	static const char *const rows[] = {
		"x@",   "x@05", "x@+5",
		"x@5 ", "x@0",  "x@-5",
		"x@@5", "@5",   "x@18446744073709551621",
		"",     "y@5",
	};
	struct export_user user = {.peer = here};

	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	for (size_t i = 0; i < array_size(rows); i++)
		assert_int_equal(
			export_table_enter(*state, rows[i], &user, NULL),
			-ENOENT);
}

static void refuses_a_peer_that_is_not_on_the_list(void **state)
{
	struct export_user user = {.peer = here};
	struct error err = {0};

	assert_int_equal(set(*state, "x", 0, "10.0.0.7", NULL), 0);
	assert_int_equal(export_table_enter(*state, "x", &user, &err), -EACCES);
	assert_string_equal(err.msg, "not allowed from 127.0.0.1");
	assert_int_equal(set(*state, "x", 0, NULL, NULL), 0);
	assert_int_equal(export_table_enter(*state, "x", &user, &err), -EACCES);
}

static void never_goes_back_to_an_older_epoch(void **state)
{
	struct error err = {0};

	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	assert_int_equal(set(*state, "x", 4, "any", &err), -ESTALE);
	assert_non_null(strstr(err.msg, "epoch 4 is older than 5"));
	assert_int_equal(released, 1); /* the one refused */
	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	assert_int_equal(released, 2);
}

static void releases_the_context_of_what_it_refuses(void **state)
{
	assert_int_equal(set(*state, "a@1", 1, "any", NULL), -EINVAL);
	assert_int_equal(set(*state, "", 1, "any", NULL), -EINVAL);
	assert_int_equal(set(*state, "a", 1, "nonsense", NULL), -EINVAL);
	assert_int_equal(released, 3);
}

static void keeps_an_export_alive_while_it_is_used(void **state)
{
	struct export_user user = {.peer = here};

	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	assert_int_equal(export_table_enter(*state, "x@5", &user, NULL), 0);
	/* The same epoch, and still admitted: the user goes on. */
	assert_int_equal(set(*state, "x", 5, "127.0.0.0/8", NULL), 0);
	assert_int_equal(released, 0);
	assert_int_equal(export_table_users(*state, "x"), 1);
	assert_false(export_table_leave(*state, &user));
	assert_int_equal(released, 1);
	assert_int_equal(export_table_users(*state, "x"), 0);
}

/* A user that leaves on another thread, some time after it is told. */
struct leaver {
	struct export_user user;
	struct export_table *table;
	pthread_t thread;
	atomic_bool told, left;
	atomic_int
		wanted; /* what one who enters at epoch 6 gets; 0: not asked */
};

static void leaver_revoke(struct export_user *user)
{
	container_of(user, struct leaver, user)->told = true;
}

static void *leaver_main(void *context)
{
	struct leaver *leaver = context;

	struct export_user next = {.peer = here};

	while (!leaver->told)
		usleep(100);
	usleep(20000);
	/* Nobody gets in while it is there, but may come again. */
	if (leaver->wanted)
		assert_int_equal(
			export_table_enter(leaver->table, "x@6", &next, NULL),
			leaver->wanted);
	leaver->left = true;
	assert_true(export_table_leave(leaver->table, &leaver->user));
	return NULL;
}

static void leaver_start(struct leaver *leaver, struct export_table *table,
			 const char *name)
{
	*leaver = (struct leaver){
		.user = {.peer = here, .revoke = leaver_revoke},
		.table = table,
	};
	assert_int_equal(export_table_enter(table, name, &leaver->user, NULL),
			 0);
	assert_int_equal(
		pthread_create(&leaver->thread, NULL, leaver_main, leaver), 0);
}

static void waits_for_the_older_epoch_to_leave(void **state)
{
	struct leaver a, b;

	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	leaver_start(&a, *state, "x@5");
	leaver_start(&b, *state, "x@5");
	a.wanted = b.wanted = -ESHUTDOWN;
	assert_int_equal(set(*state, "x", 6, "any", NULL), 0);
	assert_true(a.left && b.left);
	pthread_join(a.thread, NULL);
	pthread_join(b.thread, NULL);
	assert_int_equal(released, 1);
}

static void revokes_a_peer_taken_off_the_list(void **state)
{
	struct leaver a;

	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	leaver_start(&a, *state, "x@5");
	assert_int_equal(set(*state, "x", 5, "10.0.0.7", NULL), 0);
	assert_true(a.left);
	pthread_join(a.thread, NULL);
}

static void removing_waits_too_and_can_be_repeated(void **state)
{
	struct export_user user = {.peer = here};
	struct leaver a;

	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	leaver_start(&a, *state, "x@5");
	export_table_remove(*state, "x");
	assert_true(a.left);
	pthread_join(a.thread, NULL);
	assert_int_equal(released, 1);
	export_table_remove(*state, "x");
	export_table_remove(*state, "never was");
	assert_int_equal(export_table_enter(*state, "x@5", &user, NULL),
			 -ENOENT);
}

static void assert_withdrawn(struct export_table *table, const char *name)
{
	struct export_user user = {.peer = here};
	struct error err = {0};

	assert_int_equal(export_table_enter(table, name, &user, &err), -EACCES);
	assert_non_null(strstr(error_text(&err), "is over"));
}

static void what_is_withdrawn_is_over_for_its_epochs_only(void **state)
{
	struct export_user user = {.peer = here};
	static const char *const others[] = {"x@6", "x", "x@", "x@5x", "y@5"};

	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	assert_int_equal(export_table_end(*state, "x", 5, NULL), 0);
	assert_int_equal(released, 1);
	assert_withdrawn(*state, "x@5");
	assert_withdrawn(*state, "x@1");
	for (size_t i = 0; i < array_size(others); i++)
		assert_int_equal(
			export_table_enter(*state, others[i], &user, NULL),
			-ENOENT);
	/* Set again, it is as any other; and only removed, it may come back. */
	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	assert_int_equal(export_table_enter(*state, "x@5", &user, NULL), 0);
	assert_false(export_table_leave(*state, &user));
	export_table_remove(*state, "x");
	assert_int_equal(export_table_enter(*state, "x@5", &user, NULL),
			 -ENOENT);
	/* The export need not have been there, and the call can be repeated. */
	assert_int_equal(export_table_end(*state, "y", UINT64_MAX, NULL), 0);
	assert_int_equal(export_table_end(*state, "y", UINT64_MAX, NULL), 0);
	assert_withdrawn(*state, "y@18446744073709551615");
	assert_int_equal(export_table_end(*state, "a@b", 1, NULL), -EINVAL);
}

static void withdrawing_waits_for_who_is_there(void **state)
{
	struct leaver a;

	assert_int_equal(set(*state, "x", 5, "any", NULL), 0);
	leaver_start(&a, *state, "x@5");
	assert_int_equal(export_table_end(*state, "x", 5, NULL), 0);
	assert_true(a.left);
	pthread_join(a.thread, NULL);
	assert_int_equal(released, 1);
	assert_withdrawn(*state, "x@5");
}

static void of_what_is_over_the_oldest_is_forgotten(void **state)
{
	struct export_user user = {.peer = here};
	char name[32];

	assert_int_equal(set(*state, "stays", 5, "any", NULL), 0);
	for (int i = 0; i <= EXPORTS_WITHDRAWN_MAX; i++) {
		(void)snprintf(name, sizeof(name), "x%d", i);
		assert_int_equal(export_table_end(*state, name, 5, NULL), 0);
	}
	assert_int_equal(export_table_enter(*state, "x0@5", &user, NULL),
			 -ENOENT);
	assert_withdrawn(*state, "x1@5");
	(void)snprintf(name, sizeof(name), "x%d@5", EXPORTS_WITHDRAWN_MAX);
	assert_withdrawn(*state, name);
	assert_int_equal(export_table_enter(*state, "stays@5", &user, NULL), 0);
	assert_false(export_table_leave(*state, &user));
}

static int list_each(void *context, const char *name)
{
	strcat(context, name);
	return 0;
}

static void lists_only_what_the_peer_may_use(void **state)
{
	char names[64] = "";

	assert_int_equal(set(*state, "mine", 7, "127.0.0.1", NULL), 0);
	assert_int_equal(set(*state, "other", 7, "10.0.0.7", NULL), 0);
	assert_int_equal(export_table_list(*state, &here, list_each, names), 0);
	assert_string_equal(names, "mine@7");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(admits_only_the_current_epoch),
		TEST(what_is_prepared_counts_when_it_is_committed),
		TEST(takes_only_epochs_that_are_written_right),
		TEST(refuses_a_peer_that_is_not_on_the_list),
		TEST(never_goes_back_to_an_older_epoch),
		TEST(releases_the_context_of_what_it_refuses),
		TEST(keeps_an_export_alive_while_it_is_used),
		TEST(waits_for_the_older_epoch_to_leave),
		TEST(revokes_a_peer_taken_off_the_list),
		TEST(removing_waits_too_and_can_be_repeated),
		TEST(what_is_withdrawn_is_over_for_its_epochs_only),
		TEST(withdrawing_waits_for_who_is_there),
		TEST(of_what_is_over_the_oldest_is_forgotten),
		TEST(lists_only_what_the_peer_may_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
