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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/testkit/serve_kit.h"

struct config {
	struct option_list listen, exports, initiators, without;
	uint64_t epoch, loops, max_connections, buffers, peer_timeout;
	char *tls_cert, *tls_key, *tls_ca, *tls_psk;
	char *incarnation;
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
	ROW("peer-timeout", OPTION_NUMBER, peer_timeout, "SECONDS",
	    "until a silent peer is gone", "60"),
	ROW("incarnation", OPTION_STRING, incarnation, "TEXT",
	    "what acknowledged writes are lost with", "test"),
	ROW("without", OPTION_LIST, without, "FEATURE", LOOP_FEATURE_NAMES,
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

static int export_add(struct target *target, const struct config *config,
		      const char *text, struct error *err)
{
	struct serve_disk *disk = NULL;
	char description[128];
	int r = serve_disk_new(text, config->direct, &disk, err);
	struct target_export export = {
		.epoch = config->epoch,
		.read_only = config->read_only,
		.initiators = (const char *const *)config->initiators.items,
		.n_initiators = config->initiators.count,
		.description = description,
		.open = serve_disk_open,
		.context = disk,
		.release = free,
	};

	if (r < 0)
		return r;
	(void)snprintf(description, sizeof(description), "incarnation=%s",
		       config->incarnation);
	export.name = disk->name;
	return target_export_set(target, &export, err);
}

static int serve(struct target *target, const struct config *config,
		 struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < config->exports.count && r == 0; i++)
		r = export_add(target, config, config->exports.items[i], err);
	if (r == 0)
		r = serve_listen(target, &config->listen, target_listen_nbd,
				 err);
	return r < 0 ? r : serve_wait(target, &config->exports);
}

static int run(void *context, struct error *err)
{
	const struct config *config = context;
	struct target_options options = {
		.loops = (unsigned)config->loops,
		.max_connections = (unsigned)config->max_connections,
		.buffer_limit = config->buffers,
		.peer_timeout_s = (unsigned)config->peer_timeout,
		.tls = {config->tls_cert, config->tls_key, config->tls_ca,
			config->tls_psk, config->tls_required},
	};
	struct target *target = NULL;
	int r = serve_without(&config->without, &options.without, err);

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
		.name = "nbd-serve",
		.rows = rows,
		.n_rows = array_size(rows),
		.config = &config,
		.help = &config.help,
		.run = run,
	};

	return serve_main(&program, argc, argv);
}
