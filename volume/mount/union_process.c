/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/union_process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "launch/launch_client.h"
#include "volume/mount/mounts.h"

#define PROGRAM          "trib-union"
#define SERVER_WORD      "--holder-fd=" /* union/config/options.c */
#define ARGUMENTS_MAX    (2u << 20)     /* bytes; ARG_MAX, sysconf(3) */
#define LOG_MAX          (256u << 10)
#define START_TIMEOUT_MS 15000
#define KILL_WAIT_MS     5000
#define STATS            "user.tributary.stats" /* docs/union.md */
#define BRANCHES         "user.union.branches"  /* of .union */
#define STATS_MAX        4096                   /* bytes; it has some 200 */

/* ---- finding it ---- */

enum part {
	PART_NONE,
	PART_SERVER, /* of a union that has a supervisor */
	PART_FIRST,  /* what was started: its supervisor, or all of it */
};

/*
 * Tell which part of the union of @mount_point @process (a /proc/PID directory)
 * is.
 */
static enum part union_part_of(int process, const char *mount_point)
{
	enum part part = PART_FIRST;
	auto_free char *line = NULL;
	const char *name, *last = NULL;
	size_t length;

	if (file_read(process, "cmdline", ARGUMENTS_MAX, &line, &length, NULL) <
		    0 ||
	    length == 0)
		return PART_NONE;
	name = strrchr(line, '/');
	if (strcmp(name ? name + 1 : line, PROGRAM) != 0)
		return PART_NONE;
	for (const char *at = line; at < line + length; at += strlen(at) + 1) {
		if (strncmp(at, SERVER_WORD, strlen(SERVER_WORD)) == 0)
			part = PART_SERVER;
		last = at;
	}
	return last && strcmp(last, mount_point) == 0 ? part : PART_NONE;
}

pid_t union_find(const char *mount_point)
{
	DIR *dir = opendir("/proc");
	enum part part, best = PART_NONE;
	struct dirent *entry;
	pid_t pid = 0;

	while (dir && best != PART_FIRST && (entry = readdir(dir))) {
		auto_close int process = -1;
		unsigned long long ticks;
		pid_t candidate;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		process = openat(dirfd(dir), entry->d_name,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		part = process < 0 ? PART_NONE
				   : union_part_of(process, mount_point);
		if (part <= best)
			continue;
		candidate = (pid_t)strtol(entry->d_name, NULL, 10);
		if (process_start_time(candidate, &ticks) == 0 &&
		    process_alive(candidate, ticks)) {
			pid = candidate;
			best = part;
		}
	}
	if (dir)
		(void)closedir(dir);
	return pid;
}

bool union_answers(const char *mount_point)
{
	struct mount_info info;
	uint64_t size, available, used;

	return mounts_find(mount_point, &info, NULL) == 0 &&
	       strcmp(info.fs_type, UNION_FS_TYPE) == 0 &&
	       mounts_space(mount_point, &size, &available, &used) == 0;
}

/* ---- ending it ---- */

static int wait_end(pid_t pid, int timeout_ms, bool kill_it, struct error *err)
{
	auto_close int fd = pid > 0 ? pidfd_open(pid, 0) : -1;
	struct pollfd gone = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return 0; /* no such process any more */
	if (poll(&gone, 1, timeout_ms) <= 0) {
		if (!kill_it)
			return error_set(err, ETIMEDOUT,
					 PROGRAM " (process %d) did not end "
						 "within %d s",
					 pid, timeout_ms / 1000);
		(void)pidfd_send_signal(fd, SIGKILL, NULL, 0);
		if (poll(&gone, 1, KILL_WAIT_MS) <= 0)
			return error_set(err, ETIMEDOUT,
					 PROGRAM " (process %d) does not even "
						 "end when killed: it waits "
						 "for a device",
					 pid);
	}
	(void)waitpid(pid, NULL, WNOHANG); /* if it was our child */
	return 0;
}

int union_wait_end(pid_t pid, const char *mount_point, int timeout_ms,
		   bool kill_it, struct error *err)
{
	int r = wait_end(pid, timeout_ms, kill_it, err);

	/* A server outlives a supervisor that was killed. */
	while (r == 0 && kill_it && (pid = union_find(mount_point)) > 0)
		r = wait_end(pid, 0, true, err);
	return r;
}

/* ---- starting it ---- */

const char *union_program(const char *bin_dir, char *buf)
{
	if (!bin_dir[0])
		return file_find_program(PROGRAM, buf);
	(void)snprintf(buf, PATH_MAX, "%.*s/" PROGRAM, PATH_MAX - 32, bin_dir);
	return buf;
}

static const char *branch_word(const struct union_request *request,
			       const struct union_branch *branch)
{
	if (branch->absent)
		return "=absent";
	if (request->read_only)
		return "=ro";
	return branch->local ? "=local" : "";
}

/* "PATH=local:PATH:...". Returned owned. */
static char *branches_text(const struct union_request *request)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	for (size_t i = 0; i < request->n_branches; i++)
		(void)fprintf(out, "%s%s%s", i ? ":" : "",
			      request->branches[i].path,
			      branch_word(request, &request->branches[i]));
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

/*
 * @start: a socket that says when it is to begin. Until then it does nothing,
 * and ends when we do.
 */
static int union_spawn(const struct union_request *request, int log_fd,
		       int start, pid_t *ret_pid, struct error *err)
{
	auto_free char *branches = branches_text(request);
	bool more = request->options && request->options[0];
	auto_free char *options = NULL;
	char program[PATH_MAX];
	const char *argv[] = {union_program(request->bin_dir, program),
			      "-f",
			      "-o",
			      NULL,
			      "--start-fd=3", /* as launch_start() passes it */
			      branches,
			      request->mount_point,
			      NULL};

	if (!branches ||
	    asprintf(&options, "fsname=%.63s,policy=%.31s%s%s%s%s%s",
		     request->name, request->policy,
		     request->read_only ? ",ro" : "", more ? "," : "",
		     more ? request->options : "",
		     request->control[0] ? ",control=" : "",
		     request->control) < 0)
		return error_set(err, ENOMEM, "out of memory");
	argv[3] = options;
	return launch_start(request->launcher, argv, log_fd, start, ret_pid,
			    err);
}

/* Why it ended: the last line of its log. */
static int union_ended(const struct union_request *request, struct error *err)
{
	auto_free char *text = NULL;
	size_t length = 0;
	char *newline;

	if (file_read(AT_FDCWD, request->log_path, LOG_MAX, &text, &length,
		      NULL) < 0)
		length = 0;
	while (length > 0 && text[length - 1] == '\n')
		text[--length] = '\0';
	newline = length > 0 ? strrchr(text, '\n') : NULL;
	return error_set(err, EIO, "the union of volume '%s' ended: %.300s",
			 request->name,
			 newline      ? newline + 1
			 : length > 0 ? text
				      : "it left no message");
}

/*
 * Once it says that it is there union_find() finds it. Whatever becomes of us
 * from then on, who attaches next either does, or it never mounts.
 */
static int let_begin(const struct union_request *request, int start,
		     struct error *err)
{
	struct pollfd fd = {.fd = start, .events = POLLIN};
	int64_t end = clock_ms() + START_TIMEOUT_MS, left;
	char there;
	int n = 0;

	while ((left = end - clock_ms()) > 0 &&
	       (n = poll(&fd, 1, (int)left)) < 0 && errno == EINTR)
		;
	if (n <= 0)
		return error_set(err, ETIMEDOUT,
				 "the union of volume '%s' did not start "
				 "within %d s",
				 request->name, START_TIMEOUT_MS / 1000);
	if (recv(start, &there, 1, 0) != 1 ||
	    send(start, "", 1, MSG_NOSIGNAL) != 1)
		return union_ended(request, err);
	return 0;
}

static int begin(const struct union_request *request, int log_fd,
		 pid_t *ret_pid, struct error *err)
{
	auto_close int ours = -1, its = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "socketpair: %s", strerror(errno));
	ours = pair[0];
	its = pair[1];
	r = union_spawn(request, log_fd, its, ret_pid, err);
	fd_close(take_fd(&its));
	return r < 0 ? r : let_begin(request, ours, err);
}

/* Woken by each change of the mount table (proc(5)) and by its end. */
static int wait_mounted(const struct union_request *request, pid_t pid,
			struct error *err)
{
	auto_close int table = open("/proc/self/mountinfo",
				    O_RDONLY | O_CLOEXEC);
	auto_close int process = pidfd_open(pid, 0);
	struct pollfd fds[] = {
		{.fd = table, .events = POLLPRI},
		{.fd = process, .events = POLLIN},
	};
	int64_t end = clock_ms() + START_TIMEOUT_MS, left;

	if (process < 0) /* ended, and reaped by its launcher */
		return union_ended(request, err);
	while ((left = end - clock_ms()) > 0) {
		if (union_answers(request->mount_point))
			return 0;
		if (poll(fds, 2, (int)left) > 0 && fds[1].revents) {
			(void)waitpid(pid, NULL, WNOHANG);
			return union_ended(request, err);
		}
	}
	return error_set(err, ETIMEDOUT,
			 "the union of volume '%s' did not start within %d s",
			 request->name, START_TIMEOUT_MS / 1000);
}

int union_start(const struct union_request *request, struct error *err)
{
	auto_close int log = open(
		request->log_path,
		O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	pid_t pid = 0;
	int r;

	if (log < 0)
		return error_set(err, errno, "open '%s': %s", request->log_path,
				 strerror(errno));
	r = begin(request, log, &pid, err);
	if (r == 0)
		r = wait_mounted(request, pid, err);
	if (r < 0 && pid > 0) {
		(void)mounts_remove(request->mount_point, true, NULL);
		(void)union_wait_end(pid, request->mount_point, 0, true, NULL);
	}
	return r;
}

/* ---- more branches ---- */

/* Read the number of that name in the union's text. -EPROTO: there is none. */
static int number_of(const char *stats, const char *name, size_t *ret)
{
	const char *at = strstr(stats, name);

	if (!at)
		return -EPROTO;
	*ret = strtoul(at + strlen(name), NULL, 10);
	return 0;
}

/* Read `"damaged":[0,3]`. @name: `"damaged":[`. */
static void numbers_of(const char *stats, const char *name, bool *ret)
{
	const char *at = strstr(stats, name);
	unsigned long number;
	char *end;

	at = at ? at + strlen(name) : "";
	while (isdigit((unsigned char)*at)) {
		number = strtoul(at, &end, 10);
		if (number < UNION_BRANCHES_MAX)
			ret[number] = true;
		at = *end == ',' ? end + 1 : end;
	}
}

const char *union_path_end(const char *path)
{
	const char *at = path + strlen(path);

	for (int slashes = 0; at > path && slashes < 2;)
		slashes += *--at == '/';
	return at;
}

int union_state_get(const char *mount_point, struct union_state *ret)
{
	char stats[STATS_MAX + 1];
	struct union_state state = {0};
	struct mount_info info;
	ssize_t n;
	int r = mounts_find(mount_point, &info, NULL);

	if (r < 0 || strcmp(info.fs_type, UNION_FS_TYPE) != 0)
		return r < 0 ? r : -ENOENT;
	n = getxattr(mount_point, STATS, stats, STATS_MAX);
	if (n < 0)
		return -errno;
	stats[n] = '\0';
	r = number_of(stats, "\"branches\":", &state.branches);
	if (r < 0)
		return r;
	/* A union that was started before these were counted has none. */
	(void)number_of(stats, "\"failed\":", &state.failed);
	(void)number_of(stats, "\"read_only\":", &state.read_only);
	numbers_of(stats, "\"damaged\":[", state.damaged);
	numbers_of(stats, "\"absent\":[", state.absent);
	numbers_of(stats, "\"gone\":[", state.gone);
	for (size_t i = 0; i < UNION_BRANCHES_MAX; i++)
		state.any_gone = state.any_gone || state.gone[i];
	*ret = state;
	return 0;
}

int union_branch_number(const char *mount_point,
			const struct union_state *state, const char *path,
			unsigned index)
{
	auto_free char *list = NULL;
	char file[PATH_MAX + 8];
	const char *end = union_path_end(path);
	size_t length = strlen(end);
	ssize_t n = 0;
	int number = -1;

	if (!state->any_gone)
		return index < state->branches && !state->absent[index]
			       ? (int)index
			       : -1;
	(void)snprintf(file, sizeof(file), "%s/.union", mount_point);
	list = malloc(XATTR_SIZE_MAX + 1);
	if (list)
		n = getxattr(file, BRANCHES, list, XATTR_SIZE_MAX);
	if (!list || n < 0)
		return -1;
	list[n] = '\0';
	/* Branches that are there, in order: "PATH=WORDS:PATH=WORDS". */
	for (char *at = list, *next; at && *at; at = next) {
		char *words = strchr(at, '=');

		next = words ? strchr(words, ':') : NULL;
		next = next ? next + 1 : NULL;
		do
			number++;
		while (number < UNION_BRANCHES_MAX &&
		       (state->gone[number] || state->absent[number]));
		if (words && (size_t)(words - at) >= length &&
		    strncmp(words - length, end, length) == 0)
			return number;
	}
	return -1;
}
