/* SPDX-License-Identifier: Apache-2.0 */
/* trib-csi: the CSI services on a socket, until SIGTERM. */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/notify.h"
#include "csi/call/csi_pages.h"
#include "csi/call/parameters.h"
#include "csi/config.h"
#include "csi/controller/observer.h"
#include "csi/heap_trim.h"
#include "csi/node/node_trim.h"
#include "csi/service.h"
#include "volume/volume.h"

#define EXIT_USAGE 2
/* Of malloc: so that memory of a call is given back, not kept by a worker. */
#define HEAPS_MAX     2
#define LARGE_BYTES   65536 /* an allocation with pages of its own */
#define STOP_GRACE_MS 5000  /* for calls that are between two steps */

struct driver {
	struct csi csi;
	struct rpc_server *server;
	struct http *pages;     /* NULL: not wanted */
	struct node_trim *trim; /* NULL: never, or on no node */
	int stopping; /* an eventfd: the flows stop at their next step */
};

/* For all threads to come: SIGTERM and SIGINT wait for wait_for_signal(). */
static void block_signals(sigset_t *ret)
{
	(void)sigemptyset(ret);
	(void)sigaddset(ret, SIGTERM);
	(void)sigaddset(ret, SIGINT);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)pthread_sigmask(SIG_BLOCK, ret, NULL); /* the set is a good one */
}

static int driver_serve(struct driver *d, const struct config *config,
			struct error *err)
{
	const char *addresses[] = {config->address};
	struct rpc_server_options options = {
		.addresses = addresses,
		.n_addresses = 1,
		/* Nothing else may be beside the socket (CSI). */
		.lock_dir = config->run_dir,
		.workers = (unsigned)config->workers,
		.context = &d->csi,
	};
	int r = dir_make(config->run_dir, 0700, err);

	if (r < 0)
		return r;
	options.methods = csi_methods(config->mode, &options.n_methods);
	return rpc_server_start(&options, &d->server, err);
}

static int driver_start(struct driver *d, const struct config *config,
			struct error *err)
{
	const struct volume_config volumes = {
		.store = config->store,
		.node = config->node,
		.run_dir = config->run_dir,
		.bin_dir = config->bin_dir,
		.launcher = config->launcher,
		.iscsi_secrets = config->iscsi_secrets,
		.source_address = config->source_address,
		.call_timeout_ms = (int)config->call_timeout_ms,
		.cancel_fd = d->stopping,
	};
	int r;

	if (d->stopping < 0)
		return error_set(err, errno, "eventfd: %s", strerror(errno));
	r = csi_init(&d->csi, config->mode, &volumes, err);
	d->csi.max_volumes = config->max_volumes;
	d->csi.kata_run_dir = config->kata_run_dir;
	d->csi.inline_limit = config->ephemeral_limit;
	if (r == 0)
		r = d->csi.heap_trim_fd = heap_trim_open(err);
	if (r > 0)
		r = 0;
	if (r == 0 && config->mode != CSI_MODE_NODE)
		r = observer_start(&d->csi, &d->csi.observer, err);
	if (r == 0 && config->mode != CSI_MODE_CONTROLLER)
		r = node_trim_start(d->csi.volumes, config->trim_period_s,
				    &d->trim, err);
	if (r == 0)
		r = driver_serve(d, config, err);
	if (r == 0 && config->metrics_address)
		r = csi_pages_start(&d->csi, config->metrics_address, &d->pages,
				    err);
	return r;
}

static void driver_stop(struct driver *d)
{
	const uint64_t one = 1;

	/* The eventfd cannot be full, being written once. */
	if (d->stopping >= 0 && write(d->stopping, &one, sizeof(one)) < 0)
		log_warning("eventfd: %s; waiting for calls to end instead",
			    strerror(errno));
	rpc_server_stop(d->server, STOP_GRACE_MS);
	http_stop(d->pages);
	observer_stop(d->csi.observer);
	node_trim_stop(d->trim);
	fd_close(d->csi.heap_trim_fd);
	csi_done(&d->csi);
	fd_close(d->stopping);
}

/* Which of @signals came. */
static int wait_for_signal(const struct driver *d, const sigset_t *signals)
{
	auto_close int fd = signalfd(-1, signals, SFD_CLOEXEC);
	struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
			       {.fd = d->csi.heap_trim_fd, .events = POLLIN}};
	struct signalfd_siginfo info;
	int number = 0;

	if (fd < 0) { /* then only what calls have freed is not given back */
		while (sigwait(signals, &number) != 0)
			;
		return number;
	}
	for (;;) {
		(void)poll(fds, array_size(fds), -1);
		if (fds[1].revents)
			heap_trim_now(d->csi.heap_trim_fd);
		if (fds[0].revents &&
		    read(fd, &info, sizeof(info)) == sizeof(info))
			return (int)info.ssi_signo;
	}
}

/* Say what runs; on a node also what that lacks, and what it costs. */
static void tell_start(const struct config *config, const char *node)
{
	struct initiator_capability found[8];
	size_t n = node[0] ? initiator_probe(found, array_size(found)) : 0;

	log_info(CSI_DRIVER_NAME " " TRIBUTARY_VERSION ": %s%s%s at %s",
		 config->mode_name, node[0] ? " of node " : "", node,
		 config->address);
	for (size_t i = 0; i < n; i++)
		if (!found[i].usable)
			log_info("%s can't be used: %s", found[i].transport,
				 found[i].why);
}

static int driver_run(const struct config *config)
{
	struct driver d = {.csi.heap_trim_fd = -1,
			   .stopping = eventfd(0, EFD_CLOEXEC)};
	struct error err = {0};
	int status = EXIT_FAILURE;
	sigset_t signals;

	block_signals(&signals);
	if (driver_start(&d, config, &err) < 0) {
		log_write(LOG_LEVEL_ERROR, "%s", error_text(&err));
	} else {
		tell_start(config, volume_context_node(d.csi.volumes));
		(void)notify_send("READY=1"); /* nobody may be listening */
		log_info("%s: stopping",
			 strsignal(wait_for_signal(&d, &signals)));
		(void)notify_send("STOPPING=1");
		status = EXIT_SUCCESS;
	}
	driver_stop(&d);
	return status;
}

int main(int argc, char **argv)
{
	struct config config;
	struct error err = {0};
	int status = EXIT_SUCCESS;

	/* If they are refused, it only costs memory. */
	(void)mallopt(M_ARENA_MAX, HEAPS_MAX);
	(void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	log_setup("trib-csi", LOG_LEVEL_INFO);
	if (config_load(&config, argc, argv, &err) < 0) {
		log_write(LOG_LEVEL_ERROR, "%s", error_text(&err));
		status = EXIT_USAGE;
	} else if (config.help) {
		config_help(stdout);
	} else if (config.version) {
		(void)puts("trib-csi " TRIBUTARY_VERSION);
	} else if (config.parameters) {
		parameters_describe(stdout);
	} else {
		log_setup("trib-csi", config.level);
		status = driver_run(&config);
	}
	config_done(&config);
	return status;
}
