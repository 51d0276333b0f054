/* SPDX-License-Identifier: Apache-2.0 */
#include "target/target.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "target/export/export_table.h"
#include "target/iscsi/iscsi_conn.h"
#include "target/iscsi/iscsi_table.h"
#include "target/nbd/nbd_conn.h"
#include "target/nbd/nbd_proto.h"
#include "target/net/listener.h"
#include "target/target_internal.h"

#define LOOPS_MAX               64
#define LOOPS_DEFAULT_MAX       4
#define CONNECTIONS_DEFAULT_MAX 1024

/* ---- new connections, on worker 0 ---- */

struct handover {
	struct loop_message message;
	struct conn_service *service;
	int fd;
	struct peer_address peer;
};

static void handover_run(struct loop_message *message)
{
	struct handover *handover = container_of(message, struct handover,
						 message);

	conn_start(handover->service, handover->fd, &handover->peer);
	free(handover);
}

/*
 * The one with the fewest, worker 0 as the last of these. A thread that waits
 * for a disk gets none. NULL: there are too many in all.
 */
static struct worker *worker_choose(struct target *target)
{
	struct worker *best = NULL;
	unsigned fewest = 0, total = 0;

	for (unsigned i = target->n_workers; i-- > 0;) {
		struct worker *worker = &target->workers[i];
		unsigned n = atomic_load(&worker->connections);

		total += n;
		if (atomic_load(&worker->blocked_ns) == 0 &&
		    (!best || n < fewest)) {
			best = worker;
			fewest = n;
		}
	}
	return total < target->max_connections ? best : NULL;
}

/* The same, and counts the connection there. */
static struct worker *worker_take(struct target *target)
{
	struct worker *worker;

	while ((worker = worker_choose(target))) {
		atomic_fetch_add(&worker->connections, 1);
		if (atomic_load(&worker->blocked_ns) == 0)
			break;
		atomic_fetch_sub(&worker->connections, 1);
	}
	return worker;
}

static void peer_refuse(struct target *target, int fd,
			const struct peer_address *peer, const char *why)
{
	char text[PEER_ADDRESS_TEXT_MAX];
	unsigned dropped;

	fd_close(fd);
	if (log_limit_allow(&target->log_limit, &dropped))
		log_warning("refused a connection from %s: %s",
			    peer_address_format(peer, text, sizeof(text)), why);
}

static void hand_over(struct target *target, int fd,
		      const struct peer_address *peer, bool iscsi)
{
	struct worker *worker = worker_take(target);
	struct handover *handover;

	if (!worker) {
		peer_refuse(target, fd, peer,
			    "as many as allowed are connected");
		return;
	}
	handover = calloc(1, sizeof(*handover));
	if (!handover) {
		atomic_fetch_sub(&worker->connections, 1);
		peer_refuse(target, fd, peer, "no memory");
		return;
	}
	handover->message.run = handover_run;
	handover->service = iscsi ? &worker->iscsi.base : &worker->nbd;
	handover->fd = fd;
	handover->peer = *peer;
	loop_post(worker->loop, &handover->message);
}

static void accepted_nbd(struct listener *listener, int fd,
			 const struct peer_address *peer)
{
	hand_over(listener->context, fd, peer, false);
}

static void accepted_iscsi(struct listener *listener, int fd,
			   const struct peer_address *peer)
{
	hand_over(listener->context, fd, peer, true);
}

/* ---- listeners ---- */

static void listener_closed(struct listener *listener)
{
	struct target *target = listener->context;

	if (--target->listeners_open == 0)
		sem_post(&target->listeners_closed);
}

static int listener_add(void *context)
{
	struct listener *listener = context;
	struct target *target = listener->context;

	listener->next = target->listeners;
	target->listeners = listener;
	target->listeners_open++;
	listener_start(listener);
	return 0;
}

static int listen_at(struct target *target, const char *address, int *ret_port,
		     void (*accepted)(struct listener *listener, int fd,
				      const struct peer_address *peer),
		     struct error *err)
{
	struct listener *listener = calloc(1, sizeof(*listener));
	int r;

	if (!listener)
		return error_set(err, ENOMEM, "no memory for a listener");
	r = listener_open(address, &listener->fd, ret_port,
			  &listener->unix_path, err);
	if (r < 0) {
		free(listener);
		return r;
	}
	listener->loop = target->workers[0].loop;
	listener->accepted = accepted;
	listener->closed = listener_closed;
	listener->context = target;
	return loop_call(listener->loop, listener_add, listener);
}

int target_listen_nbd(struct target *target, const char *address, int *ret_port,
		      struct error *err)
{
	return listen_at(target, address, ret_port, accepted_nbd, err);
}

int target_listen_iscsi(struct target *target, const char *address,
			int *ret_port, struct error *err)
{
	return listen_at(target, address, ret_port, accepted_iscsi, err);
}

static int listeners_close(void *context)
{
	struct target *target = context;

	if (target->listeners_open == 0)
		sem_post(&target->listeners_closed);
	for (struct listener *l = target->listeners; l; l = l->next)
		listener_close(l);
	return 0;
}

static void listeners_end(struct target *target)
{
	struct listener *listener = target->listeners;

	(void)loop_call(target->workers[0].loop, listeners_close, target);
	while (sem_wait(&target->listeners_closed) < 0 && errno == EINTR)
		;
	while (listener) {
		struct listener *next = listener->next;

		free(listener->unix_path);
		free(listener);
		listener = next;
	}
}

/* ---- the target ---- */

static unsigned loops_default(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (cores < 1)
		return 1;
	return cores < LOOPS_DEFAULT_MAX ? (unsigned)cores : LOOPS_DEFAULT_MAX;
}

static int target_options_check(const struct target_options *options,
				struct error *err)
{
	if (options->peer_timeout_s > TARGET_PEER_TIMEOUT_MAX_S)
		return error_set(err, EINVAL,
				 "peers have at most %d s to answer, not %u",
				 TARGET_PEER_TIMEOUT_MAX_S,
				 options->peer_timeout_s);
	if (options->loops > LOOPS_MAX)
		return error_set(err, EINVAL, "at most %d loops, not %u",
				 LOOPS_MAX, options->loops);
	if (options->buffer_limit != 0 &&
	    options->buffer_limit < NBD_PAYLOAD_MAX)
		return error_set(err, EINVAL,
				 "a loop needs at least %u bytes of buffers: "
				 "the largest request",
				 NBD_PAYLOAD_MAX);
	return 0;
}

static int tls_open(struct target *target, const struct target_tls *tls,
		    struct error *err)
{
	const struct tls_files files = {
		.cert = tls->cert,
		.key = tls->key,
		.ca = tls->ca,
		.psk = tls->psk,
	};

	if (!tls->cert && !tls->key && !tls->ca && !tls->psk && !tls->required)
		return 0;
	return tls_server_new(&files, &target->tls, err);
}

int target_new(const struct target_options *options, struct target **ret,
	       struct error *err)
{
	unsigned n = options->loops ?: loops_default();
	struct target *target;
	int r = target_options_check(options, err);

	if (r < 0)
		return r;
	target = calloc(1, sizeof(*target) + n * sizeof(target->workers[0]));
	if (!target)
		return error_set(err, ENOMEM, "no memory for a target");
	target->max_connections = options->max_connections
					  ?: CONNECTIONS_DEFAULT_MAX;
	sem_init(&target->listeners_closed, 0, 0);
	target->exports = export_table_new();
	if (target->exports)
		target->iscsi = iscsi_table_new(target->exports);
	if (!target->iscsi)
		r = error_set(err, ENOMEM, "no memory for a target");
	else if (options->discovery)
		r = iscsi_table_set_discovery(target->iscsi, options->discovery,
					      err);
	if (r == 0)
		r = tls_open(target, &options->tls, err);
	for (unsigned i = 0; i < n && r == 0; i++) {
		target->n_workers++;
		r = worker_start(target, &target->workers[i], options, i, err);
	}
	if (r < 0) {
		target_free(target);
		return r;
	}
	*ret = target;
	return 0;
}

void target_free(struct target *target)
{
	if (!target)
		return;
	if (target->n_workers > 0 && target->workers[0].started)
		listeners_end(target);
	for (unsigned i = 0; i < target->n_workers; i++)
		worker_stop(&target->workers[i]);
	for (unsigned i = 0; i < target->n_workers; i++)
		worker_end(&target->workers[i]);
	iscsi_table_free(target->iscsi);
	export_table_free(target->exports);
	tls_server_free(target->tls);
	sem_destroy(&target->listeners_closed);
	free(target);
}

int target_export_set(struct target *target, const struct target_export *spec,
		      struct error *err)
{
	struct export_ready export;
	struct iscsi_ready lun;
	int r = export_table_prepare(target->exports, spec, &export, err);

	if (r < 0)
		return r;
	if (spec->scsi) {
		r = iscsi_table_prepare(target->iscsi, spec, &lun, err);
		if (r < 0) {
			export_table_cancel(target->exports, &export);
			return r;
		}
	}
	iscsi_table_vacate(target->iscsi, spec);
	r = export_table_commit(target->exports, &export, err);
	if (!spec->scsi)
		return r;
	if (r == 0)
		return iscsi_table_commit(target->iscsi, &lun, spec, err);
	iscsi_table_cancel(target->iscsi, &lun);
	return r;
}

int target_export_remove(struct target *target, const char *name,
			 struct error *err)
{
	(void)err; /* an export that is not there is gone */
	iscsi_table_remove(target->iscsi, name);
	export_table_remove(target->exports, name);
	return 0;
}

int target_export_end(struct target *target, const char *name, uint64_t epoch,
		      struct error *err)
{
	iscsi_table_remove(target->iscsi, name);
	return export_table_end(target->exports, name, epoch, err);
}

void target_export_grow(struct target *target, const char *name, uint64_t size)
{
	for (unsigned i = 0; i < target->n_workers; i++)
		worker_grow(&target->workers[i], name, size);
	/* Last: initiators that are told can use the new size at once. */
	iscsi_table_grow(target->iscsi, name, size);
}

void target_export_low_space(struct target *target, const char *name)
{
	iscsi_table_low_space(target->iscsi, name);
}

int target_export_stats(struct target *target, const char *name,
			struct export_stats *ret,
			struct target_connection **ret_list, size_t *ret_n)
{
	return export_table_stats(target->exports, name, ret, ret_list, ret_n);
}

unsigned target_export_connections(struct target *target, const char *name)
{
	return export_table_users(target->exports, name);
}
