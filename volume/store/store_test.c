/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "volume/op/store_open.h"
#include "volume/testkit/store_conformance.h"

static char directory[64];
static char path[96];

static int make_directory(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/store-test.XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/deep/records.db", directory);
	return 0;
}

static int remove_directory(void **state)
{
	static const char *const files[] = {"deep/records.db",
					    "deep/records.db-wal",
					    "deep/records.db-shm"};
	char name[128];

	(void)state;
	for (size_t i = 0; i < array_size(files); i++) {
		(void)snprintf(name, sizeof(name), "%s/%s", directory,
			       files[i]);
		(void)unlink(name);
	}
	(void)snprintf(name, sizeof(name), "%s/deep", directory);
	(void)rmdir(name);
	return rmdir(directory); /* nothing else was left there */
}

static void the_local_store_conforms(void **state)
{
	(void)state;
	store_conformance(path);
}

static void its_file_is_for_its_owner_only(void **state)
{
	struct store *store;
	struct stat st;
	mode_t mask = umask(0);

	(void)state;
	assert_int_equal(store_open(path, &store, NULL), 0);
	umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	store_close(store);
}

static void sql(const char *text)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void a_newer_schema_is_refused(void **state)
{
	struct store *store;
	struct error err = {0};

	(void)state;
	assert_int_equal(store_open(path, &store, NULL), 0);
	store_close(store);
	sql("PRAGMA user_version = 3");
	assert_int_equal(store_open(path, &store, &err), -EPROTONOSUPPORT);
	assert_non_null(strstr(err.msg, "upgrade"));
}

static void an_older_schema_is_brought_up_to_date(void **state)
{
	struct store_beat *beats;
	struct store *store;
	size_t n;

	(void)state;
	assert_int_equal(store_open(path, &store, NULL), 0);
	store_close(store);
	sql("DROP TABLE beats; PRAGMA user_version = 1");
	assert_int_equal(store_open(path, &store, NULL), 0);
	assert_int_equal(store->ops->beat(store, "n", NULL), 0);
	assert_int_equal(store->ops->beats(store, &beats, &n, NULL), 0);
	assert_int_equal(n, 1);
	free(beats);
	store_close(store);
}

/* As long as the process lives nobody else could get it. */
static void a_lease_that_could_not_be_given_back_is_given_back_later(
	void **state)
{
	struct store *store, *other;

	(void)state;
	assert_int_equal(store_open(path, &store, NULL), 0);
	assert_int_equal(store_open(path, &other, NULL), 0);
	assert_int_equal(
		store->ops->lease(store, "VolumeSplit", "v", "a", NULL), 0);
	assert_int_equal(
		store->ops->lease(store, "VolumeSplit", "w", "a", NULL), 0);
	sql("CREATE TRIGGER full BEFORE DELETE ON leases BEGIN SELECT "
	    "RAISE(ABORT, 'no room'); END");
	store->ops->release(store, "VolumeSplit", "v");
	store->ops->release(store, "VolumeSplit", "w");
	assert_int_equal(
		other->ops->lease(other, "VolumeSplit", "v", "b", NULL),
		-EAGAIN);
	sql("DROP TRIGGER full");
	for (int ms = 0;
	     other->ops->lease(other, "VolumeSplit", "v", "b", NULL) < 0 ||
	     other->ops->lease(other, "VolumeSplit", "w", "b", NULL) < 0;
	     ms += 20) {
		assert_true(ms < 20000);
		other->ops->release(other, "VolumeSplit", "v");
		(void)poll(NULL, 0, 20);
	}
	store_close(store);
	store_close(other);
}

static void a_foreign_database_is_refused(void **state)
{
	struct store *store;

	(void)state;
	assert_int_equal(dir_make(directory, 0700, NULL), 0);
	(void)snprintf(path, sizeof(path), "%s/deep", directory);
	assert_int_equal(dir_make(path, 0700, NULL), 0);
	(void)snprintf(path, sizeof(path), "%s/deep/records.db", directory);
	sql("CREATE TABLE mine (a)");
	assert_int_equal(store_open(path, &store, NULL), -EUCLEAN);
	sql("DROP TABLE mine"); /* nothing was changed in it */
}

static void a_file_that_is_no_database_is_left_alone(void **state)
{
	char name[96];
	struct store *store;
	struct error err = {0};
	auto_free char *data = NULL;
	size_t length;

	(void)state;
	(void)snprintf(name, sizeof(name), "%s/deep", directory);
	assert_int_equal(dir_make(name, 0700, NULL), 0);
	assert_int_equal(
		file_replace(AT_FDCWD, path, "hello, world\n", 13, 0600, NULL),
		0);
	assert_int_equal(store_open(path, &store, &err), -EUCLEAN);
	assert_int_equal(file_read(AT_FDCWD, path, 100, &data, &length, NULL),
			 0);
	assert_string_equal(data, "hello, world\n");
}

static void an_unknown_store_is_named_with_those_there_are(void **state)
{
	struct store *store;
	struct error err = {0};

	(void)state;
	assert_int_equal(store_open("redis:somewhere", &store, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "local:"));
}

#define STORE_TEST(f) \
	cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(the_local_store_conforms),
		STORE_TEST(its_file_is_for_its_owner_only),
		STORE_TEST(a_newer_schema_is_refused),
		STORE_TEST(an_older_schema_is_brought_up_to_date),
		STORE_TEST(
			a_lease_that_could_not_be_given_back_is_given_back_later),
		STORE_TEST(a_foreign_database_is_refused),
		STORE_TEST(a_file_that_is_no_database_is_left_alone),
		cmocka_unit_test(
			an_unknown_store_is_named_with_those_there_are),
	};
	int r = store_conformance_child(argc, argv);

	return r >= 0 ? r : cmocka_run_group_tests(tests, NULL, NULL);
}
