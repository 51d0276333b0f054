/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd-serve: files and memory as NBD exports, for wire tests and benches
 * without a blockd. Prints "listening ADDRESS" for each listener, serves
 * until SIGTERM or SIGINT. On SIGHUP live connections follow files that have
 * grown, which it then says with "grown"; until then they keep the size they
 * began with, as other servers' connections do for ever.
 *
 *	nbd-serve --listen tcp:127.0.0.1:0 --export disk=/tmp/disk.img
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/options.h"
#include "base/size.h"
#include "target/target.h"

#define EXPORT_TEXT_MAX 256 /* bytes of a name, with NUL; ours */

struct config {
	struct option_list listen, exports, initiators, without;
	uint64_t epoch, loops, max_connections, buffers;
	char *tls_cert, *tls_key, *tls_ca, *tls_psk;
	bool tls_required, read_only, direct, help;
};

#define ROW(name, type, member, argument, help, value)                    \
	{                                                                 \
		name, 0, type, offsetof(struct config, member), argument, \
			help, value, 0, 0                                 \
	}

static const struct option_row rows[] = {
	ROW("listen", OPTION_LIST, listen, "ADDRESS",
	    "tcp:HOST:PORT or unix:PATH", "tcp:127.0.0.1:0"),
	ROW("export", OPTION_LIST, exports, "NAME=PATH|NAME=ram:SIZE",
	    "what to serve", NULL),
	ROW("initiators", OPTION_LIST, initiators, "ADDRESS", "who may connect",
	    "any"),
	ROW("epoch", OPTION_NUMBER, epoch, "N", "of all exports", NULL),
	ROW("loops", OPTION_NUMBER, loops, "N", "worker threads", NULL),
	ROW("max-connections", OPTION_NUMBER, max_connections, "N", "in all",
	    NULL),
	ROW("buffers", OPTION_SIZE, buffers, "BYTES", "I/O buffers per loop",
	    NULL),
	ROW("without", OPTION_LIST, without, "FEATURE",
	    "coop-taskrun, single-issuer, defer-taskrun, send-zc, "
	    "poll-first",
	    NULL),
	ROW("tls-cert", OPTION_STRING, tls_cert, "FILE", "our certificate",
	    NULL),
	ROW("tls-key", OPTION_STRING, tls_key, "FILE", "its key", NULL),
	ROW("tls-ca", OPTION_STRING, tls_ca, "FILE", "who signs clients'",
	    NULL),
	ROW("tls-psk", OPTION_STRING, tls_psk, "FILE", "NAME:HEX a line", NULL),
	ROW("tls-required", OPTION_FLAG, tls_required, NULL,
	    "nothing without TLS", NULL),
	ROW("read-only", OPTION_FLAG, read_only, NULL, "refuse writes", NULL),
	ROW("direct", OPTION_FLAG, direct, NULL, "open files with O_DIRECT",
	    NULL),
	ROW("help", OPTION_FLAG, help, NULL, "this text", NULL),
};

static const struct {
	const char *name;
	unsigned feature;
} features[] = {
	{"coop-taskrun", LOOP_COOP_TASKRUN},
	{"single-issuer", LOOP_SINGLE_ISSUER},
	{"defer-taskrun", LOOP_DEFER_TASKRUN},
	{"send-zc", LOOP_SEND_ZC},
	{"poll-first", LOOP_POLL_FIRST},
};

static int features_parse(const struct option_list *list, unsigned *ret,
			  struct error *err)
{
	*ret = 0;
	for (size_t i = 0; i < list->count; i++) {
		unsigned found = 0;

		for (size_t f = 0; f < array_size(features); f++)
			if (strcmp(features[f].name, list->items[i]) == 0)
				found = features[f].feature;
		if (!found)
			return error_set(err, EINVAL, "no loop feature '%s'",
					 list->items[i]);
		*ret |= found;
	}
	return 0;
}

struct disk {
	char path[PATH_MAX];
	bool direct;
};

static int disk_open(void *context, struct loop *loop, bool read_only,
		     struct blockdev **ret, struct error *err)
{
	const struct disk *disk = context;

	return blockdev_file_open(
		loop, disk->path, 0,
		(read_only ? BLOCKDEV_FILE_READ_ONLY : 0) |
			(disk->direct ? BLOCKDEV_FILE_DIRECT : 0),
		ret, err);
}

/* Memory that every connection sees: a file without a name. */
static int memory_path(const char *size_text, char *path, size_t path_size,
		       struct error *err)
{
	uint64_t size = 0;
	int r = size_parse(size_text, &size, err);
	int fd;

	if (r < 0)
		return r;
	fd = memfd_create("nbd-serve", MFD_CLOEXEC); /* kept to the end */
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		r = error_set(err, errno, "memory: %s", strerror(errno));
		fd_close(fd);
		return r;
	}
	(void)snprintf(path, path_size, "/proc/self/fd/%d", fd);
	return 0;
}

/* "NAME=PATH" or "NAME=ram:SIZE" */
static int export_add(struct target *target, const struct config *config,
		      const char *text, struct error *err)
{
	struct target_export export = {
		.epoch = config->epoch,
		.read_only = config->read_only,
		.initiators = (const char *const *)config->initiators.items,
		.n_initiators = config->initiators.count,
		.description = "incarnation=test",
		.open = disk_open,
		.release = free,
	};
	const char *equals = strchr(text, '=');
	char name[EXPORT_TEXT_MAX];
	struct disk *disk;
	int r = 0;

	if (!equals || (size_t)(equals - text) >= sizeof(name) ||
	    strlen(equals + 1) >= sizeof(disk->path))
		return error_set(err, EINVAL, "'%s' is not NAME=PATH", text);
	(void)snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text);
	disk = calloc(1, sizeof(*disk));
	if (!disk)
		return error_set(err, ENOMEM, "no memory");
	disk->direct = config->direct;
	if (strncmp(equals + 1, "ram:", 4) == 0)
		r = memory_path(equals + 5, disk->path, sizeof(disk->path),
				err);
	else
		(void)snprintf(disk->path, sizeof(disk->path), "%s",
			       equals + 1);
	if (r < 0) {
		free(disk);
		return r;
	}
	export.name = name;
	export.context = disk;
	return target_export_set(target, &export, err);
}

static int listen_at(struct target *target, const char *address,
		     struct error *err)
{
	int port = 0, r = target_listen_nbd(target, address, &port, err);
	const char *colon = strrchr(address, ':');

	if (r < 0)
		return r;
	if (port > 0)
		printf("listening %.*s:%d\n", (int)(colon - address), address,
		       port);
	else
		printf("listening %s\n", address);
	return 0;
}

/* Files that have grown. */
static void exports_grow(struct target *target, const struct config *config)
{
	for (size_t i = 0; i < config->exports.count; i++) {
		const char *text = config->exports.items[i];
		const char *equals = strchr(text, '=');
		char name[EXPORT_TEXT_MAX];
		struct stat st;

		if (stat(equals + 1, &st) < 0) /* memory, or gone */
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)(equals - text),
			       text);
		target_export_grow(target, name, (uint64_t)st.st_size);
	}
	printf("grown\n");
	(void)fflush(stdout); /* a reader that is gone does not matter */
}

static int serve(struct target *target, const struct config *config,
		 const sigset_t *signals, struct error *err)
{
	int signal_number, r = 0;

	for (size_t i = 0; i < config->exports.count && r == 0; i++)
		r = export_add(target, config, config->exports.items[i], err);
	for (size_t i = 0; i < config->listen.count && r == 0; i++)
		r = listen_at(target, config->listen.items[i], err);
	if (r < 0)
		return r;
	(void)fflush(stdout); /* a reader that is gone does not matter */
	do {
		r = -sigwait(signals, &signal_number);
		if (r == 0 && signal_number == SIGHUP)
			exports_grow(target, config);
	} while (r == 0 && signal_number == SIGHUP);
	return r;
}

static int run(const struct config *config, const sigset_t *signals,
	       struct error *err)
{
	struct target_options options = {
		.loops = (unsigned)config->loops,
		.max_connections = (unsigned)config->max_connections,
		.buffer_limit = config->buffers,
		.tls = {config->tls_cert, config->tls_key, config->tls_ca,
			config->tls_psk, config->tls_required},
	};
	struct target *target = NULL;
	int r = features_parse(&config->without, &options.without, err);

	if (r == 0)
		r = target_new(&options, &target, err);
	if (r == 0)
		r = serve(target, config, signals, err);
	target_free(target);
	return r;
}

int main(int argc, char **argv)
{
	struct config config = {0};
	struct error err = {0};
	sigset_t signals;
	int index = 0, r;

	log_setup("nbd-serve", LOG_LEVEL_INFO);
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	/* In every thread; sigwait() takes them. */
	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
	options_defaults(rows, array_size(rows), &config);
	r = options_parse(rows, array_size(rows), &config, argc, argv, &index,
			  &err);
	if (r == 0 && index < argc)
		r = error_set(&err, EINVAL, "what is '%s'?", argv[index]);
	if (r == 0 && config.help)
		options_help(rows, array_size(rows), stdout);
	else if (r == 0)
		r = run(&config, &signals, &err);
	options_done(rows, array_size(rows), &config);
	if (r < 0)
		fprintf(stderr, "nbd-serve: %s\n", error_text(&err));
	return r < 0 ? 1 : 0;
}
