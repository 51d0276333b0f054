/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iscsi-serve: files and memory as iSCSI targets, for wire tests and benches
 * without a blockd. Prints "listening ADDRESS" for each portal and "target
 * NAME LUN" for each export, serves until SIGTERM or SIGINT. On SIGHUP live
 * sessions follow files that have grown, which it then says with "grown".
 *
 *	iscsi-serve --listen tcp:127.0.0.1:0 --export disk=/tmp/disk.img
 */
#include <errno.h>
#include <inttypes.h>
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
#include "target/iscsi_chap.h"
#include "target/target.h"

#define EXPORT_TEXT_MAX 256 /* bytes of a name, with NUL; ours */

struct config {
	struct option_list listen, exports, addresses, initiators;
	char *chap, *target, *state_dir;
	uint64_t epoch, loops, max_connections, buffers, block_size;
	uint64_t physical_size;
	bool read_only, removable, thin, direct, help;
	struct iscsi_chap_secrets secrets; /* of @chap */
};

#define ROW(name, type, member, argument, help, value)                    \
	{                                                                 \
		name, 0, type, offsetof(struct config, member), argument, \
			help, value, 0, 0                                 \
	}

static const struct option_row rows[] = {
	ROW("listen", OPTION_LIST, listen, "ADDRESS", "tcp:HOST:PORT",
	    "tcp:127.0.0.1:0"),
	ROW("export", OPTION_LIST, exports, "NAME=PATH|NAME=ram:SIZE",
	    "what to serve", NULL),
	ROW("target", OPTION_STRING, target, "NAME",
	    "all exports are LUNs of this target, in their order", NULL),
	ROW("addresses", OPTION_LIST, addresses, "ADDRESS", "who may connect",
	    "any"),
	ROW("initiators", OPTION_LIST, initiators, "NAME",
	    "initiator names that may log in (default: all)", NULL),
	ROW("chap", OPTION_STRING, chap, "FILE", "CHAP users and secrets",
	    NULL),
	ROW("epoch", OPTION_NUMBER, epoch, "N", "of all exports", NULL),
	ROW("block-size", OPTION_NUMBER, block_size, "BYTES", "512 or 4096",
	    "512"),
	ROW("physical-size", OPTION_NUMBER, physical_size, "BYTES",
	    "of a physical block", "4096"),
	ROW("state-dir", OPTION_STRING, state_dir, "DIR",
	    "where reservations that last are kept", NULL),
	ROW("loops", OPTION_NUMBER, loops, "N", "worker threads", NULL),
	ROW("max-connections", OPTION_NUMBER, max_connections, "N", "in all",
	    NULL),
	ROW("buffers", OPTION_SIZE, buffers, "BYTES", "I/O buffers per loop",
	    NULL),
	ROW("read-only", OPTION_FLAG, read_only, NULL, "refuse writes", NULL),
	ROW("removable", OPTION_FLAG, removable, NULL, "media can be ejected",
	    NULL),
	ROW("thin", OPTION_FLAG, thin, NULL, "UNMAP is there", NULL),
	ROW("direct", OPTION_FLAG, direct, NULL, "open files with O_DIRECT",
	    NULL),
	ROW("help", OPTION_FLAG, help, NULL, "this text", NULL),
};

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
	fd = memfd_create("iscsi-serve", MFD_CLOEXEC); /* kept to the end */
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		r = error_set(err, errno, "memory: %s", strerror(errno));
		fd_close(fd);
		return r;
	}
	(void)snprintf(path, path_size, "/proc/self/fd/%d", fd);
	return 0;
}

/* "NAME=PATH" or "NAME=ram:SIZE" */
static int disk_new(const char *text, char name[static EXPORT_TEXT_MAX],
		    struct disk **ret, struct error *err)
{
	const char *equals = strchr(text, '=');
	struct disk *disk = calloc(1, sizeof(*disk));
	int r = 0;

	if (!disk)
		return error_set(err, ENOMEM, "no memory");
	if (!equals || equals - text >= EXPORT_TEXT_MAX ||
	    strlen(equals + 1) >= sizeof(disk->path)) {
		free(disk);
		return error_set(err, EINVAL, "'%s' is not NAME=PATH", text);
	}
	(void)snprintf(name, EXPORT_TEXT_MAX, "%.*s", (int)(equals - text),
		       text);
	if (strncmp(equals + 1, "ram:", 4) == 0)
		r = memory_path(equals + 5, disk->path, sizeof(disk->path),
				err);
	else
		(void)snprintf(disk->path, sizeof(disk->path), "%s",
			       equals + 1);
	if (r < 0)
		free(disk);
	else
		*ret = disk;
	return r;
}

/* The same name, the same unit. */
static void uuid_of(const char *name, uint8_t uuid[16])
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (size_t i = 0; i < 16; i++) {
		for (const char *c = name; *c; c++)
			hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
		uuid[i] = (uint8_t)(hash >> 32);
	}
}

static int export_add(struct target *target, const struct config *config,
		      size_t index, struct error *err)
{
	char name[EXPORT_TEXT_MAX], state[PATH_MAX + EXPORT_TEXT_MAX];
	struct target_scsi scsi = {
		.name = config->target,
		.lun = config->target ? (unsigned)index : 0,
		.block_size = (uint32_t)config->block_size,
		.physical_size = (uint32_t)config->physical_size,
		.removable = config->removable,
		.thin = config->thin,
		.initiators = (const char *const *)config->initiators.items,
		.n_initiators = config->initiators.count,
		.secrets = config->chap ? &config->secrets : NULL,
	};
	struct target_export export = {
		.name = name,
		.epoch = config->epoch,
		.read_only = config->read_only,
		.initiators = (const char *const *)config->addresses.items,
		.n_initiators = config->addresses.count,
		.scsi = &scsi,
		.open = disk_open,
		.release = free,
	};
	struct disk *disk = NULL;
	struct stat st;
	int r = disk_new(config->exports.items[index], name, &disk, err);

	if (r < 0)
		return r;
	disk->direct = config->direct;
	export.context = disk;
	if (stat(disk->path, &st) < 0) {
		r = error_set(err, errno, "'%s': %s", disk->path,
			      strerror(errno));
		free(disk);
		return r;
	}
	scsi.size = (uint64_t)st.st_size;
	uuid_of(name, scsi.uuid);
	if (config->state_dir) {
		(void)snprintf(state, sizeof(state), "%s/%s.reservations",
			       config->state_dir, name);
		scsi.state_path = state;
	}
	r = target_export_set(target, &export, err);
	if (r < 0)
		return r;
	if (config->target)
		printf("target %s", config->target);
	else
		printf("target %s:%s", TARGET_ISCSI_PREFIX, name);
	if (config->epoch > 0)
		printf(":%" PRIu64, config->epoch);
	printf(" %u\n", scsi.lun);
	return 0;
}

static int listen_at(struct target *target, const char *address,
		     struct error *err)
{
	int port = 0, r = target_listen_iscsi(target, address, &port, err);
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
		r = export_add(target, config, i, err);
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

static int run(struct config *config, const sigset_t *signals,
	       struct error *err)
{
	struct target_options options = {
		.loops = (unsigned)config->loops,
		.max_connections = (unsigned)config->max_connections,
		.buffer_limit = config->buffers,
	};
	struct target *target = NULL;
	int r = 0;

	if (config->chap)
		r = iscsi_chap_load(config->chap, &config->secrets, err);
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

	log_setup("iscsi-serve", LOG_LEVEL_INFO);
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
		fprintf(stderr, "iscsi-serve: %s\n", error_text(&err));
	return r < 0 ? 1 : 0;
}
