/* SPDX-License-Identifier: Apache-2.0 */
/* trib-union: several directories shown as one. docs/union.md. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/process.h"
#include "union/branch/owner.h"
#include "union/config/options.h"
#include "union/config/options_mergerfs.h"
#include "union/control/control_client.h"
#include "union/live/mount_strict.h"
#include "union/live/remount.h"
#include "union/migrate/nudge.h"
#include "union/serve/mount.h"
#include "union/state/fd_store.h"
#include "union/state/state.h"
#include "union/supervisor/supervisor.h"

static void ready(void *context)
{
	struct union_options *options = context;

	if (options->supervisor_fd >= 0) {
		fd_store_say_ready();
		return;
	}
	(void)notify_send("READY=1"); /* without systemd: nobody waits */
	if (options->ready_fd >= 0)
		/* A parent that is gone need not know. */
		(void)fd_write_all(options->ready_fd, "\n", 1);
	fd_close(take_fd(&options->ready_fd));
}

/* The last part of a path. */
static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * Report to the waiting parent when there is one: the parent alone has a
 * terminal.
 */
static int report_error(const struct union_options *options,
			const struct error *err)
{
	if (options->supervisor_fd >= 0) {
		fd_store_say_failed(err);
		return 1;
	}
	if (options->ready_fd < 0)
		return log_error(1, "%s", error_text(err));
	/* A parent that is gone need not know. */
	(void)fd_write_all(options->ready_fd, error_text(err),
			   strlen(error_text(err)));
	return 1;
}

/*
 * Wait until the process that started us says go, once it can find us by our
 * words. If it is killed before that, nothing is left that would mount later.
 */
static int start_wait(struct union_options *options, struct error *err)
{
	auto_close int fd = take_fd(&options->start_fd);
	char go;

	if (fd < 0)
		return 0;
	if (send(fd, "", 1, MSG_NOSIGNAL) != 1 || recv(fd, &go, 1, 0) != 1)
		return error_set(err, ECANCELED,
				 "who started this ended before it said so");
	return 0;
}

/* Serve here, or by another process that can be replaced. */
static int serve_mount(struct union_options *options, int argc, char **argv,
		       struct error *err)
{
	if (!options->survive || options->supervisor_fd >= 0)
		return mount_serve(options, ready, options, err);
	return supervisor_run(options, argc, argv, ready, options, err);
}

static int run_foreground(struct union_options *options, int argc, char **argv)
{
	struct error err = {0};

	if (options->ready_fd >= 0)
		(void)fcntl(options->ready_fd, F_SETFD, FD_CLOEXEC); /* a fd */
	/* The program may have been started by another path, "exe". */
	(void)prctl(PR_SET_NAME, name_of(argv[0])); /* a string */
	if (start_wait(options, &err) < 0)
		return log_error(1, "%s", error_text(&err));
	if (serve_mount(options, argc, argv, &err) < 0)
		return report_error(options, &err);
	return 0;
}

/*
 * Wait for the child's message, which ends when it closes the pipe: "\n", or an
 * error.
 */
static int wait_for_child(int fd)
{
	char text[ERROR_TEXT_MAX];
	size_t used = 0;
	ssize_t n;

	while ((n = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	if (strcmp(text, "\n") == 0)
		return 0;
	return log_error(1, "%s", used ? text : "the server ended at once");
}

/* Log why setuid or devices do not work, so that nobody searches for long. */
static void say_flags(const struct union_options *options)
{
	char flags[32];

	mount_strict_of(options->mountpoint, options->mount_flags, flags);
	if (*flags)
		log_warning("'%s' is %s, as a branch of it is",
			    options->mountpoint, flags + 1);
}

static int open_log(const struct union_options *options, struct error *err)
{
	int fd;

	if (!options->log_file)
		return -1;
	fd = open(options->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
		  0640);
	if (fd < 0)
		return error_set(err, errno, "log '%s': %s", options->log_file,
				 strerror(errno));
	return fd;
}

static int run_background(int argc, char **argv,
			  const struct union_options *options)
{
	auto_free const char **child_argv = calloc((size_t)argc + 3,
						   sizeof(*child_argv));
	auto_close int log_fd = -1, read_end = -1, write_end = -1;
	struct error err = {0};
	char self[PATH_MAX] = "";
	int pipe_fds[2], r;
	pid_t pid;

	log_fd = open_log(options, &err);
	if (err.code)
		return log_error(1, "%s", err.msg);
	if (!child_argv || pipe2(pipe_fds, O_CLOEXEC) < 0 ||
	    readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return log_error(1, "start the server: %s", strerror(errno));
	read_end = pipe_fds[0];
	write_end = pipe_fds[1];
	child_argv[0] = self;
	child_argv[1] = "-f";
	child_argv[2] = "--ready-fd=3"; /* as process_start() passes it */
	memcpy(child_argv + 3, argv + 1, (size_t)argc * sizeof(*argv));
	r = process_start(child_argv, log_fd, write_end, &pid, &err);
	if (r < 0)
		return log_error(1, "start the server: %s", error_text(&err));
	fd_close(take_fd(&write_end));
	r = wait_for_child(read_end);
	if (r == 0 && !options->words.silent) /* the child's are in its log */
		say_flags(options);
	return r;
}

/*
 * Log an ignored option once, in the process that was called, not in those that
 * it starts.
 */
static void say_ignored(const struct union_options *options)
{
	if (options->asks_io_uring && !options->words.silent &&
	    options->ready_fd < 0 && options->supervisor_fd < 0)
		log_warning("option 'io_uring=auto' does nothing any more: "
			    "requests come by /dev/fuse");
}

/*
 * Answer what a supervisor asks a program before it is to take over:
 * supervisor.h.
 */
static int say_records(void)
{
	printf("%" PRIu32 "\n", state_layout());
	return 0;
}

int main(int argc, char **argv)
{
	struct union_options options;
	struct error err = {0};
	bool by_mount = strncmp(name_of(argv[0]), "mount.", 6) == 0;
	int r;

	log_setup("trib-union", LOG_LEVEL_INFO);
	if (by_mount) {
		argc = options_from_mount(argc, argv, &err);
		if (argc <= 0)
			return argc < 0 ? log_error(1, "%s", err.msg) : 0;
	}
	if (argc > 1 && strcmp(argv[1], "--control") == 0)
		return control_client(argc - 2, argv + 2);
	if (argc == 2 && strcmp(argv[1], SUPERVISOR_ASKS) == 0)
		return say_records();
	if (argc == 3 && strcmp(argv[1], NUDGE_WORD) == 0)
		return nudge_main(argv[2]);
	if (remount_is_wanted(argc, argv)) {
		r = remount(argc, argv, by_mount, &err);
		return r < 0 ? log_error(1, "%s", error_text(&err)) : 0;
	}
	r = union_options_parse(argc, argv, &options, &err);
	if (r == 0 && by_mount && options.list &&
	    owner_has_mounted(options.list, options.mountpoint)) {
		log_info("'%s' is mounted already", options.mountpoint);
		union_options_done(&options);
		return 0;
	}
	if (r == 0)
		say_ignored(&options);
	if (r < 0)
		r = log_error(2, "%s", err.msg);
	else if (options.help)
		union_options_help(stdout);
	else if (options.version)
		puts("trib-union " TRIBUTARY_VERSION);
	else if (options.foreground)
		r = run_foreground(&options, argc, argv);
	else
		r = run_background(argc, argv, &options);
	union_options_done(&options);
	return r;
}
