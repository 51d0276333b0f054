/* SPDX-License-Identifier: Apache-2.0 */
/* The server in a process of its own, with shell scripts as its programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "launch/launch_client.h"
#include "launch/launch_proto.h"
#include "launch/launch_server.h"

struct bed {
	char dir[64], socket[96];
	pid_t server;
	int ready[2];
};

static int ready_fd;

static void tell_ready(void)
{
	assert_int_equal(write(ready_fd, "x", 1), 1);
}

static void start_server(struct bed *bed, uid_t uid)
{
	const struct launch_config config = {
		.socket = bed->socket,
		.bin_dir = bed->dir,
		.uid = uid,
		.oom_score = 321,
		.ready = tell_ready,
	};
	char x;

	bed->server = fork();
	assert_true(bed->server >= 0);
	if (bed->server == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(launch_serve(&config, NULL) < 0 ? 1 : 0);
	}
	assert_int_equal(read(bed->ready[0], &x, 1), 1);
}

static void stop_server(struct bed *bed, int signal)
{
	int status;

	assert_int_equal(kill(bed->server, signal), 0);
	assert_int_equal(waitpid(bed->server, &status, 0), bed->server);
	assert_true(signal != SIGTERM ||
		    (WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

static void write_program(const struct bed *bed, const char *name)
{
	char path[128];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", bed->dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	(void)fputs("#!/bin/sh\n"
		    "echo \"$0|$1|$2\"\n"
		    "[ \"$1\" = none ] || echo hello >&3\n"
		    "read line && exit 3 # of /dev/null\n"
		    "exec sleep 100\n",
		    file);
	assert_int_equal(fchmod(fileno(file), 0755), 0);
	assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
	struct bed *bed = calloc(1, sizeof(*bed));

	assert_non_null(bed);
	(void)strcpy(bed->dir, "/tmp/launch-test.XXXXXX");
	assert_non_null(mkdtemp(bed->dir));
	(void)snprintf(bed->socket, sizeof(bed->socket), "%s/s", bed->dir);
	assert_int_equal(pipe2(bed->ready, O_CLOEXEC), 0);
	ready_fd = bed->ready[1];
	write_program(bed, "trib-union");
	start_server(bed, getuid());
	*state = bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;
	const char *const argv[] = {"rm", "-r", bed->dir, NULL};

	stop_server(bed, SIGTERM);
	assert_int_equal(access(bed->socket, F_OK), -1);
	assert_int_equal(process_must(argv, -1, NULL), 0);
	fd_close(bed->ready[0]);
	fd_close(bed->ready[1]);
	free(bed);
	return 0;
}

static pid_t parent_of(pid_t pid)
{
	char path[64];
	int parent = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "r");
	if (file) {
		assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %d", &parent),
				 1);
		(void)fclose(file);
	}
	return parent;
}

/* End a program, and wait until its parent has reaped it. */
static void end_program(pid_t pid)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	assert_int_equal(kill(pid, SIGKILL), 0);
	for (int i = 0; i < 1000 && access(path, F_OK) == 0; i++)
		(void)poll(NULL, 0, 10);
	assert_int_equal(access(path, F_OK), -1);
}

static pid_t start_program(const struct bed *bed)
{
	const char *const argv[] = {"trib-union", "none", NULL};
	pid_t pid = 0;

	assert_int_equal(launch_start(bed->socket, argv, -1, -1, &pid, NULL),
			 0);
	return pid;
}

static void starts_a_program_with_its_words_and_descriptors(void **state)
{
	struct bed *bed = *state;
	const char *const argv[] = {"/elsewhere/trib-union", "a  b", "", NULL};
	char text[256] = "", want[256];
	int log[2], pass[2];
	pid_t pid = 0;

	assert_int_equal(pipe2(log, O_CLOEXEC), 0);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pass), 0);
	assert_int_equal(
		launch_start(bed->socket, argv, log[1], pass[1], &pid, NULL),
		0);
	(void)snprintf(want, sizeof(want), "%s/trib-union|a  b|\n", bed->dir);
	assert_true(read(log[0], text, sizeof(text)) > 0);
	assert_string_equal(text, want);
	assert_int_equal(read(pass[0], text, sizeof(text)), 6);
	assert_memory_equal(text, "hello\n", 6);
	assert_int_equal(parent_of(pid), bed->server);
	end_program(pid);
	for (int i = 0; i < 2; i++) {
		fd_close(log[i]);
		fd_close(pass[i]);
	}
}

/* The server's own weight is another. */
static void what_is_started_has_its_weight(void **state)
{
	auto_free char *text = NULL;
	char path[64];
	size_t length;
	pid_t pid = start_program(*state);

	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	assert_int_equal(file_read(AT_FDCWD, path, 16, &text, &length, NULL),
			 0);
	assert_string_equal(text, "321\n");
	end_program(pid);
}

static void nothing(int signal)
{
	(void)signal;
}

/* As by being stopped and let go on, which no handler need be there for. */
static void who_is_interrupted_waits_on(void **state)
{
	struct bed *bed = *state;
	const struct sigaction handler = {.sa_handler = nothing};
	pid_t parent = getpid(), helper;

	assert_int_equal(sigaction(SIGUSR1, &handler, NULL), 0);
	assert_int_equal(kill(bed->server, SIGSTOP), 0);
	helper = fork();
	assert_true(helper >= 0);
	if (helper == 0) {
		(void)poll(NULL, 0, 200);
		(void)kill(parent, SIGUSR1);
		(void)poll(NULL, 0, 100);
		(void)kill(bed->server, SIGCONT);
		_exit(0);
	}
	end_program(start_program(bed));
	assert_int_equal(waitpid(helper, NULL, 0), helper);
}

static void only_the_two_programs_are_started(void **state)
{
	struct bed *bed = *state;
	const char *const names[] = {"sh", "/bin/sleep", "trib-launch",
				     "trib-union2", ""};
	struct error err = {0};
	pid_t pid;

	for (size_t i = 0; i < array_size(names); i++) {
		const char *const argv[] = {names[i], NULL};

		assert_int_equal(
			launch_start(bed->socket, argv, -1, -1, &pid, &err),
			-EPERM);
		assert_non_null(
			strstr(err.msg, "trib-union and trib-nbd only"));
	}
}

static void a_program_that_is_missing_is_an_error(void **state)
{
	struct bed *bed = *state;
	const char *const argv[] = {"trib-nbd", NULL};
	struct error err = {0};
	pid_t pid;

	assert_int_equal(launch_start(bed->socket, argv, -1, -1, &pid, &err),
			 -ENOENT);
	assert_non_null(strstr(err.msg, "launch 'trib-nbd': "));
	assert_non_null(strstr(err.msg, "no such program"));
}

static void another_user_is_refused(void **state)
{
	struct bed *bed = *state;
	const char *const argv[] = {"trib-union", NULL};
	pid_t pid;

	stop_server(bed, SIGTERM);
	start_server(bed, getuid() + 1);
	assert_int_equal(launch_start(bed->socket, argv, -1, -1, &pid, NULL),
			 -EACCES);
}

static void the_socket_is_for_its_user_alone(void **state)
{
	struct bed *bed = *state;
	struct stat st;

	assert_int_equal(stat(bed->socket, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void what_was_started_outlives_the_server(void **state)
{
	struct bed *bed = *state;
	pid_t first = start_program(bed), second;
	unsigned long long ticks[2];

	assert_int_equal(process_start_time(first, &ticks[0]), 0);
	stop_server(bed, SIGTERM);
	start_server(bed, getuid());
	second = start_program(bed);
	assert_int_equal(process_start_time(second, &ticks[1]), 0);
	stop_server(bed, SIGKILL);
	assert_int_equal(access(bed->socket, F_OK), 0); /* left over */
	start_server(bed, getuid());
	assert_true(process_alive(first, ticks[0]));
	assert_true(process_alive(second, ticks[1]));
	assert_int_equal(kill(first, SIGKILL), 0);
	assert_int_equal(kill(second, SIGKILL), 0);
	end_program(start_program(bed));
}

/* As one that the server was killed beside, before its execve(2). */
static void a_child_of_a_killed_server_is_waited_for(void **state)
{
	struct bed *bed = *state;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pid_t owner;

	stop_server(bed, SIGTERM);
	(void)strcpy(address.sun_path, bed->socket);
	owner = fork();
	if (owner == 0) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		if (bind(fd, (struct sockaddr *)&address, sizeof(address)) <
			    0 ||
		    listen(fd, 1) < 0)
			_exit(1);
		if (fork() == 0)
			_exit(usleep(500000)); /* it has the socket as long */
		(void)kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(owner, NULL, 0), owner);
	start_server(bed, getuid());
}

static void a_second_server_and_other_files_are_not_replaced(void **state)
{
	struct bed *bed = *state;
	struct launch_config config = {.socket = bed->socket,
				       .bin_dir = bed->dir};
	char file[128];
	sigset_t before;

	(void)pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(launch_serve(&config, NULL), -EADDRINUSE);
	(void)snprintf(file, sizeof(file), "%s/trib-union", bed->dir);
	config.socket = file;
	assert_int_equal(launch_serve(&config, NULL), -EADDRINUSE);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	assert_int_equal(access(file, X_OK), 0);
}

static int connect_to(const struct bed *bed)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)strcpy(address.sun_path, bed->socket);
	assert_int_equal(
		connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void peers_that_say_nothing_or_nonsense_disturb_nobody(void **state)
{
	struct bed *bed = *state;
	int silent[LAUNCH_PEERS - 1], fd;
	char reply[LAUNCH_REPLY_MAX];
	struct launch_reply decoded;

	for (size_t i = 0; i < array_size(silent); i++)
		silent[i] = connect_to(bed);
	fd = connect_to(bed);
	assert_int_equal(send(fd, "nonsense", 8, 0), 8);
	assert_int_equal(
		launch_reply_decode(reply,
				    (size_t)recv(fd, reply, sizeof(reply), 0),
				    &decoded),
		0);
	assert_int_equal(decoded.code, EPROTO);
	fd_close(fd);
	end_program(start_program(bed));
	for (size_t i = 0; i < array_size(silent); i++)
		fd_close(silent[i]);
}

/* What beside.flags says does not come, or more does. */
static void descriptors_that_were_not_announced_are_refused(void **state)
{
	struct bed *bed = *state;
	const char *argv[] = {"trib-union", NULL};
	const struct launch_request request = {
		.pid = getpid(),
		.flags = LAUNCH_HAS_LOG,
		.argv = argv,
		.argc = 1,
	};
	char reply[LAUNCH_REPLY_MAX];
	struct launch_reply decoded;
	int fd = connect_to(bed);
	size_t length;
	void *data;

	assert_int_equal(launch_request_encode(&request, &data, &length, NULL),
			 0);
	assert_int_equal(send(fd, data, length, 0), length);
	free(data);
	assert_int_equal(
		launch_reply_decode(reply,
				    (size_t)recv(fd, reply, sizeof(reply), 0),
				    &decoded),
		0);
	assert_int_equal(decoded.code, EPROTO);
	assert_string_equal(decoded.text, "0 descriptors came, not 1");
	fd_close(fd);
}

static void without_a_launcher_it_says_so(void **state)
{
	struct bed *bed = *state;
	const char *const argv[] = {"trib-union", "none", NULL};
	struct error err = {0};
	pid_t pid;

	stop_server(bed, SIGTERM);
	assert_int_equal(launch_start(bed->socket, argv, -1, -1, &pid, &err),
			 -EHOSTUNREACH);
	assert_non_null(strstr(err.msg, "is trib-launch running?"));
	start_server(bed, getuid());
}

static void with_none_configured_it_starts_the_program_itself(void **state)
{
	const char *const argv[] = {"true", NULL};
	pid_t pid;
	int status;

	(void)state;
	assert_int_equal(launch_start("", argv, -1, -1, &pid, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(launch_start(NULL, argv, -1, -1, &pid, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(starts_a_program_with_its_words_and_descriptors),
		TEST(what_is_started_has_its_weight),
		TEST(who_is_interrupted_waits_on),
		TEST(only_the_two_programs_are_started),
		TEST(a_program_that_is_missing_is_an_error),
		TEST(another_user_is_refused),
		TEST(the_socket_is_for_its_user_alone),
		TEST(what_was_started_outlives_the_server),
		TEST(a_child_of_a_killed_server_is_waited_for),
		TEST(a_second_server_and_other_files_are_not_replaced),
		TEST(peers_that_say_nothing_or_nonsense_disturb_nobody),
		TEST(descriptors_that_were_not_announced_are_refused),
		TEST(without_a_launcher_it_says_so),
		cmocka_unit_test(
			with_none_configured_it_starts_the_program_itself),
	};

	log_setup("launch_server_test", LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
