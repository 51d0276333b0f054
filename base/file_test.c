/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"

/* A directory of its own for each test; files in it are removed after. */
struct place {
	char path[64];
	int fd;
};

static struct place place;

static int place_make(void **state)
{
	strcpy(place.path, "/tmp/file-test.XXXXXX");
	if (!mkdtemp(place.path))
		return -1;
	place.fd = open(place.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = &place;
	return place.fd < 0 ? -1 : 0;
}

/* Call @one for each name in the directory. */
static unsigned names_each(int dirfd, void (*one)(int dirfd, const char *name))
{
	DIR *dir = fdopendir(openat(dirfd, ".", O_RDONLY | O_CLOEXEC));
	unsigned n = 0;
	struct dirent *d;

	assert_non_null(dir);
	while ((d = readdir(dir))) {
		if (d->d_name[0] == '.' &&
		    strncmp(d->d_name, FILE_TEMPORARY_PREFIX,
			    strlen(FILE_TEMPORARY_PREFIX)) != 0)
			continue;
		n++;
		if (one)
			one(dirfd, d->d_name);
	}
	assert_int_equal(closedir(dir), 0);
	return n;
}

static void name_remove(int dirfd, const char *name)
{
	if (unlinkat(dirfd, name, 0) < 0)
		(void)unlinkat(dirfd, name, AT_REMOVEDIR);
}

static int place_remove(void **state)
{
	struct place *p = *state;

	names_each(p->fd, name_remove);
	fd_close(p->fd);
	return rmdir(p->path);
}

static void write_file(struct place *p, const char *name, const char *text)
{
	struct error err = {0};

	if (file_replace(p->fd, name, text, strlen(text), 0600, &err) < 0)
		fail_msg("%s", err.msg);
}

static void assert_file(struct place *p, const char *name, const char *text)
{
	auto_free char *data = NULL;
	struct error err = {0};
	size_t length = 0;

	if (file_read(p->fd, name, 1 << 20, &data, &length, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(length, strlen(text));
	assert_string_equal(data, text);
}

static void reads_what_was_written(void **state)
{
	struct place *p = *state;

	write_file(p, "a", "hello");
	assert_file(p, "a", "hello");
	write_file(p, "a", "");
	assert_file(p, "a", "");
	assert_int_equal(names_each(p->fd, NULL), 1);
}

static void the_largest_size_is_a_limit(void **state)
{
	struct place *p = *state;
	auto_free char *data = NULL;
	struct error err = {0};
	size_t length = 0;

	write_file(p, "a", "12345");
	assert_int_equal(file_read(p->fd, "a", 4, &data, &length, &err),
			 -EFBIG);
	assert_null(data);
	assert_non_null(strstr(err.msg, "larger than 4 bytes"));
	assert_int_equal(file_read(p->fd, "a", 5, &data, &length, NULL), 0);
	assert_int_equal(length, 5);
}

static void reads_files_that_tell_no_size(void **state)
{
	auto_free char *data = NULL;
	size_t length = 0;

	(void)state;
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/status", 65536, &data,
				   &length, NULL),
			 0);
	assert_true(length > 100);
	assert_int_equal(strlen(data), length);
	/* The limit holds although fstat(2) says 0. */
	assert_int_equal(file_read(AT_FDCWD, "/proc/self/status", 100, &data,
				   &length, NULL),
			 -EFBIG);
}

static void reads_a_large_file_whole(void **state)
{
	struct place *p = *state;
	auto_free char *big = malloc(300001), *data = NULL;
	size_t length = 0;

	assert_non_null(big);
	for (size_t i = 0; i < 300001; i++)
		big[i] = (char)(i * 31);
	assert_int_equal(file_replace(p->fd, "b", big, 300001, 0600, NULL), 0);
	assert_int_equal(file_read(p->fd, "b", 300001, &data, &length, NULL),
			 0);
	assert_int_equal(length, 300001);
	assert_memory_equal(data, big, 300001);
}

static void refuses_to_read_what_is_no_file(void **state)
{
	struct place *p = *state;
	auto_free char *data = NULL;
	struct error err = {0};
	size_t length;

	assert_int_equal(mkfifoat(p->fd, "fifo", 0600), 0);
	assert_int_equal(file_read(p->fd, "fifo", 10, &data, &length, &err),
			 -EINVAL);
	assert_int_equal(file_read(p->fd, ".", 10, &data, &length, &err),
			 -EISDIR);
	assert_int_equal(file_read(p->fd, "none", 10, &data, &length, &err),
			 -ENOENT);
	assert_non_null(strstr(err.msg, "'none'"));
}

static void the_mode_is_exact_whatever_the_umask(void **state)
{
	struct place *p = *state;
	mode_t umask_before = umask(077);
	struct stat st;

	assert_int_equal(file_replace(p->fd, "a", "x", 1, 0644, NULL), 0);
	(void)umask(0);
	assert_int_equal(file_replace(p->fd, "b", "x", 1, 0600, NULL), 0);
	(void)umask(umask_before);
	assert_int_equal(fstatat(p->fd, "a", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(fstatat(p->fd, "b", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void paths_and_o_path_directories_serve_too(void **state)
{
	struct place *p = *state;
	auto_close int fd = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[128];

	assert_true(fd >= 0);
	assert_int_equal(file_replace(fd, "a", "one", 3, 0600, NULL), 0);
	assert_file(p, "a", "one");
	(void)snprintf(path, sizeof(path), "%s/a", p->path);
	assert_int_equal(file_replace(AT_FDCWD, path, "two", 3, 0600, NULL), 0);
	assert_file(p, "a", "two");
	assert_int_equal(mkdirat(p->fd, "d", 0700), 0);
	assert_int_equal(file_replace(p->fd, "d/e", "x", 1, 0600, NULL), 0);
	assert_file(p, "d/e", "x");
	assert_int_equal(file_remove(p->fd, "d/e", NULL), 0);
}

static void a_failed_write_keeps_the_old_and_leaves_nothing(void **state)
{
	struct place *p = *state;
	struct rlimit before, small = {100, 100};
	struct error err = {0};
	char data[200] = {0};
	int r;

	write_file(p, "a", "old");
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	r = file_replace(p->fd, "a", data, sizeof(data), 0600, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(r, -EFBIG);
	assert_non_null(strstr(err.msg, "'a'"));
	assert_file(p, "a", "old");
	assert_int_equal(names_each(p->fd, NULL), 1);
}

static void a_failed_rename_leaves_nothing(void **state)
{
	struct place *p = *state;
	struct error err = {0};

	assert_int_equal(mkdirat(p->fd, "d", 0700), 0);
	assert_int_equal(file_replace(p->fd, "d", "x", 1, 0600, &err), -EISDIR);
	assert_int_equal(names_each(p->fd, NULL), 1);
	assert_int_equal(file_replace(p->fd, "no/a", "x", 1, 0600, &err),
			 -ENOENT);
	assert_non_null(strstr(err.msg, "'no'"));
}

static void leftovers_of_a_crash_do_not_matter(void **state)
{
	struct place *p = *state;

	write_file(p, "a", "old");
	write_file(p, FILE_TEMPORARY_PREFIX "0123456789abcdef", "half");
	write_file(p, "a", "new");
	assert_file(p, "a", "new");
	assert_int_equal(names_each(p->fd, NULL), 2);
}

#define REPLACEMENTS 200

static void *replace_often(void *arg)
{
	struct place *p = arg;
	char data[5000];

	for (int i = 0; i < REPLACEMENTS; i++) {
		memset(data, i % 2 ? 'b' : 'a', sizeof(data));
		if (file_replace(p->fd, "x", data, sizeof(data), 0600, NULL))
			return p;
	}
	return NULL;
}

static void a_reader_sees_the_old_or_the_new_whole(void **state)
{
	struct place *p = *state;
	void *failed = p;
	pthread_t writer;

	write_file(p, "x", "");
	assert_int_equal(pthread_create(&writer, NULL, replace_often, p), 0);
	while (pthread_tryjoin_np(writer, &failed) == EBUSY) {
		auto_free char *data = NULL;
		size_t length = 0;

		assert_int_equal(
			file_read(p->fd, "x", 5000, &data, &length, NULL), 0);
		assert_true(length == 0 || length == 5000);
		for (size_t i = 0; i < length; i++)
			assert_int_equal(data[i], data[0]);
	}
	assert_null(failed);
}

/* The program itself, as a writer to be killed. */
static int replace_for_ever(const char *path)
{
	char data[5000];
	char letter = 'a';

	for (;;) {
		memset(data, letter, sizeof(data));
		if (file_replace(AT_FDCWD, path, data, sizeof(data), 0600,
				 NULL) < 0)
			return 1;
		letter = letter == 'z' ? 'a' : (char)(letter + 1);
	}
}

static void a_writer_killed_at_any_point_leaves_a_whole_file(void **state)
{
	struct place *p = *state;
	char path[128];
	const char *const argv[] = {"/proc/self/exe", "--replace-for-ever",
				    path, NULL};
	unsigned seed = 7;

	(void)snprintf(path, sizeof(path), "%s/x", p->path);
	write_file(p, "x", "");
	for (int i = 0; i < 30; i++) {
		auto_free char *data = NULL;
		struct error err = {0};
		size_t length = 0;
		pid_t pid;

		if (process_start(argv, -1, -1, &pid, &err) < 0)
			fail_msg("%s", err.msg);
		(void)usleep((useconds_t)(rand_r(&seed) % 20000));
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(
			file_read(p->fd, "x", 5000, &data, &length, NULL), 0);
		assert_true(length == 0 || length == 5000);
		for (size_t at = 0; at < length; at++)
			assert_int_equal(data[at], data[0]);
	}
	/* And a new writer goes on beside the files they left. */
	write_file(p, "x", "after");
	assert_file(p, "x", "after");
}

static void removing_twice_is_fine(void **state)
{
	struct place *p = *state;
	struct error err = {0};

	write_file(p, "a", "x");
	assert_int_equal(file_remove(p->fd, "a", NULL), 0);
	assert_int_equal(names_each(p->fd, NULL), 0);
	assert_int_equal(file_remove(p->fd, "a", NULL), 0);
	assert_int_equal(file_remove(p->fd, "none/a", NULL), 0);
	assert_int_equal(mkdirat(p->fd, "d", 0700), 0);
	assert_int_equal(file_remove(p->fd, "d", &err), -EISDIR);
	assert_non_null(strstr(err.msg, "'d'"));
}

static void makes_every_missing_directory(void **state)
{
	struct place *p = *state;
	struct error err = {0};
	char path[128];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/b/c//d/", p->path);
	assert_int_equal(dir_make(path, 0750, NULL), 0);
	assert_int_equal(fstatat(p->fd, "b/c/d", &st, 0), 0);
	assert_int_equal(st.st_mode & 0777, 0750);
	assert_int_equal(dir_make(path, 0750, NULL), 0);
	assert_int_equal(dir_make("/", 0750, NULL), 0);
	assert_int_equal(dir_make(".", 0750, NULL), 0);
	assert_int_equal(dir_make("", 0750, NULL), -ENOENT);
	assert_int_equal(unlinkat(p->fd, "b/c/d", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(p->fd, "b/c", AT_REMOVEDIR), 0);
	write_file(p, "a", "x");
	(void)snprintf(path, sizeof(path), "%s/a/c", p->path);
	assert_int_equal(dir_make(path, 0750, &err), -ENOTDIR);
	assert_non_null(strstr(err.msg, "/a'"));
}

static void a_write_to_nobody_is_an_error(void **state)
{
	int ends[2];

	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fd_write_all(ends[1], "abc", 3), 0);
	fd_close(ends[0]);
	assert_int_equal(fd_write_all(ends[1], "abc", 3), -EPIPE);
	fd_close(ends[1]);
}

static void finds_a_program_beside_its_own(void **state)
{
	char path[PATH_MAX];

	(void)state;
	assert_string_equal(file_find_program("file_test", path), path);
	assert_int_equal(access(path, X_OK), 0);
	assert_string_equal(strrchr(path, '/'), "/file_test");
	assert_string_equal(file_find_program("no_such", path), "no_such");
}

int main(int argc, char **argv)
{
#define IN_A_PLACE(test) \
	cmocka_unit_test_setup_teardown(test, place_make, place_remove)
	const struct CMUnitTest tests[] = {
		IN_A_PLACE(reads_what_was_written),
		IN_A_PLACE(the_largest_size_is_a_limit),
		cmocka_unit_test(reads_files_that_tell_no_size),
		IN_A_PLACE(reads_a_large_file_whole),
		IN_A_PLACE(refuses_to_read_what_is_no_file),
		IN_A_PLACE(the_mode_is_exact_whatever_the_umask),
		IN_A_PLACE(paths_and_o_path_directories_serve_too),
		IN_A_PLACE(a_failed_write_keeps_the_old_and_leaves_nothing),
		IN_A_PLACE(a_failed_rename_leaves_nothing),
		IN_A_PLACE(leftovers_of_a_crash_do_not_matter),
		IN_A_PLACE(a_reader_sees_the_old_or_the_new_whole),
		IN_A_PLACE(a_writer_killed_at_any_point_leaves_a_whole_file),
		IN_A_PLACE(removing_twice_is_fine),
		IN_A_PLACE(makes_every_missing_directory),
		cmocka_unit_test(a_write_to_nobody_is_an_error),
		cmocka_unit_test(finds_a_program_beside_its_own),
	};

	if (argc == 3 && strcmp(argv[1], "--replace-for-ever") == 0)
		return replace_for_ever(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
