/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file_lock.h"
#include "base/process.h"
#include "base/unix_served.h"

#define CHILD_MS 300 /* that the child of a killed owner stays */

/* An owner, and its child that has not executed its program. */
struct bed {
	char dir[64], lock[96];
	struct sockaddr_un socket;
	pid_t owner, child;
	int let_go; /* closed: the child ends */
};

static void be_child(int let_go)
{
	char byte;

	(void)!read(let_go, &byte, 1);
	_exit(0);
}

static void be_owner(const struct bed *bed, int told, int let_go)
{
	char who[FILE_LOCK_WHO_MAX];
	int fd = open(bed->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	pid_t child;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (file_lock_take(fd, who) < 0 || file_lock_sign(fd) < 0 ||
	    bind(s, (const struct sockaddr *)&bed->socket,
		 sizeof(bed->socket)) < 0 ||
	    listen(s, 1) < 0)
		_exit(1);
	child = fork();
	if (child == 0)
		be_child(let_go);
	if (write(told, &child, sizeof(child)) == sizeof(child))
		(void)pause();
	_exit(1);
}

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	int told[2], let_go[2];

	assert_non_null(bed);
	(void)strcpy(bed->dir, "/tmp/file-lock-test.XXXXXX");
	assert_non_null(mkdtemp(bed->dir));
	(void)snprintf(bed->lock, sizeof(bed->lock), "%s/lock", bed->dir);
	bed->socket.sun_family = AF_UNIX;
	(void)snprintf(bed->socket.sun_path, sizeof(bed->socket.sun_path),
		       "%s/socket", bed->dir);
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	assert_int_equal(pipe2(let_go, O_CLOEXEC), 0);
	bed->owner = fork();
	if (bed->owner == 0) {
		(void)close(let_go[1]);
		be_owner(bed, told[1], let_go[0]);
	}
	(void)close(told[1]);
	(void)close(let_go[0]);
	assert_int_equal(read(told[0], &bed->child, sizeof(bed->child)),
			 sizeof(bed->child));
	(void)close(told[0]);
	bed->let_go = let_go[1];
	*state = bed;
	return 0;
}

static void kill_owner(struct bed *bed)
{
	if (!bed->owner)
		return;
	assert_int_equal(kill(bed->owner, SIGKILL), 0);
	assert_int_equal(waitpid(bed->owner, NULL, 0), bed->owner);
	bed->owner = 0;
}

/* Let the child end after CHILD_MS. */
static void let_go_later(struct bed *bed)
{
	pid_t timer = fork();

	if (timer == 0) {
		(void)usleep(CHILD_MS * 1000);
		_exit(0); /* with the last copy of the pipe's end */
	}
	assert_true(timer > 0);
	(void)close(take_fd(&bed->let_go));
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	fd_close(bed->let_go);
	kill_owner(bed);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	(void)unlink(bed->lock);
	(void)unlink(bed->socket.sun_path);
	assert_int_equal(rmdir(bed->dir), 0);
	free(bed);
	return 0;
}

static void a_killed_owner_s_child_is_waited_for(void **state)
{
	struct bed *bed = *state;
	auto_close int fd = open(bed->lock, O_RDWR | O_CLOEXEC);
	char who[FILE_LOCK_WHO_MAX];

	kill_owner(bed);
	assert_int_equal(kill(bed->child, 0), 0); /* and has the lock */
	let_go_later(bed);
	assert_int_equal(file_lock_take(fd, who), 0);
}

static void a_live_owner_is_named_at_once(void **state)
{
	struct bed *bed = *state;
	auto_close int fd = open(bed->lock, O_RDWR | O_CLOEXEC);
	char who[FILE_LOCK_WHO_MAX], name[64];
	int64_t start = clock_ms();

	(void)snprintf(name, sizeof(name), "file_lock_test (pid %d)",
		       bed->owner);
	assert_int_equal(file_lock_take(fd, who), -EBUSY);
	assert_true(clock_ms() - start < FILE_LOCK_MS / 2);
	assert_string_equal(who, name);
	/* A stopped owner may go on. */
	assert_int_equal(kill(bed->owner, SIGSTOP), 0);
	assert_int_equal(waitpid(bed->owner, NULL, WUNTRACED), bed->owner);
	assert_int_equal(file_lock_take(fd, who), -EBUSY);
	assert_true(clock_ms() - start < FILE_LOCK_MS / 2);
}

static void a_child_that_stays_is_named(void **state)
{
	struct bed *bed = *state;
	auto_close int fd = open(bed->lock, O_RDWR | O_CLOEXEC);
	char who[FILE_LOCK_WHO_MAX], name[96];

	(void)snprintf(name, sizeof(name),
		       "file_lock_test (pid %d), left by pid %d, which ended",
		       bed->child, bed->owner);
	kill_owner(bed);
	assert_int_equal(file_lock_take(fd, who), -EBUSY);
	assert_string_equal(who, name);
}

/* Another process may have got the number: a container's first is 1 again. */
static void the_number_of_an_ended_owner_is_not_its_owner(void **state)
{
	struct bed *bed = *state;
	auto_close int fd = open(bed->lock, O_RDWR | O_CLOEXEC);
	char who[FILE_LOCK_WHO_MAX], text[32];
	int length = snprintf(text, sizeof(text), "%d 1\n", getpid());

	kill_owner(bed);
	assert_int_equal(pwrite(fd, text, (size_t)length, 0), length);
	let_go_later(bed);
	assert_int_equal(file_lock_take(fd, who), 0);
}

static void a_socket_of_a_killed_owner_is_waited_for(void **state)
{
	struct bed *bed = *state;
	int64_t start = clock_ms();

	assert_int_equal(unix_served(&bed->socket, SOCK_SEQPACKET), 1);
	assert_true(clock_ms() - start < FILE_LOCK_MS / 2);
	kill_owner(bed);
	let_go_later(bed);
	assert_int_equal(unix_served(&bed->socket, SOCK_SEQPACKET), 0);
	assert_int_equal(unlink(bed->socket.sun_path), 0);
	assert_int_equal(unix_served(&bed->socket, SOCK_SEQPACKET), -ENOENT);
}

static void a_killed_process_is_ending(void **state)
{
	struct bed *bed = *state;
	unsigned long long ticks;

	assert_int_equal(process_start_time(bed->owner, &ticks), 0);
	assert_false(process_is_ending(bed->owner, ticks));
	assert_true(process_is_ending(bed->owner, ticks + 1));
	assert_int_equal(kill(bed->owner, SIGKILL), 0);
	/* From now on, whatever the kernel has done yet. */
	assert_true(process_is_ending(bed->owner, ticks));
	assert_int_equal(waitpid(bed->owner, NULL, 0), bed->owner);
	assert_true(process_is_ending(bed->owner, ticks));
	bed->owner = 0;
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(a_killed_owner_s_child_is_waited_for),
		T(a_live_owner_is_named_at_once),
		T(a_child_that_stays_is_named),
		T(the_number_of_an_ended_owner_is_not_its_owner),
		T(a_socket_of_a_killed_owner_is_waited_for),
		T(a_killed_process_is_ending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
