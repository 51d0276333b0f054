/* SPDX-License-Identifier: Apache-2.0 */
/* trib-launch: starts programs that must outlive their caller. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/kernel/oom.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/options.h"
#include "launch/launch_client.h"
#include "launch/launch_server.h"

#define EXIT_USAGE     2
#define SOCKET_DEFAULT "/run/tributary/launch.sock"

struct config {
	char *socket;
	char *bin_dir;
	char *peer;
	bool help;
	bool version;
};

#define ROW(name, letter, type, field, argument, help, text)                  \
	{                                                                     \
		name, letter, type, offsetof(struct config, field), argument, \
			help, text, 0, 0                                      \
	}

static const struct option_row rows[] = {
	ROW("socket", 's', OPTION_STRING, socket, "PATH", "take requests here",
	    SOCKET_DEFAULT),
	ROW("bin-dir", 0, OPTION_STRING, bin_dir, "DIR",
	    "directory of trib-union and trib-nbd (default: that of "
	    "this program)",
	    NULL),
	ROW("peer", 0, OPTION_STRING, peer, "SOCKET",
	    "another trib-launch, in another cgroup: it stores what programs "
	    "started here need after they are killed (default: this one does)",
	    NULL),
	ROW("help", 'h', OPTION_FLAG, help, NULL, "show this", NULL),
	ROW("version", 'V', OPTION_FLAG, version, NULL, "show the version",
	    NULL),
};

static void show_help(void)
{
	(void)fputs("Usage: trib-launch [OPTION...]\n\n"
		    "Starts trib-union and trib-nbd for others, as its "
		    "children. These live on when trib\nor trib-csi, their "
		    "container or their cgroup end.\n\n",
		    stdout);
	options_help(rows, array_size(rows), stdout);
	(void)fputs("\nOnly root may ask. SIGTERM ends it and leaves what it "
		    "started alive. Exit status:\n0 stopped or nothing to do, "
		    "1 it could not start, 2 a wrong flag.\n",
		    stdout);
}

static void launch_ready(void)
{
	(void)notify_send("READY=1"); /* nobody may be listening */
}

/* The launcher stores descriptors of every union. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit); /* not more than allowed */
}

static int own_dir(char *ret, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", ret, size - 1);

	if (n < 0)
		return log_error(-errno, "/proc/self/exe: %s", strerror(errno));
	ret[n] = '\0';
	*strrchr(ret, '/') = '\0';
	return 0;
}

static int launch_run(const struct config *config)
{
	char beside[PATH_MAX];
	const struct launch_config served = {
		.socket = config->socket,
		.bin_dir = config->bin_dir ? config->bin_dir : beside,
		.uid = 0,
		/* In a container its end is that of all it started. */
		.oom_score = oom_protect(),
		.ready = launch_ready,
	};
	struct error err = {0};

	if (!config->bin_dir && own_dir(beside, sizeof(beside)) < 0)
		return EXIT_FAILURE;
	if (chdir("/") < 0) /* keep no other directory busy */
		return log_error(EXIT_FAILURE, "chdir: %s", strerror(errno));
	raise_limit();
	if (setenv(LAUNCH_STORE_VARIABLE,
		   config->peer ? config->peer : config->socket, 1) < 0)
		return log_error(EXIT_FAILURE, "out of memory");
	if (launch_serve(&served, &err) < 0)
		return log_error(EXIT_FAILURE, "%s", error_text(&err));
	(void)notify_send("STOPPING=1");
	return EXIT_SUCCESS;
}

static int launch_check(const struct config *config, struct error *err)
{
	if (config->socket[0] != '/')
		return error_set(err, EINVAL,
				 "socket '%s': write an absolute path",
				 config->socket);
	if (config->peer && config->peer[0] != '/')
		return error_set(err, EINVAL,
				 "peer '%s': write an absolute path",
				 config->peer);
	if (config->bin_dir && config->bin_dir[0] != '/')
		return error_set(err, EINVAL,
				 "bin-dir '%s': write an absolute path",
				 config->bin_dir);
	return 0;
}

int main(int argc, char **argv)
{
	struct config config = {0};
	struct error err = {0};
	int index = argc, status = EXIT_SUCCESS, r;

	log_setup("trib-launch", LOG_LEVEL_INFO);
	options_defaults(rows, array_size(rows), &config);
	r = options_parse(rows, array_size(rows), &config, argc, argv, &index,
			  &err);
	if (r == 0 && index < argc)
		r = error_set(&err, EINVAL, "'%s': there are only flags",
			      argv[index]);
	if (r == 0)
		r = launch_check(&config, &err);
	if (r < 0)
		status = log_error(EXIT_USAGE, "%s", error_text(&err));
	else if (config.help)
		show_help();
	else if (config.version)
		puts("trib-launch " TRIBUTARY_VERSION);
	else
		status = launch_run(&config);
	options_done(rows, array_size(rows), &config);
	return status;
}
