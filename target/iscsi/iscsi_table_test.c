/* SPDX-License-Identifier: Apache-2.0 */
#include "target/iscsi/iscsi_table.h"

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

#define GROUP "iqn.2000-01.org:group"

struct tables {
	struct export_table *exports;
	struct iscsi_table *iscsi;
};

static struct tables tables;

static int setup(void **state)
{
	(void)state;
	tables.exports = export_table_new();
	tables.iscsi = iscsi_table_new(tables.exports);
	return tables.exports && tables.iscsi ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	iscsi_table_free(tables.iscsi);
	export_table_free(tables.exports);
	return 0;
}

static uint32_t block_size; /* of what is set */

/* As target_export_set() does it. */
static int set_spec(const struct target_export *spec, struct error *err)
{
	struct export_ready export;
	struct iscsi_ready lun;
	int r = export_table_prepare(tables.exports, spec, &export, err);

	if (r < 0)
		return r;
	r = iscsi_table_prepare(tables.iscsi, spec, &lun, err);
	if (r < 0) {
		export_table_cancel(tables.exports, &export);
		return r;
	}
	iscsi_table_vacate(tables.iscsi, spec);
	r = export_table_commit(tables.exports, &export, err);
	if (r == 0)
		return iscsi_table_commit(tables.iscsi, &lun, spec, err);
	iscsi_table_cancel(tables.iscsi, &lun);
	return r;
}

static int set(const char *name, const char *target, unsigned lun,
	       const char *initiator, struct error *err)
{
	struct target_scsi scsi = {.name = target,
				   .lun = lun,
				   .uuid = {(uint8_t)name[0]},
				   .size = 1 << 20,
				   .block_size = block_size};
	struct target_export spec = {.name = name,
				     .initiators = &initiator,
				     .n_initiators = 1,
				     .scsi = &scsi};

	return set_spec(&spec, err);
}

static struct peer_address peer(const char *initiator)
{
	return (struct peer_address){.family = AF_INET,
				     .bytes = {127, 0, 0, 1},
				     .initiator = initiator};
}

static int find(const char *name, const char *initiator)
{
	struct peer_address from = peer(initiator);
	struct iscsi_target *target = NULL;
	int r = iscsi_target_find(tables.iscsi, name, &from, &target);

	iscsi_target_unref(target);
	return r;
}

static int each(void *context, const char *name)
{
	strcat(context, name);
	strcat(context, " ");
	return 0;
}

static const char *list(const char *initiator)
{
	static char names[512];
	struct peer_address from = peer(initiator);

	names[0] = '\0';
	assert_int_equal(iscsi_target_list(tables.iscsi, &from, each, names),
			 0);
	return names;
}

static void a_peer_finds_what_one_export_admits(void **state)
{
	(void)state;
	assert_int_equal(set("a", GROUP, 0, "iscsi:iqn.x:me", NULL), 0);
	assert_int_equal(set("b", GROUP, 7, "iscsi:iqn.x:you@10.0.0.7", NULL),
			 0);
	assert_int_equal(set("c", NULL, 0, "any", NULL), 0);
	assert_int_equal(find(GROUP, "iqn.x:me"), 0);
	assert_int_equal(find(GROUP, "iqn.x:ME"), 0);
	assert_int_equal(find(GROUP, "iqn.x:you"), -EACCES);
	assert_int_equal(find(GROUP ":5", "iqn.x:me"), -ESTALE);
	assert_int_equal(find("iqn.2000-01.org:other", "iqn.x:me"), -ENOENT);
	assert_string_equal(list("iqn.x:me"),
			    "iqn.2025-01.io.union:c " GROUP " ");
	assert_string_equal(list("iqn.x:you"), "iqn.2025-01.io.union:c ");
}

static const struct chap_secrets one = {.user = "one",
					.secret = "the secret of one"};

static int set_secrets(void)
{
	static const char *const any = "any";
	struct target_scsi scsi = {
		.name = GROUP, .uuid = {'a'}, .size = 1 << 20, .secrets = &one};
	struct target_export spec = {.name = "a",
				     .initiators = &any,
				     .n_initiators = 1,
				     .scsi = &scsi};

	return set_spec(&spec, NULL);
}

static void *set_again(void *stop)
{
	while (!atomic_load((atomic_bool *)stop))
		if (set_secrets() < 0)
			return "refused";
	return NULL;
}

/* An initiator that logs in while an export is set again has to prove itself.
 */
static void secrets_are_never_seen_half_set(void **state)
{
	struct peer_address from = peer("iqn.x:me");
	struct chap_secrets seen;
	struct iscsi_target *target;
	atomic_bool stop = false;
	pthread_t thread;
	void *why;

	(void)state;
	assert_int_equal(set("a", GROUP, 0, "any", NULL), 0);
	assert_int_equal(set_secrets(), 0);
	assert_int_equal(iscsi_target_find(tables.iscsi, GROUP, &from, &target),
			 0);
	assert_int_equal(pthread_create(&thread, NULL, set_again, &stop), 0);
	for (unsigned i = 0; i < 20000; i++) {
		iscsi_target_secrets(target, &seen);
		if (memcmp(&seen, &one, sizeof(one)) != 0)
			break;
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(thread, &why), 0);
	assert_null(why);
	assert_memory_equal(&seen, &one, sizeof(one));
	iscsi_target_unref(target);
}

static void the_luns_of_a_place_are_its_exports(void **state)
{
	struct peer_address from = peer("iqn.x:me");
	struct iscsi_target *target;
	char name[EXPORT_FULL_NAME_MAX];
	bool has[SCSI_LUNS];
	unsigned n = 0;

	(void)state;
	assert_int_equal(set("a", GROUP, 0, "any", NULL), 0);
	assert_int_equal(set("b", GROUP, 255, "any", NULL), 0);
	assert_int_equal(iscsi_target_find(tables.iscsi, GROUP, &from, &target),
			 0);
	iscsi_target_luns(target, has);
	for (unsigned i = 0; i < SCSI_LUNS; i++)
		n += has[i];
	assert_int_equal(n, 2);
	assert_true(has[0] && has[255]);
	assert_int_equal(iscsi_target_export(target, 255, name), 0);
	assert_string_equal(name, "b");
	iscsi_table_remove(tables.iscsi, "b");
	assert_int_equal(iscsi_target_export(target, 255, name), -ENOENT);
	iscsi_target_unref(target);
}

static void what_cannot_be_is_refused_and_named(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(set("a", GROUP, 256, "any", &err), -EINVAL);
	assert_int_equal(set("a", "no name", 0, "any", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "'no name'"));
	assert_int_equal(set("a", GROUP ":7", 0, "any", &err), -EINVAL);
	assert_non_null(strstr(err.msg, "epoch"));
	assert_int_equal(set("a", GROUP, 0, "any", NULL), 0);
	assert_int_equal(set("b", GROUP, 0, "any", &err), -EEXIST);
	assert_non_null(strstr(err.msg, "LUN 0"));
}

/* A session's use of an export, which leaves when it is told. */
struct leaver {
	struct export_user user;
	pthread_t thread;
	atomic_bool told;
};

static void leaver_revoke(struct export_user *user)
{
	container_of(user, struct leaver, user)->told = true;
}

static void *leaver_main(void *context)
{
	struct leaver *leaver = context;

	while (!leaver->told)
		usleep(1000);
	/* Nobody gets in by what it was. */
	assert_int_equal(find(GROUP, "iqn.x:me"), -ENOENT);
	assert_true(export_table_leave(tables.exports, &leaver->user));
	return NULL;
}

static void a_session_leaves_before_its_lun_is_another(void **state)
{
	struct leaver leaver = {.user = {.peer = peer("iqn.x:me"),
					 .revoke = leaver_revoke,
					 .scsi_target = GROUP,
					 .lun = 3}};

	(void)state;
	assert_int_equal(set("a", GROUP, 3, "any", NULL), 0);
	assert_int_equal(
		export_table_enter(tables.exports, "a", &leaver.user, NULL), 0);
	/* The same again disturbs nobody. */
	assert_int_equal(set("a", GROUP, 3, "any", NULL), 0);
	assert_false(leaver.told);
	assert_int_equal(
		pthread_create(&leaver.thread, NULL, leaver_main, &leaver), 0);
	assert_int_equal(set("a", GROUP "2", 3, "any", NULL), 0);
	assert_true(leaver.told);
	pthread_join(leaver.thread, NULL);
	/* A user that looked before and comes now gets nothing. */
	assert_int_equal(
		export_table_enter(tables.exports, "a", &leaver.user, NULL),
		-EACCES);
}

/* An initiator asks for the size of blocks when it logs in, and goes by it. */
static void a_session_leaves_before_its_disk_has_other_blocks(void **state)
{
	struct leaver leaver = {.user = {.peer = peer("iqn.x:me"),
					 .revoke = leaver_revoke,
					 .scsi_target = GROUP,
					 .lun = 3}};

	(void)state;
	block_size = 512;
	assert_int_equal(set("a", GROUP, 3, "any", NULL), 0);
	assert_int_equal(
		export_table_enter(tables.exports, "a", &leaver.user, NULL), 0);
	assert_int_equal(
		pthread_create(&leaver.thread, NULL, leaver_main, &leaver), 0);
	block_size = 4096;
	assert_int_equal(set("a", GROUP, 3, "any", NULL), 0);
	block_size = 0;
	assert_true(leaver.told);
	pthread_join(leaver.thread, NULL);
}

static void session_revoke(struct iscsi_login_user *user)
{
	(void)user; /* it says so itself */
}

static void a_tagged_name_is_of_one_incarnation(void **state)
{
	struct peer_address from = peer("iqn.x:me");
	struct iscsi_login_user session = {.revoke = session_revoke,
					   .initiator = "iqn.x:me"};
	struct iscsi_target *target;
	struct target_scsi scsi = {.size = 1 << 20, .tag = "0a"};
	const char *any = "any";
	struct target_export spec = {.name = "v",
				     .epoch = 3,
				     .initiators = &any,
				     .n_initiators = 1,
				     .scsi = &scsi};

	(void)state;
#define V TARGET_ISCSI_PREFIX ":v:3"
	assert_int_equal(set_spec(&spec, NULL), 0);
	assert_int_equal(find(V, "iqn.x:me"), 0);
	assert_int_equal(find(V ":0b", "iqn.x:me"), -ESTALE);
	assert_int_equal(find(V ":0", "iqn.x:me"), -ESTALE);
	assert_int_equal(find(V ":0a0", "iqn.x:me"), -ESTALE);
	assert_int_equal(
		iscsi_target_find(tables.iscsi, V ":0a", &from, &target), 0);
	assert_string_equal(list("iqn.x:me"), V " ");
	session.target = target;
	assert_int_equal(iscsi_login_enter(tables.iscsi, &session), 0);
	/* The same again disturbs nobody. */
	assert_int_equal(set_spec(&spec, NULL), 0);
	assert_false(session.revoked);
	scsi.tag = "0b";
	assert_int_equal(set_spec(&spec, NULL), 0);
	assert_true(session.revoked);
	assert_int_equal(find(V ":0a", "iqn.x:me"), -ESTALE);
	assert_int_equal(find(V ":0b", "iqn.x:me"), 0);
	assert_true(iscsi_login_leave(tables.iscsi, &session));
	iscsi_target_unref(target);
	scsi.tag = "012345678901234567890123456789012";
	assert_int_equal(set_spec(&spec, NULL), -EINVAL);
}

static void find_lun(const char *name_of, unsigned lun, const char *export)
{
	struct peer_address from = peer("iqn.x:me");
	char name[EXPORT_FULL_NAME_MAX];
	struct iscsi_target *target;

	assert_int_equal(
		iscsi_target_find(tables.iscsi, name_of, &from, &target), 0);
	assert_int_equal(iscsi_target_export(target, lun, name), 0);
	assert_string_equal(name, export);
	iscsi_target_unref(target);
}

/* Whatever fails: sessions go on, and the old target is still found. */
static void what_cannot_be_set_leaves_what_was(void **state)
{
	struct target_scsi scsi = {
		.name = GROUP, .size = 1 << 20, .uuid = {'a'}};
	const char *any = "any";
	struct target_export spec = {.name = "a",
				     .epoch = 5,
				     .initiators = &any,
				     .n_initiators = 1,
				     .scsi = &scsi};
	struct iscsi_ready first, second;

	(void)state;
	assert_int_equal(set_spec(&spec, NULL), 0);
	spec.name = "b";
	scsi.lun = 1;
	assert_int_equal(set_spec(&spec, NULL), 0);
	assert_int_equal(set_spec(&spec, NULL), 0);
	scsi.lun = 0;
	assert_int_equal(set_spec(&spec, NULL), -EEXIST);
	find_lun(GROUP ":5", 1, "b@5");
	scsi.lun = 1;
	scsi.block_size = 700;
	assert_int_equal(set_spec(&spec, NULL), -EINVAL);
	scsi.block_size = 4096;
	spec.epoch = 4;
	assert_int_equal(set_spec(&spec, NULL), -ESTALE);
	spec.epoch = 6;
	scsi.state_path = "/dev"; /* of no reservations */
	assert_int_not_equal(set_spec(&spec, NULL), 0);
	any = "no address";
	scsi.state_path = NULL;
	assert_int_equal(set_spec(&spec, NULL), -EINVAL);
	find_lun(GROUP ":5", 0, "a@5");
	find_lun(GROUP ":5", 1, "b@5");
	/* A LUN that somebody is about to take is taken. */
	any = "any";
	scsi.lun = 2;
	assert_int_equal(iscsi_table_prepare(tables.iscsi, &spec, &first, NULL),
			 0);
	spec.name = "c";
	assert_int_equal(
		iscsi_table_prepare(tables.iscsi, &spec, &second, NULL),
		-EEXIST);
	iscsi_table_cancel(tables.iscsi, &first);
	assert_int_equal(set_spec(&spec, NULL), 0);
	find_lun(GROUP ":6", 2, "c@6");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(a_peer_finds_what_one_export_admits),
		TEST(secrets_are_never_seen_half_set),
		TEST(the_luns_of_a_place_are_its_exports),
		TEST(what_cannot_be_is_refused_and_named),
		TEST(a_session_leaves_before_its_lun_is_another),
		TEST(a_session_leaves_before_its_disk_has_other_blocks),
		TEST(a_tagged_name_is_of_one_incarnation),
		TEST(what_cannot_be_set_leaves_what_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
