/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blockd: joins pools, target and control API, and waits for SIGTERM.
 *
 * Order of the start: existing pools are opened and their exports are known to
 * the target before the first connection is accepted. So a client that
 * reconnects finds its export. Pools are formatted only once the ports are
 * ours. READY when everything answers.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/notify.h"
#include "blockd/api/config.h"
#include "blockd/api/devices.h"
#include "blockd/api/metrics.h"
#include "blockd/api/service.h"
#include "blockd/direct/direct_mapper.h"
#include "blockd/export/exports.h"
#include "blockd/node/low_space.h"
#include "blockd/node/node.h"
#include "blockd/node/node_watch.h"
#include "blockd/raw/pool_raw.h"
#include "rpc/rpc.h"
#include "target/target.h"

#define EXIT_USAGE 2

#define LISTEN_WAIT_MS 2000 /* for a busy address to come free */
#define STOP_GRACE_MS  5000 /* for control calls that are under way */

struct daemon {
	const struct config *config;
	struct node *node;
	struct target *target;
	struct exports *exports;
	struct rpc_server *rpc;
	struct service service;
	struct http *pages;   /* NULL: none */
	char **nbd_addresses; /* owned; "HOST:PORT" or "unix:PATH" */
	size_t n_nbd_addresses;
	char **iscsi_addresses; /* owned; "HOST:PORT" */
	size_t n_iscsi_addresses;
	char *reservations; /* directory, owned */
	struct export_scsi_options scsi;
	struct direct_mapper *direct; /* NULL: there is no device mapper */
	struct low_space *low_space;  /* NULL: nobody is told */
	struct chap_secrets discovery;
};

/* For all threads to come: SIGTERM and SIGINT wait for sigwait(). */
static void block_signals(sigset_t *ret)
{
	(void)sigemptyset(ret);
	(void)sigaddset(ret, SIGTERM);
	(void)sigaddset(ret, SIGINT);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGIO, SIG_IGN); /* blockd/local/loopdev_users.h */
	(void)pthread_sigmask(SIG_BLOCK, ret, NULL); /* the set is a good one */
}

static int add_pool(struct daemon *d, const char *text, bool may_format,
		    struct error *err)
{
	struct node_pool_request request = {
		.capacity = d->config->pool_capacity,
		.may_format = may_format,
	};
	char name[POOL_NAME_SIZE];
	struct error why = {0};
	bool known;
	int r = config_pool(text, name, &request.path, err);

	if (r < 0)
		return r;
	request.name = name;
	known = node_knows_pool(d->node, name);
	if (known && may_format)
		return 0;
	if (may_format) /* the others have one, and keep it */
		request.overcommit_percent =
			(unsigned)d->config->overcommit_percent;
	r = node_add_pool(d->node, &request, NULL, &why);
	if (r < 0 && !may_format && request.capacity) {
		/* Can the pool be opened, but not changed? */
		request.capacity = 0;
		if (node_add_pool(d->node, &request, NULL, NULL) == 0) {
			log_warning("%s; it is as it was", error_text(&why));
			return 0;
		}
	}
	if (r == -ENOENT && !may_format)
		return 0;
	/* How one that we know is, is a state, shown and logged. */
	if (r == 0 || (known && r != -EEXIST && r != -EINVAL && r != -EBUSY))
		return 0;
	return error_set(err, -r, "%s", error_text(&why));
}

/*
 * The pools of the configuration: first those that exist, later the
 * directories that must be formatted.
 */
static int add_pools(struct daemon *d, bool may_format, struct error *err)
{
	const struct option_list *pools = &d->config->pools;
	int r = 0;

	for (size_t i = 0; r == 0 && i < pools->count; i++)
		r = add_pool(d, pools->items[i], may_format, err);
	return r;
}

static int scsi_options(struct daemon *d,
			const struct export_scsi_options **ret,
			struct error *err)
{
	if (asprintf(&d->reservations, "%s/reservations",
		     d->config->state_dir) < 0) {
		d->reservations = NULL;
		return error_set(err, ENOMEM, "out of memory");
	}
	d->scsi = (struct export_scsi_options){
		.state_dir = d->reservations,
		.secrets_dir = d->config->iscsi_secrets,
		.direct_io = d->config->direct_io,
		.low_space = (unsigned)d->config->low_space,
	};
	*ret = &d->scsi;
	return 0;
}

/* Kept in @d until the target has it. */
static int discovery_load(struct daemon *d, const struct chap_secrets **ret,
			  struct error *err)
{
	int r;

	if (!d->config->iscsi_discovery)
		return 0;
	r = chap_secrets_load(d->config->iscsi_discovery, &d->discovery, err);
	if (r == 0)
		*ret = &d->discovery;
	return r;
}

static int start_target(struct daemon *d, struct error *err)
{
	struct target_options options = {
		.loops = (unsigned)d->config->loops,
		.max_connections = (unsigned)d->config->max_connections,
		.peer_timeout_s = (unsigned)d->config->peer_timeout,
		.without = d->config->loops_without,
		.tls =
			{
				.cert = d->config->nbd_tls_cert,
				.key = d->config->nbd_tls_key,
				.ca = d->config->nbd_tls_ca,
				.psk = d->config->nbd_tls_psk,
				.required = strcmp(d->config->nbd_tls,
						   "required") == 0,
			},
	};
	struct exports_options exports = {
		.node = d->node,
		.direct_io = d->config->direct_io,
	};
	int r = discovery_load(d, &options.discovery, err);

	if (r == 0)
		r = target_new(&options, &d->target, err);
	if (r == 0 && d->config->listen_iscsi.count > 0)
		r = scsi_options(d, &exports.scsi, err);
	explicit_bzero(&d->discovery, sizeof(d->discovery));
	exports.target = d->target;
	if (r == 0)
		r = exports_new(&exports, &d->exports, err);
	if (r == 0)
		r = exports_restore(d->exports, NULL, err);
	return r;
}

/* What a client is told: the port that was bound, and no "tcp:". */
static char *shown_address(const char *address, int port)
{
	const char *colon = strrchr(address, ':');
	char *shown;

	if (strncmp(address, "tcp:", 4) != 0 || !colon)
		return strdup(address);
	if (asprintf(&shown, "%.*s:%d", (int)(colon - address) - 4, address + 4,
		     port) < 0)
		return NULL;
	return shown;
}

/*
 * io_uring lets go of a killed process's sockets a moment after the process
 * is gone: a restart that is quick gives the address that long to come free.
 */
static int listen_one(struct daemon *d, const char *address, int *ret_port,
		      int (*listen_at)(struct target *target,
				       const char *address, int *ret_port,
				       struct error *err),
		      struct error *err)
{
	int64_t until_ms = clock_ms() + LISTEN_WAIT_MS;
	const struct timespec pause = {.tv_nsec = 50000000};
	int r;

	for (;;) {
		r = listen_at(d->target, address, ret_port, err);
		if (r != -EADDRINUSE || clock_ms() >= until_ms)
			return r;
		(void)nanosleep(&pause, NULL); /* cut short: ask sooner */
	}
}

static int listen_iscsi(struct daemon *d, struct error *err)
{
	const struct option_list *list = &d->config->listen_iscsi;

	d->iscsi_addresses = calloc(list->count + 1, sizeof(char *));
	if (!d->iscsi_addresses)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < list->count; i++) {
		int port = 0;
		int r = listen_one(d, list->items[i], &port,
				   target_listen_iscsi, err);

		if (r < 0)
			return r;
		d->iscsi_addresses[i] = shown_address(list->items[i], port);
		if (!d->iscsi_addresses[i])
			return error_set(err, ENOMEM, "out of memory");
		d->n_iscsi_addresses++;
		log_info("iSCSI at %s", d->iscsi_addresses[i]);
	}
	return 0;
}

static int listen_all(struct daemon *d, struct error *err)
{
	const struct option_list *list = &d->config->listen;

	d->nbd_addresses = calloc(list->count, sizeof(char *));
	if (!d->nbd_addresses)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < list->count; i++) {
		int port = 0;
		int r = listen_one(d, list->items[i], &port, target_listen_nbd,
				   err);

		if (r < 0)
			return r;
		d->nbd_addresses[i] = shown_address(list->items[i], port);
		if (!d->nbd_addresses[i])
			return error_set(err, ENOMEM, "out of memory");
		d->n_nbd_addresses++;
		log_info("NBD at %s", d->nbd_addresses[i]);
	}
	return 0;
}

/* Note the certificates in use. Those of NBD are read once. */
static void note_certs(struct daemon *d)
{
	const struct config *c = d->config;
	const struct {
		const char *file;
		enum rpc_cert_kind kind;
		bool reread;
	} files[SERVICE_CERTS] = {
		{c->tls_cert, RPC_CERT_CHAIN, true},
		{c->tls_ca, RPC_CERT_CA, true},
		{c->nbd_tls_cert, RPC_CERT_CHAIN, false},
		{c->nbd_tls_ca, RPC_CERT_CA, false},
	};
	char text[ERROR_TEXT_MAX];

	for (size_t i = 0; i < SERVICE_CERTS; i++) {
		struct service_cert *own =
			&d->service.certs[d->service.n_certs];

		/* A file that cannot be read is refused where it is used. */
		if (!files[i].file ||
		    rpc_cert_read(files[i].file, files[i].kind, &own->cert,
				  NULL) < 0)
			continue;
		own->kind = files[i].kind;
		own->reread = files[i].reread;
		d->service.n_certs++;
		if (rpc_cert_warns(&own->cert, (int64_t)time(NULL), text))
			log_warning("%s", text);
	}
}

static int start_control(struct daemon *d, struct error *err)
{
	const struct config *config = d->config;
	struct rpc_tls tls = {
		.ca_file = config->tls_ca,
		.cert_file = config->tls_cert,
		.key_file = config->tls_key,
	};
	struct rpc_server_options options = {
		.addresses = (const char *const *)config->control.items,
		.n_addresses = config->control.count,
		.tls = config->tls_ca ? &tls : NULL,
		.allow_plain_tcp = config->allow_plain_tcp,
		.methods = service_methods,
		.n_methods = service_n_methods,
		.context = &d->service,
	};
	int r;

	d->service.name = config->node_name;
	d->service.started_ms = clock_ms();
	d->service.nbd_addresses = d->nbd_addresses;
	d->service.n_nbd_addresses = d->n_nbd_addresses;
	d->service.iscsi_addresses = d->iscsi_addresses;
	d->service.n_iscsi_addresses = d->n_iscsi_addresses;
	d->service.node = d->node;
	d->service.exports = d->exports;
	note_certs(d);
	r = boot_id_read(d->service.boot_id);
	if (r < 0)
		return error_set(err, -r, "read the boot id: %s", strerror(-r));
	if (config->allow_plain_tcp)
		log_warning("control by TCP without TLS is allowed: any "
			    "client that reaches the port owns the data");
	r = rpc_server_start(&options, &d->rpc, err);
	for (size_t i = 0; r == 0 && i < config->control.count; i++)
		log_info("control at %s", config->control.items[i]);
	return r;
}

/*
 * Before the first pool: what an earlier blockd left is taken over with it,
 * also without the option.
 */
static int start_direct(struct daemon *d, struct error *err)
{
	auto_free char *notes = NULL, *frozen = NULL;
	struct error why;
	int r = mapper_probe(&mapper_kernel, &why);

	if (r < 0 && d->config->direct)
		log_warning("no direct runs: %s", error_text(&why));
	if (r < 0)
		return 0;
	if (asprintf(&notes, "%s/direct", d->config->run_dir) < 0 ||
	    asprintf(&frozen, "%s/frozen", d->config->state_dir) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = direct_mapper_new(&mapper_kernel, notes, frozen, d->config->direct,
			      &d->direct, err);
	if (r == 0)
		direct_system_set(direct_mapper_system(d->direct));
	return r;
}

static int daemon_start(struct daemon *d, struct error *err)
{
	struct node_options options = {
		.state_dir = d->config->state_dir,
		.floor = d->config->floor,
	};
	int r = dir_make(d->config->run_dir, 0700, err);

	if (r == 0)
		r = start_direct(d, err);
	if (r == 0)
		r = node_new(&options, &d->node, err);
	if (r == 0)
		r = node_open_known(d->node, err);
	if (r == 0)
		r = add_pools(d, false, err);
	if (r == 0)
		r = start_target(d, err);
	if (r == 0)
		r = listen_all(d, err);
	if (r == 0)
		r = listen_iscsi(d, err);
	if (r == 0)
		r = add_pools(d, true, err);
	if (r == 0)
		r = node_watch_start(d->node, err);
	if (r == 0 && d->config->low_space > 0 &&
	    d->config->listen_iscsi.count > 0)
		r = low_space_start(d->node, d->target,
				    (unsigned)d->config->low_space,
				    &d->low_space, err);
	if (r == 0)
		r = start_control(d, err);
	if (r == 0 && d->config->metrics_address)
		r = metrics_start(d->config->metrics_address, &d->service,
				  &d->pages, err);
	return r;
}

/* In reverse: no new orders, no connections, then the pools. */
static void stop(struct daemon *d)
{
	http_stop(d->pages);
	rpc_server_stop(d->rpc, STOP_GRACE_MS);
	low_space_stop(d->low_space);
	node_watch_stop(d->node);
	exports_let_go(d->exports);
	target_free(d->target);
	exports_free(d->exports);
	node_free(d->node);
	direct_mapper_free(d->direct);
	for (size_t i = 0; i < d->n_nbd_addresses; i++)
		free(d->nbd_addresses[i]);
	free(d->nbd_addresses);
	for (size_t i = 0; i < d->n_iscsi_addresses; i++)
		free(d->iscsi_addresses[i]);
	free(d->iscsi_addresses);
	free(d->reservations);
}

static int serve_until_signal(struct daemon *d, const sigset_t *signals)
{
	struct error err = {0};
	int signal_number = 0;

	if (daemon_start(d, &err) < 0) {
		log_write(LOG_LEVEL_ERROR, "%s", error_text(&err));
		return EXIT_FAILURE;
	}
	log_info("node %s is ready", d->config->node_name);
	(void)notify_send("READY=1"); /* nobody may be listening */
	devices_make_pools(d->node, &d->config->devices);
	while (sigwait(signals, &signal_number) != 0)
		;
	(void)notify_send("STOPPING=1");
	log_info("%s: stopping", strsignal(signal_number));
	return EXIT_SUCCESS;
}

static int blockd_run(const struct config *config)
{
	struct daemon d = {.config = config};
	sigset_t signals;
	int status;

	block_signals(&signals);
	status = serve_until_signal(&d, &signals);
	stop(&d);
	if (status == EXIT_SUCCESS)
		log_info("stopped");
	return status;
}

static void show_finding(void *context, const char *text, bool repaired)
{
	(void)context;
	(void)printf("%s%s\n", text, repaired ? " (repaired)" : "");
}

/* Of a pool that no blockd serves. */
static int check_pool(const struct config *config)
{
	struct error err = {0};
	bool clean = false;

	if (pool_raw_check(config->check_pool, config->repair, show_finding,
			   NULL, &clean, &err) < 0)
		log_write(LOG_LEVEL_ERROR, "%s", error_text(&err));
	else
		(void)puts(clean ? "the pool is whole"
				 : "the pool is not whole");
	return clean ? EXIT_SUCCESS : EXIT_FAILURE;
}

/*
 * A node may mount an extent of its own raw pool: then the kernel must not
 * wait for this process when this process asks for memory. Its threads
 * inherit it. Without the right to do it (CAP_SYS_RESOURCE) the risk is a
 * machine that stalls when it is short of memory.
 */
static void become_flusher(void)
{
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) < 0)
		log_info("PR_SET_IO_FLUSHER: %s; mounting extents of a raw "
			 "pool on this very node may stall it when memory is "
			 "short",
			 strerror(errno));
}

int main(int argc, char **argv)
{
	struct config config;
	struct error err = {0};
	int status = EXIT_SUCCESS;

	log_setup("blockd", LOG_LEVEL_INFO);
	if (config_load(&config, argc, argv, &err) < 0) {
		log_write(LOG_LEVEL_ERROR, "%s", error_text(&err));
		status = EXIT_USAGE;
	} else if (config.help) {
		config_help(stdout);
	} else if (config.version) {
		(void)puts("blockd " TRIBUTARY_VERSION);
	} else if (config.check_config) {
		(void)puts("the configuration is good");
	} else if (config.check_pool) {
		status = check_pool(&config);
	} else {
		log_setup("blockd", config.level);
		become_flusher();
		status = blockd_run(&config);
	}
	config_done(&config);
	return status;
}
