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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/iscsi/iscsi_chap.h"
#include "target/testkit/serve_kit.h"

struct config {
	struct option_list listen, nbd, exports, addresses, admitted, without;
	char *chap, *discovery, *target, *state_dir;
	uint64_t epoch, loops, max_connections, buffers, block_size;
	uint64_t physical_size, peer_timeout, low_space;
	bool read_only, removable, thin, direct, help;
	/* Of @chap, and of @discovery. */
	struct chap_secrets secrets, discovering;
};

#define ROW(name, type, member, argument, help, value)                    \
	{                                                                 \
		name, 0, type, offsetof(struct config, member), argument, \
			help, value, 0, 0                                 \
	}

static const struct option_row rows[] = {
	ROW("listen", OPTION_LIST, listen, "ADDRESS", "tcp:HOST:PORT",
	    "tcp:127.0.0.1:0"),
	ROW("listen-nbd", OPTION_LIST, nbd, "ADDRESS",
	    "serve the same by NBD, too", NULL),
	ROW("export", OPTION_LIST, exports, "NAME=PATH|NAME=ram:SIZE",
	    "what to serve", NULL),
	ROW("target", OPTION_STRING, target, "NAME",
	    "all exports are LUNs of this target, in their order", NULL),
	ROW("addresses", OPTION_LIST, addresses, "ADDRESS",
	    "who may connect; iscsi:NAME[@ADDRESS] for an initiator's name",
	    "any"),
	ROW("admit", OPTION_LIST, admitted, "EXPORT=ADDRESS",
	    "who may connect to this export, instead of those", NULL),
	ROW("chap", OPTION_STRING, chap, "FILE", "CHAP users and secrets",
	    NULL),
	ROW("discovery", OPTION_STRING, discovery, "FILE",
	    "CHAP user and secret of discovery sessions", NULL),
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
	ROW("peer-timeout", OPTION_NUMBER, peer_timeout, "SECONDS",
	    "until a silent peer is gone", "60"),
	ROW("without", OPTION_LIST, without, "FEATURE", LOOP_FEATURE_NAMES,
	    NULL),
	ROW("read-only", OPTION_FLAG, read_only, NULL, "refuse writes", NULL),
	ROW("removable", OPTION_FLAG, removable, NULL, "media can be ejected",
	    NULL),
	ROW("thin", OPTION_FLAG, thin, NULL, "UNMAP is there", NULL),
	ROW("low-space", OPTION_NUMBER, low_space, "PERCENT",
	    "what mode page 1C/02 says; nobody is told", NULL),
	ROW("direct", OPTION_FLAG, direct, NULL, "open files with O_DIRECT",
	    NULL),
	ROW("help", OPTION_FLAG, help, NULL, "this text", NULL),
};

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

/* Whom it is for: what --admit says of it, or else everybody. */
static size_t admitted(const struct config *config, const char *name,
		       const char *ret[static TARGET_INITIATORS_MAX])
{
	size_t length = strlen(name), n = 0;

	for (size_t i = 0; i < config->admitted.count; i++) {
		const char *row = config->admitted.items[i];

		if (strncmp(row, name, length) == 0 && row[length] == '=' &&
		    n < TARGET_INITIATORS_MAX)
			ret[n++] = row + length + 1;
	}
	for (size_t i = 0;
	     n == 0 && i < config->addresses.count && i < TARGET_INITIATORS_MAX;
	     i++)
		ret[i] = config->addresses.items[i];
	return n ?: config->addresses.count;
}

static void say_target(const struct config *config, const char *name,
		       unsigned lun)
{
	if (config->target)
		printf("target %s", config->target);
	else
		printf("target %s:%s", TARGET_ISCSI_PREFIX, name);
	if (config->epoch > 0)
		printf(":%" PRIu64, config->epoch);
	printf(" %u\n", lun);
}

static int export_add(struct target *target, const struct config *config,
		      size_t index, struct error *err)
{
	char state[PATH_MAX + SERVE_NAME_MAX];
	const char *who[TARGET_INITIATORS_MAX];
	struct serve_disk *disk = NULL;
	int r = serve_disk_new(config->exports.items[index], config->direct,
			       &disk, err);
	struct target_scsi scsi = {
		.name = config->target,
		.lun = config->target ? (unsigned)index : 0,
		.size = r == 0 ? disk->size : 0,
		.block_size = (uint32_t)config->block_size,
		.physical_size = (uint32_t)config->physical_size,
		.removable = config->removable,
		.thin = config->thin,
		.low_space = (unsigned)config->low_space,
		.secrets = config->chap ? &config->secrets : NULL,
	};
	struct target_export export = {
		.name = r == 0 ? disk->name : "",
		.epoch = config->epoch,
		.read_only = config->read_only,
		.initiators = who,
		.scsi = &scsi,
		.open = serve_disk_open,
		.context = disk,
		.release = free,
	};

	if (r < 0)
		return r;
	export.n_initiators = admitted(config, disk->name, who);
	uuid_of(disk->name, scsi.uuid);
	if (config->state_dir) {
		(void)snprintf(state, sizeof(state), "%s/%s.reservations",
			       config->state_dir, disk->name);
		scsi.state_path = state;
	}
	say_target(config, disk->name, scsi.lun);
	return target_export_set(target, &export, err);
}

static int serve(struct target *target, const struct config *config,
		 struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < config->exports.count && r == 0; i++)
		r = export_add(target, config, i, err);
	if (r == 0)
		r = serve_listen(target, &config->nbd, target_listen_nbd, err);
	if (r == 0)
		r = serve_listen(target, &config->listen, target_listen_iscsi,
				 err);
	return r < 0 ? r : serve_wait(target, &config->exports);
}

static int run(void *context, struct error *err)
{
	struct config *config = context;
	struct target_options options = {
		.loops = (unsigned)config->loops,
		.max_connections = (unsigned)config->max_connections,
		.buffer_limit = config->buffers,
		.peer_timeout_s = (unsigned)config->peer_timeout,
	};
	struct target *target = NULL;
	int r = serve_without(&config->without, &options.without, err);

	if (r == 0 && config->chap)
		r = chap_secrets_load(config->chap, &config->secrets, err);
	if (r == 0 && config->discovery) {
		r = chap_secrets_load(config->discovery, &config->discovering,
				      err);
		options.discovery = &config->discovering;
	}
	if (r == 0)
		r = target_new(&options, &target, err);
	if (r == 0)
		r = serve(target, config, err);
	target_free(target);
	return r;
}

int main(int argc, char **argv)
{
	struct config config = {0};
	const struct serve_program program = {
		.name = "iscsi-serve",
		.rows = rows,
		.n_rows = array_size(rows),
		.config = &config,
		.help = &config.help,
		.run = run,
	};

	return serve_main(&program, argc, argv);
}
