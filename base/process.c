/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

extern char **environ;

#define KILLED_MS 2000 /* for a killed child to end */
#define PASS_FD   3    /* the number the child knows its descriptor by */

/*
 * Descriptors given to the child are first moved above those it will have,
 * so that putting one in its place never overwrites another.
 */
static int fd_move_up(int *fd)
{
	int moved = fcntl(*fd, F_DUPFD_CLOEXEC, PASS_FD + 1);

	if (moved < 0)
		return -errno;
	fd_close(*fd);
	*fd = moved;
	return 0;
}

static int fd_copy_up(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, PASS_FD + 1);

	return copy < 0 ? -errno : copy;
}

/* What the child gets; -1 is /dev/null. Borrowed. */
struct child_fds {
	int input, output, errors;
	int pass; /* as PASS_FD, which it is above; -1: none */
};

static int action_fd(posix_spawn_file_actions_t *actions, int fd, int as,
		     int flags)
{
	if (fd >= 0)
		return posix_spawn_file_actions_adddup2(actions, fd, as);
	return posix_spawn_file_actions_addopen(actions, as, "/dev/null", flags,
						0);
}

/* Positive errno, as in all of posix_spawn. */
static int actions_fill(posix_spawn_file_actions_t *actions,
			const struct child_fds *fds)
{
	bool passes = fds->pass >= 0;
	int r = action_fd(actions, fds->input, STDIN_FILENO, O_RDONLY);

	if (r == 0)
		r = action_fd(actions, fds->output, STDOUT_FILENO, O_WRONLY);
	if (r == 0)
		r = action_fd(actions, fds->errors, STDERR_FILENO, O_WRONLY);
	if (r == 0 && passes)
		r = posix_spawn_file_actions_adddup2(actions, fds->pass,
						     PASS_FD);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(actions,
							     PASS_FD + passes);
	return r;
}

/* @group_flag: POSIX_SPAWN_SETPGROUP or POSIX_SPAWN_SETSID. */
static int attributes_fill(posix_spawnattr_t *attributes, int group_flag)
{
	sigset_t none, all;
	int r;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r == 0)
		r = posix_spawnattr_setpgroup(attributes, 0);
	if (r == 0)
		r = posix_spawnattr_setflags(attributes,
					     (short)(POSIX_SPAWN_SETSIGMASK |
						     POSIX_SPAWN_SETSIGDEF |
						     group_flag));
	return r;
}

static int child_spawn(const char *program, const char *const *argv,
		       const struct child_fds *fds, int group_flag,
		       pid_t *ret_pid, struct error *err)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	pid_t pid = -1;
	int r;

	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		goto failed;
	r = posix_spawnattr_init(&attributes);
	if (r != 0)
		goto undo_actions;
	r = actions_fill(&actions, fds);
	if (r == 0)
		r = attributes_fill(&attributes, group_flag);
	if (r == 0) /* posix_spawn(3) does not write to argv */
		r = posix_spawnp(&pid, program, &actions, &attributes,
				 (char *const *)argv, environ);
	(void)posix_spawnattr_destroy(&attributes); /* always 0 */
undo_actions:
	(void)posix_spawn_file_actions_destroy(&actions); /* always 0 */
	if (r == 0) {
		*ret_pid = pid;
		return 0;
	}
failed:
	return error_set(err, r, "run '%s': %s", program,
			 r == ENOENT ? "no such program" : strerror(r));
}

/* What came from one stream, up to PROCESS_OUTPUT_MAX bytes. */
struct capture {
	int fd; /* -1: ended */
	char *data;
	size_t length, room;
};

static void capture_done(struct capture *c)
{
	fd_close(c->fd);
	free(c->data);
}

static int capture_open(struct capture *c, int *ret_child_end)
{
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*ret_child_end = ends[1];
	c->fd = ends[0];
	if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	c->room = 4096;
	c->data = malloc(c->room);
	if (!c->data)
		return -ENOMEM;
	r = fd_move_up(&c->fd);
	return r < 0 ? r : fd_move_up(ret_child_end);
}

static int capture_keep(struct capture *c, const char *data, size_t length)
{
	size_t left = PROCESS_OUTPUT_MAX - c->length;

	if (length > left)
		length = left;
	if (c->length + length + 1 > c->room) {
		size_t room = 2 * (c->length + length + 1);
		char *grown = realloc(c->data, room);

		if (!grown)
			return -ENOMEM;
		c->data = grown;
		c->room = room;
	}
	memcpy(c->data + c->length, data, length);
	c->length += length;
	return 0;
}

/* Read what is there. 0 also at the end of the stream. */
static int capture_read(struct capture *c)
{
	char piece[16384];

	while (c->fd >= 0) {
		ssize_t n = read(c->fd, piece, sizeof(piece));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return -errno;
		if (n == 0) {
			fd_close(take_fd(&c->fd));
			return 0;
		}
		r = capture_keep(c, piece, (size_t)n);
		if (r < 0)
			return r;
	}
	return 0;
}

static char *capture_take(struct capture *c)
{
	assert(c->data); /* since capture_open() */
	c->data[c->length] = '\0';
	return take_ptr(c->data);
}

/*
 * Standard input as a file in memory: nothing to feed while the child runs,
 * and no SIGPIPE when it does not read.
 */
static int input_open(const char *input, int *ret_fd)
{
	auto_close int fd = memfd_create("input", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, input, strlen(input));
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	r = fd_move_up(&fd);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

struct running {
	pid_t pid;
	int pidfd;
	int cancel_fd;
	int64_t deadline_ms; /* -1: none */
	struct capture out, errors;
};

static int poll_timeout(const struct running *p)
{
	int64_t left;

	if (p->deadline_ms < 0)
		return -1;
	left = p->deadline_ms - clock_ms();
	return left < 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

/* 0 when it has ended, -ETIMEDOUT, -ECANCELED, or another error. */
static int child_watch(struct running *p)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = p->pidfd, .events = POLLIN},
			{.fd = p->cancel_fd, .events = POLLIN},
			{.fd = p->out.fd, .events = POLLIN},
			{.fd = p->errors.fd, .events = POLLIN},
		};
		int n = poll(fds, array_size(fds), poll_timeout(p)), r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		r = capture_read(&p->out);
		if (r == 0)
			r = capture_read(&p->errors);
		if (r < 0)
			return r;
		/*
		 * The end of the process, not of its output: a grandchild that
		 * stays may hold the pipes for ever. The output of the process
		 * itself was in the pipes before, and was read just now or is
		 * read here.
		 */
		if (fds[0].revents) {
			r = capture_read(&p->out);
			return r < 0 ? r : capture_read(&p->errors);
		}
		if (fds[1].revents)
			return -ECANCELED;
		if (n == 0)
			return -ETIMEDOUT;
	}
}

/* Wait for the end of a child that ends by itself, or was killed. */
static int child_reap(pid_t pid, int *ret_code)
{
	siginfo_t info = {0};

	while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	*ret_code = info.si_code == CLD_EXITED ? info.si_status
					       : 128 + info.si_status;
	return 0;
}

static void *reap_later(void *pid)
{
	int code;

	(void)child_reap((pid_t)(intptr_t)pid, &code);
	return NULL;
}

/*
 * End a child and its group. One that waits in the kernel for a device that
 * does not answer does not end: a thread waits for it instead of the caller.
 */
static void child_kill(const struct running *p)
{
	struct pollfd ended = {.fd = p->pidfd, .events = POLLIN};
	pthread_t thread;
	int code, n;

	(void)kill(-p->pid, SIGKILL);
	do {
		n = p->pidfd < 0 ? 1 : poll(&ended, 1, KILLED_MS);
	} while (n < 0 && errno == EINTR);
	if (n)
		(void)child_reap(p->pid, &code);
	else if (!pthread_create(&thread, NULL, reap_later,
				 (void *)(intptr_t)p->pid))
		(void)pthread_detach(thread);
}

static int child_finish(struct running *p, const char *name, int timeout_ms,
			struct process_result *ret, struct error *err)
{
	int code = 0, r;

	/* Not reaped yet, so its pid is still its own. */
	p->pidfd = pidfd_open(p->pid, 0);
	r = p->pidfd < 0 ? -errno : child_watch(p);
	if (r < 0)
		child_kill(p);
	else
		r = child_reap(p->pid, &code);
	if (r == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT,
				 "run '%s': not done after %d ms, killed", name,
				 timeout_ms);
	if (r == -ECANCELED)
		return error_set(err, ECANCELED, "run '%s': cancelled", name);
	if (r < 0)
		return error_set(err, -r, "run '%s': %s", name, strerror(-r));
	ret->exit_code = code;
	ret->out = capture_take(&p->out);
	ret->errors = capture_take(&p->errors);
	return 0;
}

int process_run_holding(const char *const *argv, const char *input, int hold_fd,
			int timeout_ms, int cancel_fd,
			struct process_result *ret, struct error *err)
{
	struct child_fds child = {-1, -1, -1, -1};
	struct running p = {
		.pidfd = -1,
		.cancel_fd = cancel_fd,
		.deadline_ms = timeout_ms < 0 ? -1 : clock_ms() + timeout_ms,
		.out.fd = -1,
		.errors.fd = -1,
	};
	int r;

	r = capture_open(&p.out, &child.output);
	if (r == 0)
		r = capture_open(&p.errors, &child.errors);
	if (r == 0 && input)
		r = input_open(input, &child.input);
	if (r == 0 && hold_fd >= 0) {
		child.pass = fd_copy_up(hold_fd);
		r = child.pass < 0 ? child.pass : 0;
	}
	if (r < 0)
		r = error_set(err, -r, "run '%s': %s", argv[0], strerror(-r));
	else
		r = child_spawn(argv[0], argv, &child, POSIX_SPAWN_SETPGROUP,
				&p.pid, err);
	fd_close(child.input);
	fd_close(child.output);
	fd_close(child.errors);
	fd_close(child.pass);
	if (r == 0)
		r = child_finish(&p, argv[0], timeout_ms, ret, err);
	fd_close(p.pidfd);
	capture_done(&p.out);
	capture_done(&p.errors);
	return r;
}

int process_run(const char *const *argv, const char *input, int timeout_ms,
		int cancel_fd, struct process_result *ret, struct error *err)
{
	return process_run_holding(argv, input, -1, timeout_ms, cancel_fd, ret,
				   err);
}

void process_result_done(struct process_result *result)
{
	free(result->out);
	free(result->errors);
	*result = (struct process_result){0};
}

/* Cut @text to its last line that says something. */
static const char *last_line(char *text)
{
	size_t length = strlen(text);
	char *line;

	while (length && strchr(" \t\r\n", text[length - 1]))
		text[--length] = '\0';
	line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

int process_must(const char *const *argv, int timeout_ms, struct error *err)
{
	struct process_result result = {0};
	const char *said;
	int r;

	r = process_run(argv, NULL, timeout_ms, -1, &result, err);
	if (r < 0)
		return r;
	if (result.exit_code != 0) {
		said = last_line(result.errors);
		r = error_set(err, EIO, "'%s' ended with %d%s%s", argv[0],
			      result.exit_code, said[0] ? ": " : "", said);
	}
	process_result_done(&result);
	return r;
}

int process_start(const char *const *argv, int log_fd, int pass_fd,
		  pid_t *ret_pid, struct error *err)
{
	return process_start_file(argv[0], argv, log_fd, pass_fd, ret_pid, err);
}

int process_start_file(const char *program, const char *const *argv, int log_fd,
		       int pass_fd, pid_t *ret_pid, struct error *err)
{
	auto_close int log = log_fd < 0 ? -1 : fd_copy_up(log_fd);
	auto_close int pass = pass_fd < 0 ? -1 : fd_copy_up(pass_fd);
	const struct child_fds child = {-1, log, log, pass};

	if (log_fd >= 0 && log < 0)
		return error_set(err, -log, "run '%s': its log: %s", program,
				 strerror(-log));
	if (pass_fd >= 0 && pass < 0)
		return error_set(err, -pass, "run '%s': its descriptor: %s",
				 program, strerror(-pass));
	return child_spawn(program, argv, &child, POSIX_SPAWN_SETSID, ret_pid,
			   err);
}
