/* SPDX-License-Identifier: Apache-2.0 */
/* Pools and extents in directories that are made and removed here. */
#include "blockd/node.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/size.h"
#include "blockd/pool_dir.h"

#define CAPACITY (64 * MIB)

struct kit {
	char dir[64];
	char path[128]; /* the last one that at() made */
	struct node *node;
};

static const char *at(struct kit *k, const char *name)
{
	(void)snprintf(k->path, sizeof(k->path), "%s/%s", k->dir, name);
	return k->path;
}

static void start(struct kit *k)
{
	char state[128];
	struct node_options options = {.state_dir = state, .floor = 1};
	struct error err = {0};

	(void)snprintf(state, sizeof(state), "%s/state", k->dir);
	assert_int_equal(node_new(&options, &k->node, &err), 0);
	assert_int_equal(node_open_known(k->node, &err), 0);
}

static void restart(struct kit *k)
{
	node_free(k->node);
	k->node = NULL;
	start(k);
}

static int add_pool(struct kit *k, const char *name, const char *dir,
		    struct error *err)
{
	struct node_pool_request request = {
		.name = name,
		.path = at(k, dir),
		.capacity = CAPACITY,
		.may_format = true,
	};

	return node_add_pool(k->node, &request, err);
}

static int setup(void **state)
{
	struct kit *k = calloc(1, sizeof(*k));

	log_setup("node_test", LOG_LEVEL_ERROR);
	(void)snprintf(k->dir, sizeof(k->dir), "/tmp/trib-node-test.XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	assert_int_equal(mkdir(at(k, "a"), 0755), 0);
	start(k);
	assert_int_equal(add_pool(k, "a", "a", NULL), 0);
	*state = k;
	return 0;
}

static int teardown(void **state)
{
	struct kit *k = *state;
	const char *argv[] = {"rm", "-rf", "--one-file-system", k->dir, NULL};

	node_free(k->node);
	assert_int_equal(process_must(argv, 30000, NULL), 0);
	free(k);
	return 0;
}

static int create(struct kit *k, const char *name, uint64_t size,
		  struct error *err)
{
	struct extent_request request = {
		.pool = "a", .name = name, .size = size};
	struct extent *extent;
	int r = extent_create(k->node, &request, &extent, NULL, err);

	if (r == 0)
		extent_unref(extent);
	return r;
}

static struct node_pool_info info(struct kit *k, const char *name)
{
	struct node_pool_info *list, found;
	size_t n;

	assert_int_equal(node_list_pools(k->node, name, &list, &n, NULL), 0);
	assert_int_equal(n, 1);
	found = list[0];
	free(list);
	return found;
}

static struct extent *find(struct kit *k, const char *name)
{
	struct extent *extent = NULL;

	(void)extent_find(k->node, name, &extent, NULL);
	return extent;
}

static bool damaged(struct kit *k, const char *name, const char *why)
{
	struct extent *extent = find(k, name);
	bool is;

	assert_non_null(extent);
	is = extent->damage && strstr(extent->damage, why);
	extent_unref(extent);
	return is;
}

static void put_file(struct kit *k, const char *name, const char *text)
{
	assert_int_equal(file_replace(AT_FDCWD, at(k, name), text, strlen(text),
				      0600, NULL),
			 0);
}

/* ---- extents ---- */

static void makes_an_extent_once(void **state)
{
	struct kit *k = *state;
	struct extent_request request = {.name = "x", .size = MIB};
	struct extent *one, *two;
	bool made;
	struct stat st;

	assert_int_equal(extent_create(k->node, &request, &one, &made, NULL),
			 0);
	assert_true(made);
	assert_int_equal(extent_create(k->node, &request, &two, &made, NULL),
			 0);
	assert_false(made);
	assert_ptr_equal(one, two);
	extent_unref(one);
	extent_unref(two);
	assert_int_equal(stat(at(k, "a/extents/x.data"), &st), 0);
	assert_int_equal(st.st_size, MIB);
	assert_int_equal(st.st_blocks, 0);
	assert_true(info(k, "a").reserved == MIB);
}

static void says_in_what_an_extent_differs(void **state)
{
	struct kit *k = *state;
	char key[] = "k", value[] = "v";
	struct extent_label label = {key, value};
	struct extent_request request = {.name = "x", .size = MIB};
	struct error err = {0};
	struct extent *extent;

	assert_int_equal(create(k, "x", MIB, NULL), 0);
	assert_int_equal(create(k, "x", 2 * MIB, &err), -EEXIST);
	assert_non_null(strstr(err.msg, "1048576 bytes, not 2097152"));
	request.labels = &label;
	request.n_labels = 1;
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, &err),
			 -EEXIST);
	assert_non_null(strstr(err.msg, "labels"));
}

static void refuses_bad_names_sizes_and_pools(void **state)
{
	struct kit *k = *state;
	struct extent_request request = {
		.pool = "none", .name = "x", .size = MIB};
	struct extent *extent;

	assert_int_equal(create(k, "../x", MIB, NULL), -EINVAL);
	assert_int_equal(create(k, "", MIB, NULL), -EINVAL);
	assert_int_equal(create(k, "x", MIB + 512, NULL), -EINVAL);
	assert_int_equal(create(k, "x", 4096, NULL), -EINVAL);
	assert_int_equal(create(k, "x", UINT64_MAX, NULL), -EINVAL);
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 -ENOENT);
	assert_true(info(k, "a").reserved == 0);
}

static void says_how_much_room_there_is(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	assert_int_equal(create(k, "x", CAPACITY - MIB, NULL), 0);
	assert_int_equal(create(k, "y", 2 * MIB, &err), -ENOSPC);
	assert_non_null(strstr(err.msg, "pool 'a' has room for 1.00 MiB"));
	assert_null(find(k, "y"));
	assert_true(info(k, "a").space.available == MIB);
	assert_int_equal(create(k, "y", MIB, NULL), 0);
	assert_true(info(k, "a").space.available == 0);
}

static void says_how_large_all_extents_are(void **state)
{
	struct kit *k = *state;

	assert_true(info(k, "a").nominal == 0);
	assert_int_equal(create(k, "x", MIB, NULL), 0);
	assert_int_equal(create(k, "y", 2 * MIB, NULL), 0);
	assert_true(info(k, "a").nominal == 3 * MIB);
	assert_int_equal(extent_delete(k->node, "x", NULL, NULL), 0);
	restart(k);
	assert_true(info(k, "a").nominal == 2 * MIB);
}

static void grows_within_the_room_and_never_shrinks(void **state)
{
	struct kit *k = *state;
	struct extent *extent;

	assert_int_equal(create(k, "x", MIB, NULL), 0);
	extent = find(k, "x");
	assert_int_equal(extent_resize(extent, 2 * MIB, NULL), 0);
	assert_int_equal(extent_resize(extent, 2 * MIB, NULL), 0);
	assert_int_equal(extent_resize(extent, MIB, NULL), -ERANGE);
	assert_int_equal(extent_resize(extent, 2 * MIB + 1, NULL), -EINVAL);
	assert_int_equal(extent_resize(extent, CAPACITY + MIB, NULL), -ENOSPC);
	extent_unref(extent);
	assert_true(info(k, "a").reserved == 2 * MIB);
	restart(k);
	extent = find(k, "x");
	assert_true(extent->record.size == 2 * MIB);
	extent_unref(extent);
}

struct told {
	unsigned times;
	uint64_t size; /* bytes, at the last */
};

static void note_growth(void *context, struct extent *extent)
{
	struct told *told = context;

	told->times++;
	told->size = extent->record.size;
}

static void tells_its_users_once_it_has_grown(void **state)
{
	struct kit *k = *state;
	struct extent *extent;
	struct told told = {0};

	k->node->users.grown = note_growth;
	k->node->users.context = &told;
	assert_int_equal(create(k, "x", MIB, NULL), 0);
	extent = find(k, "x");
	assert_int_equal(extent_resize(extent, CAPACITY + MIB, NULL), -ENOSPC);
	assert_int_equal(extent_resize(extent, 0, NULL), -EINVAL);
	assert_int_equal(told.times, 0);
	assert_int_equal(extent_resize(extent, 3 * MIB, NULL), 0);
	assert_true(told.times == 1 && told.size == 3 * MIB);
	/* Whoever repeats it may have missed the first answer. */
	assert_int_equal(extent_resize(extent, 3 * MIB, NULL), 0);
	assert_true(told.times == 2 && told.size == 3 * MIB);
	extent_unref(extent);
	k->node->users = (struct extent_users){0};
}

static void deletes_only_the_one_meant(void **state)
{
	struct kit *k = *state;

	assert_int_equal(create(k, "x", MIB, NULL), 0);
	assert_int_equal(extent_delete(k->node, "x", "other", NULL), -ESTALE);
	assert_int_equal(extent_delete(k->node, "x", "", NULL), 0);
	assert_int_equal(extent_delete(k->node, "x", "", NULL), 0);
	assert_int_equal(access(at(k, "a/extents/x.data"), F_OK), -1);
	assert_int_equal(access(at(k, "a/extents/x.extent"), F_OK), -1);
	assert_true(info(k, "a").reserved == 0);
}

static int say_busy(void *context, struct extent *extent, const char *before,
		    struct error *err)
{
	(void)context;
	(void)before;
	return error_set(err, EBUSY, "'%s' is in use", extent->record.name);
}

static void keeps_an_extent_in_use(void **state)
{
	struct kit *k = *state;

	k->node->users.check_idle = say_busy;
	assert_int_equal(create(k, "x", MIB, NULL), 0);
	assert_int_equal(extent_delete(k->node, "x", "", NULL), -EBUSY);
	k->node->users.check_idle = NULL;
	assert_int_equal(extent_delete(k->node, "x", "", NULL), 0);
}

/* ---- races ---- */

#define RACERS 32

struct racer {
	pthread_t thread;
	struct kit *kit;
	unsigned number;
	unsigned made;
};

/* 4 of 4 MiB each: 512 MiB asked for, 64 MiB there. */
static void *race(void *context)
{
	struct racer *racer = context;

	for (unsigned i = 0; i < 4; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "x-%u-%u", racer->number, i);
		racer->made += create(racer->kit, name, 4 * MIB, NULL) == 0;
	}
	return NULL;
}

static unsigned run_race(struct kit *k, void *(*run)(void *))
{
	struct racer racers[RACERS] = {0};
	unsigned made = 0;

	for (unsigned i = 0; i < RACERS; i++) {
		racers[i].kit = k;
		racers[i].number = i;
		assert_int_equal(pthread_create(&racers[i].thread, NULL, run,
						&racers[i]),
				 0);
	}
	for (unsigned i = 0; i < RACERS; i++) {
		(void)pthread_join(racers[i].thread, NULL);
		made += racers[i].made;
	}
	return made;
}

static void never_promises_too_much_to_racing_creates(void **state)
{
	struct kit *k = *state;

	assert_int_equal(run_race(k, race), CAPACITY / (4 * MIB));
	assert_true(info(k, "a").reserved == CAPACITY);
	restart(k);
	assert_true(info(k, "a").reserved == CAPACITY);
	assert_int_equal(info(k, "a").extents, CAPACITY / (4 * MIB));
}

/* Everybody makes and deletes the same one. */
static void *fight(void *context)
{
	struct racer *racer = context;

	for (unsigned i = 0; i < 4; i++) {
		racer->made += create(racer->kit, "x", MIB, NULL) == 0;
		(void)extent_delete(racer->kit->node, "x", NULL, NULL);
	}
	return NULL;
}

static void counts_right_when_one_name_is_fought_over(void **state)
{
	struct kit *k = *state;

	assert_int_equal(run_race(k, fight), RACERS * 4);
	assert_null(find(k, "x"));
	assert_true(info(k, "a").reserved == 0);
	restart(k);
	assert_int_equal(info(k, "a").extents, 0);
}

/* ---- recovery ---- */

static void comes_back_as_it_was(void **state)
{
	struct kit *k = *state;
	char key[] = "k", value[] = "v = w";
	struct extent_label label = {key, value};
	struct extent_request request = {.pool = "a",
					 .name = "x",
					 .size = MIB,
					 .labels = &label,
					 .n_labels = 1};
	struct extent *extent;
	char id[UUID_TEXT_SIZE];

	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 0);
	memcpy(id, extent->record.id, sizeof(id));
	extent_unref(extent);
	restart(k);
	extent = find(k, "x");
	assert_non_null(extent);
	assert_string_equal(extent->record.id, id);
	assert_string_equal(extent->record.labels[0].value, "v = w");
	assert_true(extent->record.blank);
	extent_unref(extent);
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 0);
	extent_unref(extent);
}

static void names_damage_and_touches_nothing(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	struct stat before, after;

	assert_int_equal(create(k, "good", MIB, NULL), 0);
	assert_int_equal(create(k, "torn", 2 * MIB, NULL), 0);
	assert_int_equal(create(k, "short", 3 * MIB, NULL), 0);
	assert_int_equal(create(k, "bare", 4 * MIB, NULL), 0);
	assert_int_equal(create(k, "lost", 5 * MIB, NULL), 0);
	put_file(k, "a/extents/torn.extent", "tributary-extent 1\nname=to");
	assert_int_equal(truncate(at(k, "a/extents/short.data"), MIB), 0);
	assert_int_equal(unlink(at(k, "a/extents/bare.extent")), 0);
	assert_int_equal(unlink(at(k, "a/extents/lost.data")), 0);
	assert_int_equal(stat(at(k, "a/extents/torn.extent"), &before), 0);
	restart(k);

	assert_true(damaged(k, "torn", "torn.extent is damaged"));
	assert_true(damaged(k, "short", "1048576 bytes"));
	assert_true(damaged(k, "bare", "no record"));
	assert_true(damaged(k, "lost", "lost.data"));
	assert_int_equal(info(k, "a").extents, 5);
	assert_true(info(k, "a").reserved == (1 + 2 + 3 + 4 + 5) * MIB);
	assert_int_equal(extent_delete(k->node, "torn", NULL, &err), -EIO);
	assert_int_equal(create(k, "torn", 2 * MIB, &err), -EEXIST);
	assert_int_equal(create(k, "bare", 4 * MIB, &err), -EEXIST);
	assert_int_equal(stat(at(k, "a/extents/torn.extent"), &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(access(at(k, "a/extents/bare.data"), F_OK), 0);
	assert_int_equal(extent_delete(k->node, "good", NULL, &err), 0);
}

static void finds_a_record_under_another_name_damaged(void **state)
{
	struct kit *k = *state;
	char other[160];

	assert_int_equal(create(k, "x", MIB, NULL), 0);
	(void)snprintf(other, sizeof(other), "%s", at(k, "a/extents/y.extent"));
	assert_int_equal(rename(at(k, "a/extents/x.extent"), other), 0);
	restart(k);
	assert_true(damaged(k, "y", "record of 'x'"));
	assert_true(damaged(k, "x", "no record"));
}

static void cuts_back_a_grow_that_was_not_finished(void **state)
{
	struct kit *k = *state;
	struct stat st;

	assert_int_equal(create(k, "x", MIB, NULL), 0);
	assert_int_equal(truncate(at(k, "a/extents/x.data"), 3 * MIB), 0);
	put_file(k, "a/extents/" FILE_TEMPORARY_PREFIX "1", "torn");
	restart(k);
	assert_int_equal(stat(at(k, "a/extents/x.data"), &st), 0);
	assert_int_equal(st.st_size, MIB);
	assert_int_equal(
		access(at(k, "a/extents/" FILE_TEMPORARY_PREFIX "1"), F_OK),
		-1);
}

/* ---- pools ---- */

static void takes_a_pool_again_and_no_other_in_its_place(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	struct node_pool_request request = {.name = "a", .may_format = true};

	assert_int_equal(add_pool(k, "a", "a", NULL), 0);
	assert_int_equal(add_pool(k, "b", "a", &err), -EEXIST);
	assert_int_equal(mkdir(at(k, "b"), 0755), 0);
	assert_int_equal(add_pool(k, "a", "b", &err), -EEXIST);
	assert_int_equal(mkdir(at(k, "a/sub"), 0755), 0);
	assert_int_equal(add_pool(k, "b", "a/sub", &err), -EEXIST);
	assert_non_null(strstr(err.msg, "inside pool 'a'"));
	assert_int_equal(add_pool(k, "b", ".", &err), -EEXIST);
	assert_int_equal(add_pool(k, "b", "none", &err), -ENOENT);
	assert_int_equal(add_pool(k, "B!", "b", &err), -EINVAL);
	request.path = at(k, "a");
	assert_int_equal(node_add_pool(k->node, &request, &err), -EEXIST);
	assert_non_null(strstr(err.msg, "capacity"));
}

static void leaves_a_directory_with_files_alone(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	assert_int_equal(mkdir(at(k, "b"), 0755), 0);
	put_file(k, "b/precious", "data");
	assert_int_equal(add_pool(k, "b", "b", &err), -ENOTEMPTY);
	assert_non_null(strstr(err.msg, "choose an empty directory"));
	assert_int_equal(access(at(k, "b/lock"), F_OK), -1);
	assert_int_equal(access(at(k, "b/extents"), F_OK), -1);
}

static void locks_out_a_second_one(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	struct pool *pool;

	assert_int_equal(pool_dir_open(at(k, "a"), "a", NULL, &pool, &err),
			 -EBUSY);
	assert_non_null(strstr(err.msg, "in use by another blockd (pid"));
}

static void reports_a_missing_pool_and_makes_none_in_its_place(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	char away[160];

	assert_int_equal(create(k, "x", MIB, NULL), 0);
	(void)snprintf(away, sizeof(away), "%s", at(k, "away"));
	assert_int_equal(rename(at(k, "a"), away), 0);
	assert_int_equal(mkdir(at(k, "a"), 0755), 0);
	restart(k);
	assert_int_equal(info(k, "a").state, NODE_POOL_MISSING);
	assert_int_equal(add_pool(k, "a", "a", &err), -ENOENT);
	assert_int_equal(access(at(k, "a/" POOL_DIR_IDENTITY), F_OK), -1);
	assert_int_equal(create(k, "y", MIB, &err), -ENODEV);
	assert_int_equal(node_delete_pool(k->node, "a", &err), -ENODEV);

	/* It came back, at another place. */
	assert_int_equal(add_pool(k, "a", "away", NULL), 0);
	assert_int_equal(info(k, "a").state, NODE_POOL_ONLINE);
	assert_true(info(k, "a").reserved == MIB);
	restart(k);
	assert_int_equal(info(k, "a").extents, 1);
}

static void reports_a_foreign_and_a_damaged_pool(void **state)
{
	struct kit *k = *state;
	char a[160];

	assert_int_equal(mkdir(at(k, "b"), 0755), 0);
	assert_int_equal(add_pool(k, "b", "b", NULL), 0);
	node_free(k->node);
	k->node = NULL;
	(void)snprintf(a, sizeof(a), "%s", at(k, "a/" POOL_DIR_IDENTITY));
	assert_int_equal(rename(at(k, "b/" POOL_DIR_IDENTITY), a), 0);
	put_file(k, "b/" POOL_DIR_IDENTITY, "tributary-pool 1\n");
	start(k);
	assert_int_equal(info(k, "a").state, NODE_POOL_FOREIGN);
	assert_non_null(strstr(info(k, "a").message, "holds pool 'b'"));
	assert_int_equal(info(k, "b").state, NODE_POOL_DAMAGED);
}

static void deletes_an_empty_pool_only(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	assert_int_equal(create(k, "x", MIB, NULL), 0);
	assert_int_equal(node_delete_pool(k->node, "a", &err), -EBUSY);
	assert_non_null(strstr(err.msg, "1 extents"));
	assert_int_equal(extent_delete(k->node, "x", NULL, NULL), 0);
	assert_int_equal(node_delete_pool(k->node, "a", NULL), 0);
	assert_int_equal(node_delete_pool(k->node, "a", NULL), 0);
	assert_int_equal(rmdir(at(k, "a")), 0);
	restart(k);
	assert_false(node_knows_pool(k->node, "a"));
}

static void does_not_promise_one_medium_twice(void **state)
{
	struct kit *k = *state;
	struct node_pool_request request = {.name = "b", .may_format = true};
	struct node_pool_info before, after;

	assert_int_equal(mkdir(at(k, "b"), 0755), 0);
	request.path = at(k, "b");
	assert_int_equal(node_add_pool(k->node, &request, NULL), 0);
	before = info(k, "b");
	assert_int_equal(create(k, "x", 32 * MIB, NULL), 0);
	after = info(k, "b");
	/* Others write to this disk too: less than 16 MiB meanwhile. */
	assert_true(after.space.capacity + 16 * MIB < before.space.capacity);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(makes_an_extent_once),
		TEST(says_in_what_an_extent_differs),
		TEST(refuses_bad_names_sizes_and_pools),
		TEST(says_how_much_room_there_is),
		TEST(says_how_large_all_extents_are),
		TEST(grows_within_the_room_and_never_shrinks),
		TEST(tells_its_users_once_it_has_grown),
		TEST(deletes_only_the_one_meant),
		TEST(keeps_an_extent_in_use),
		TEST(never_promises_too_much_to_racing_creates),
		TEST(counts_right_when_one_name_is_fought_over),
		TEST(comes_back_as_it_was),
		TEST(names_damage_and_touches_nothing),
		TEST(finds_a_record_under_another_name_damaged),
		TEST(cuts_back_a_grow_that_was_not_finished),
		TEST(takes_a_pool_again_and_no_other_in_its_place),
		TEST(leaves_a_directory_with_files_alone),
		TEST(locks_out_a_second_one),
		TEST(reports_a_missing_pool_and_makes_none_in_its_place),
		TEST(reports_a_foreign_and_a_damaged_pool),
		TEST(deletes_an_empty_pool_only),
		TEST(does_not_promise_one_medium_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
