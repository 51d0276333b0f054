/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor starts this program itself as its server: what it does then,
 * and the mount point, are the words of its command line. What mounts needs
 * root and /dev/fuse.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/state/fd_store.h"
#include "union/state/state.h"
#include "union/supervisor/supervisor.h"

#include <cmocka.h>

#define SUPERVISOR_FD 3
#define ASKED         "TRIB_SUPERVISOR_TEST_ASKED" /* path, made when asked */
#define RECORDS       "TRIB_SUPERVISOR_TEST_RECORDS"

static char mountpoint[64];

/* How many messages fail to be sent, for want of memory. */
static unsigned bad_sends;

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
	ssize_t (*real)(int, const struct msghdr *, int) = NULL;

	*(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
	if (!bad_sends)
		return real(socket, message, flags);
	bad_sends--;
	errno = ENOBUFS;
	return -1;
}

/* The server */

static int mount_fuse(const char *at)
{
	char data[64];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	(void)snprintf(data, sizeof(data),
		       "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	return mount("supervisor_test", at, "fuse", 0, data) < 0 ? -errno : 0;
}

/*
 * Die as the first server, killed as soon as it has mounted; the next one
 * looks.
 */
static int die_mounted(const char *at)
{
	struct error err = {0};
	struct stat st;
	char first[80];

	(void)snprintf(first, sizeof(first), "%s.first", at);
	if (unlink(first) == 0) {
		fd_store_say_mounts();
		if (mount_fuse(at) < 0)
			return 2;
		return raise(SIGKILL);
	}
	if (stat(at, &st) == 0)
		return 0;
	(void)error_set(&err, errno, "a mount is left: %s", strerror(errno));
	fd_store_say_failed(&err);
	return 1;
}

/*
 * Fail as a server that finds a dead mount: the mount was there before, and is
 * not its own.
 */
static int refuse(const char *at)
{
	struct error err = {EBUSY, "a dead mount is there"};

	(void)at;
	fd_store_say_failed(&err);
	return 1;
}

/* Answer the supervisor, when it asks which records this program keeps. */
static int say_records(void)
{
	const char *asked = getenv(ASKED), *records = getenv(RECORDS);
	int fd = asked ? open(asked, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || !records)
		return 2;
	fd_close(fd);
	puts(records);
	return 0;
}

/* Ask to be replaced. False: the program was not asked. */
static bool ask_to_be_replaced(const char *asked)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	unsigned tries;

	(void)kill(getppid(), SIGUSR2);
	for (tries = 60000; tries; tries--) {
		if (unlink(asked) == 0)
			return true;
		(void)nanosleep(&pause, NULL);
	}
	return false;
}

/* Ask the same by the socket: is it told why not? */
static bool is_refused(void)
{
	struct error err = {0};

	return fd_store_ask_replace(60000, &err) == -EREMOTEIO &&
	       strstr(err.msg, "keeps other records");
}

/*
 * Have the first server replaced, twice: when the second is asked for, the
 * first was decided. The server ends well when it was not replaced; the next
 * one does not.
 */
static int be_replaced(const char *at)
{
	const char *asked = getenv(ASKED);
	struct error err = {EBUSY, "the next one was started"};
	char first[80];

	(void)snprintf(first, sizeof(first), "%s.first", at);
	if (!asked)
		return 2;
	if (unlink(first) < 0) {
		fd_store_say_failed(&err);
		return 1;
	}
	fd_store_say_ready();
	return ask_to_be_replaced(asked) && ask_to_be_replaced(asked) &&
			       is_refused() && is_refused()
		       ? 0
		       : 1;
}

/* Keep more than the supervisor has room for. */
static int keep_too_much(const char *at)
{
	const struct rlimit few = {3, 3};

	(void)at;
	if (prlimit(getppid(), RLIMIT_NOFILE, &few, NULL) < 0)
		return 2;
	fd_store_fd(FD_STORE_FIRST, SUPERVISOR_FD);
	return 0;
}

/* Leave something as the first server; the next one has it. */
static int leave_something(const char *at)
{
	auto_close int fd = fd_store_take(FD_STORE_FUSE);
	char first[80];

	(void)snprintf(first, sizeof(first), "%s.first", at);
	if (unlink(first) < 0)
		return fd >= 0 ? 0 : 1;
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	fd_store_fd(FD_STORE_FUSE, fd);
	fd_store_say_ready();
	return raise(SIGKILL);
}

static const struct {
	const char *name;
	int (*serve)(const char *at);
} servers[] = {{"die-mounted", die_mounted},
	       {"refuse", refuse},
	       {"be-replaced", be_replaced},
	       {"keep-too-much", keep_too_much},
	       {"leave-something", leave_something}};

/* NAME MOUNTPOINT, after what the supervisor adds */
static int serve(char **words)
{
	size_t i;

	if (fd_store_start(SUPERVISOR_FD) < 0)
		return 2;
	for (i = 0; i < array_size(servers); i++)
		if (strcmp(servers[i].name, words[0]) == 0)
			return servers[i].serve(words[1]);
	return 2;
}

/* The supervisor */

static void ready(void *context)
{
	(void)context;
}

static int run(char *name, struct error *err)
{
	struct union_options options = {.mountpoint = mountpoint,
					.stored_fd = -1};
	char self[] = "supervisor_test";
	char *argv[] = {self, name, mountpoint, NULL};

	return supervisor_run(&options, (int)array_size(argv) - 1, argv, ready,
			      NULL, err);
}

static int setup(void **state)
{
	(void)state;
	log_setup("supervisor_test", LOG_LEVEL_ERROR);
	(void)snprintf(mountpoint, sizeof(mountpoint), "/tmp/trib-hold-XXXXXX");
	return mkdtemp(mountpoint) ? 0 : -1;
}

static int done(void **state)
{
	char first[80];

	(void)state;
	(void)snprintf(first, sizeof(first), "%s.first", mountpoint);
	(void)unlink(first); /* when it failed to start */
	while (umount2(mountpoint, MNT_DETACH) == 0)
		;
	return rmdir(mountpoint);
}

/* Make the next server the first. */
static void make_first(void)
{
	char first[80];
	int fd;

	(void)snprintf(first, sizeof(first), "%s.first", mountpoint);
	fd = open(first, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	fd_close(fd);
}

static bool can_mount(void)
{
	return geteuid() == 0 && access("/dev/fuse", R_OK | W_OK) == 0;
}

static void a_server_killed_as_it_mounts_leaves_no_mount(void **state)
{
	struct error err = {0};
	char name[] = "die-mounted";

	(void)state;
	if (!can_mount())
		skip();
	make_first();
	if (run(name, &err) < 0)
		fail_msg("%s", err.msg);
}

static void a_mount_of_another_stays(void **state)
{
	struct error err = {0};
	char name[] = "refuse";
	struct stat st;
	pid_t pid;

	(void)state;
	if (!can_mount())
		skip();
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(mount_fuse(mountpoint) < 0 ? 1 : 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(stat(mountpoint, &st), -1);
	assert_int_equal(errno, ENOTCONN);
	assert_true(run(name, &err) < 0);
	assert_non_null(strstr(err.msg, "a dead mount is there"));
	assert_int_equal(stat(mountpoint, &st), -1);
	assert_int_equal(errno, ENOTCONN);
}

/*
 * Run a server that is to be replaced. 0: that was asked for and not started.
 */
static int run_replaced(uint32_t records)
{
	struct error err = {0};
	char name[] = "be-replaced", asked[80], number[16];
	int r;

	(void)snprintf(asked, sizeof(asked), "%s.asked", mountpoint);
	(void)snprintf(number, sizeof(number), "%u", records);
	assert_int_equal(setenv(ASKED, asked, 1), 0);
	assert_int_equal(setenv(RECORDS, number, 1), 0);
	make_first();
	r = run(name, &err);
	(void)unlink(asked);
	if (r < 0)
		assert_non_null(strstr(err.msg, "the next one was started"));
	return r;
}

static void a_program_of_other_records_does_not_take_over(void **state)
{
	(void)state;
	assert_int_equal(run_replaced(state_layout() + 2), 0);
	assert_int_equal(run_replaced(0), 0);
}

static void a_program_of_the_same_records_takes_over(void **state)
{
	(void)state;
	assert_true(run_replaced(state_layout()) < 0);
}

static unsigned to_fail; /* when a server serves */

static void fail_sends(void *context)
{
	(void)context;
	bad_sends = to_fail;
}

static void one_that_is_not_given_all_is_replaced(void **state)
{
	struct union_options options = {.mountpoint = mountpoint,
					.stored_fd = -1};
	char self[] = "supervisor_test", name[] = "leave-something";
	char *argv[] = {self, name, mountpoint, NULL};
	struct error err = {0};

	(void)state;
	make_first();
	to_fail = 2;
	if (supervisor_run(&options, 3, argv, fail_sends, NULL, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(bad_sends, 0);
}

/* Run in a process of its own, which loses its limit. */
static void run_keep_too_much(int log_fd)
{
	struct error err = {0};
	char name[] = "keep-too-much";

	log_setup("supervisor_test", LOG_LEVEL_WARNING);
	if (dup2(log_fd, STDERR_FILENO) < 0)
		_exit(2);
	_exit(run(name, &err) < 0 ? 1 : 0);
}

static void what_is_not_kept_is_said(void **state)
{
	char text[1024] = "";
	int ends[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		run_keep_too_much(ends[1]);
	fd_close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	fd_close(ends[0]);
	assert_non_null(strstr(text, "Too many open files"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_server_killed_as_it_mounts_leaves_no_mount, setup,
			done),
		cmocka_unit_test_setup_teardown(a_mount_of_another_stays, setup,
						done),
		cmocka_unit_test_setup_teardown(
			a_program_of_other_records_does_not_take_over, setup,
			done),
		cmocka_unit_test_setup_teardown(
			a_program_of_the_same_records_takes_over, setup, done),
		cmocka_unit_test_setup_teardown(
			one_that_is_not_given_all_is_replaced, setup, done),
		cmocka_unit_test_setup_teardown(what_is_not_kept_is_said, setup,
						done),
	};

	if (argc == 5 && strcmp(argv[1], "-f") == 0)
		return serve(argv + 3);
	if (argc == 2 && strcmp(argv[1], SUPERVISOR_ASKS) == 0)
		return say_records();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
