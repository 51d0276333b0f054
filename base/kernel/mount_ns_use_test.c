/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/kernel/mount_ns.h"
#include "base/kernel/mount_ns_use.h"

enum use { USE_NONE, USE_FILE, USE_CWD };

/* In a namespace of its own, with a file system that nobody else has. */
static int elsewhere(enum use use, int told)
{
	struct stat st = {0};

	if (unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/tmp", "tmpfs", 0, NULL) < 0 ||
	    stat("/tmp", &st) < 0 || mkdir("/tmp/d", 0700) < 0 ||
	    chdir(use == USE_CWD ? "/tmp/d" : "/") < 0)
		return 1;
	auto_close int fd = use == USE_FILE ? open("/tmp/file",
						   O_WRONLY | O_CREAT, 0600)
					    : -1;
	if (use == USE_FILE && fd < 0)
		return 1;
	if (write(told, &st.st_dev, sizeof(st.st_dev)) < 0)
		return 1;
	(void)pause();
	return 0;
}

/* Is that use of a file system of another namespace found? */
static void expect(enum use use, bool wanted)
{
	char user[MOUNT_NS_USER_MAX] = "", name[32];
	int ends[2];
	dev_t device;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(elsewhere(use, ends[1]));
	fd_close(ends[1]);
	assert_int_equal(read(ends[0], &device, sizeof(device)),
			 sizeof(device));
	assert_int_equal(mount_ns_use_elsewhere(device, user), wanted);
	(void)snprintf(name, sizeof(name), "(%d)", (int)pid);
	if (wanted)
		assert_non_null(strstr(user, name));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(mount_ns_use_elsewhere(device, user));
	fd_close(ends[0]);
}

static void a_copy_of_the_mount_is_no_use(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	expect(USE_NONE, false);
}

static void an_open_file_and_a_working_directory_are(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	expect(USE_FILE, true);
	expect(USE_CWD, true);
}

static void a_use_in_our_own_namespace_is_not_meant(void **state)
{
	char user[MOUNT_NS_USER_MAX];
	struct stat st;

	(void)state;
	assert_int_equal(stat("/", &st), 0);
	auto_close int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	/* Others may use the root's file system; this process is not named. */
	if (mount_ns_use_elsewhere(st.st_dev, user)) {
		char name[32];

		(void)snprintf(name, sizeof(name), "(%d)", (int)getpid());
		assert_null(strstr(user, name));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_of_the_mount_is_no_use),
		cmocka_unit_test(an_open_file_and_a_working_directory_are),
		cmocka_unit_test(a_use_in_our_own_namespace_is_not_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
