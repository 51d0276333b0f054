/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: listeners, the one thread that moves bytes, and the end.
 *
 * In this library only threads inside grpc_completion_queue_next() do I/O,
 * so the poller never blocks: it hands calls to the workers, and tells a
 * handler of its cancellation while that runs.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "rpc/rpc_internal.h"

#define WORKERS_DEFAULT     8
#define QUEUE_DEFAULT       64
#define MESSAGE_MAX_DEFAULT (1u << 20)  /* bytes */
#define MESSAGE_MAX         (1u << 30)  /* bytes; the library counts in int */
#define ARENA_MAX_DEFAULT   (16u << 20) /* bytes */
#define STREAMS_MAX         256         /* calls at once on one connection */
#define HANDSHAKE_MS        10000

static void *poll_events(void *context)
{
	struct rpc_server *server = context;

	for (;;) {
		grpc_event event = grpc_completion_queue_next(
			server->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
		struct rpc_tag *tag = event.tag;

		rpc_core_observe();
		if (event.type == GRPC_QUEUE_SHUTDOWN)
			return NULL;
		tag->done(tag, event.success);
	}
}

static void shutdown_done(struct rpc_tag *tag, bool ok)
{
	struct rpc_server *server = container_of(tag, struct rpc_server,
						 shutdown_tag);

	(void)ok; /* either way it is over */
	pthread_mutex_lock(&server->lock);
	server->shut = true;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
}

/* ---- start ---- */

static grpc_server *server_create(const struct rpc_server *server)
{
	grpc_arg args[] = {
		rpc_core_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
			     (int)server->message_max),
		rpc_core_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, STREAMS_MAX),
		/* Two servers on one port is never what was meant. */
		rpc_core_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),
		/* No compression: a small body that grows is no use to us. */
		rpc_core_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
			     1 << GRPC_COMPRESS_NONE),
		rpc_core_arg(GRPC_ARG_KEEPALIVE_TIME_MS,
			     RPC_SERVER_KEEPALIVE_MS),
		rpc_core_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
			     RPC_KEEPALIVE_TIMEOUT_MS),
		rpc_core_arg(
			GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
			RPC_SERVER_PING_MIN_MS),
		rpc_core_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
		rpc_core_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
			     HANDSHAKE_MS),
	};

	return grpc_server_create(&(grpc_channel_args){array_size(args), args},
				  NULL);
}

static int credentials(struct rpc_server *server,
		       const struct rpc_address *address,
		       const struct rpc_server_options *options,
		       grpc_server_credentials **ret, struct error *err)
{
	char text[RPC_TARGET_MAX];

	rpc_address_format(text, address);
	if (!address->is_unix && options->tls) {
		int r = server->tls
				? 0
				: rpc_tls_copy(options->tls, &server->tls, err);

		return r < 0 ? r : rpc_tls_server(server->tls, ret, err);
	}
	if (!address->is_unix && !options->allow_plain_tcp)
		return error_set(
			err, EPERM,
			"'%s' would be open to every client that reaches it: give "
			"TLS files, or allow plain TCP by name",
			text);
	if (!address->is_unix)
		log_warning(
			"%s is served without TLS, as allowed: every client that "
			"reaches it may do everything",
			text);
	*ret = grpc_insecure_server_credentials_create();
	return 0;
}

static int bind_failed(const struct rpc_address *address, struct error *err)
{
	char text[RPC_TARGET_MAX];
	int r = rpc_address_probe(address);

	rpc_address_format(text, address);
	if (r == -EADDRINUSE)
		return error_set(err, EADDRINUSE,
				 "listen on '%s': something else has it; stop "
				 "that, or choose another address",
				 text);
	if (r < 0)
		return error_set(err, -r, "listen on '%s': %s", text,
				 strerror(-r));
	return error_set(err, EIO,
			 "listen on '%s': refused; the log may say why (TLS "
			 "files that do not fit each other?)",
			 text);
}

static int listen_on(struct rpc_server *server, struct rpc_listener *l,
		     const char *text, const struct rpc_server_options *options,
		     struct error *err)
{
	grpc_server_credentials *creds;
	char where[RPC_TARGET_MAX];
	mode_t mask;
	int r;

	r = rpc_address_parse(text, &l->address, err);
	if (r < 0)
		return r;
	r = credentials(server, &l->address, options, &creds, err);
	if (r < 0)
		return r;
	if (l->address.is_unix)
		r = rpc_lock_take(l->address.path, options->lock_dir, &l->lock,
				  err);
	if (r < 0)
		goto out;
	rpc_address_listen(where, &l->address);
	/* The socket is never there with another mode than 0600. */
	mask = umask(0177);
	rpc_core_quiet(l->address.is_unix || !options->tls);
	l->port = grpc_server_add_http2_port(server->server, where, creds);
	rpc_core_quiet(false);
	umask(mask);
	if (!l->port)
		r = bind_failed(&l->address, err);
out:
	grpc_server_credentials_release(creds);
	return r;
}

static void settings(struct rpc_server *server,
		     const struct rpc_server_options *options,
		     unsigned *ret_workers, unsigned *ret_queue)
{
	*ret_workers = options->workers ? options->workers : WORKERS_DEFAULT;
	*ret_queue = options->queue ? options->queue : QUEUE_DEFAULT;
	server->message_max = options->message_max ? options->message_max
						   : MESSAGE_MAX_DEFAULT;
	server->arena_max = options->arena_max ? options->arena_max
					       : ARENA_MAX_DEFAULT;
	/*
	 * Beside those running and waiting, some whose body is still coming;
	 * no more, so that bodies stay within bounds.
	 */
	server->calls_max = 2 * (*ret_workers + *ret_queue) + 16;
	server->context = options->context;
}

/* Unlock and free; the library's part is gone already. */
static void server_free(struct rpc_server *server)
{
	for (size_t i = 0; i < server->n_listeners; i++)
		rpc_lock_release(&server->listeners[i].lock);
	gpr_free(server->listeners);
	gpr_free(server->methods);
	rpc_tls_free(server->tls);
	pthread_cond_destroy(&server->changed);
	pthread_mutex_destroy(&server->lock);
	gpr_free(server);
}

static struct rpc_server *server_new(size_t n_listeners)
{
	struct rpc_server *server = gpr_zalloc(sizeof(*server));

	pthread_mutex_init(&server->lock, NULL);
	rpc_core_cond_init(&server->changed);
	LIST_INIT(&server->calls);
	server->shutdown_tag.done = shutdown_done;
	server->listeners = gpr_zalloc(n_listeners *
				       sizeof(*server->listeners));
	server->n_listeners = n_listeners;
	for (size_t i = 0; i < n_listeners; i++)
		server->listeners[i].lock.fd = -1;
	return server;
}

/* Ask the library to end, and wait; @grace_ms for the calls. */
static void end_calls(struct rpc_server *server, int grace_ms)
{
	struct timespec until;
	struct rpc_call *call;

	pthread_mutex_lock(&server->lock);
	server->stopping = true;
	LIST_FOREACH (call, &server->calls, next)
		if (call->method && call->method->server_streams)
			rpc_call_cancel(call);
	pthread_mutex_unlock(&server->lock);
	rpc_core_publish();
	grpc_server_shutdown_and_notify(server->server, server->cq,
					&server->shutdown_tag);

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += grace_ms / 1000;
	until.tv_nsec += grace_ms % 1000 * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	pthread_mutex_lock(&server->lock);
	while (!server->shut || server->n_calls)
		if (pthread_cond_timedwait(&server->changed, &server->lock,
					   &until) == ETIMEDOUT)
			break;
	if (!server->shut || server->n_calls) {
		pthread_mutex_unlock(&server->lock);
		grpc_server_cancel_all_calls(server->server);
		pthread_mutex_lock(&server->lock);
	}
	while (!server->shut || server->n_calls)
		pthread_cond_wait(&server->changed, &server->lock);
	pthread_mutex_unlock(&server->lock);
}

/*
 * Close the queue, which may only be shut when nothing can be put on it any
 * more.
 */
static void close_queue(struct rpc_server *server)
{
	grpc_completion_queue_shutdown(server->cq);
	pthread_join(server->poller, NULL);
	grpc_server_destroy(server->server);
	grpc_completion_queue_destroy(server->cq);
}

static int begin(struct rpc_server *server,
		 const struct rpc_server_options *options, struct error *err)
{
	unsigned workers, queue;
	int r = 0;

	settings(server, options, &workers, &queue);
	server->cq = grpc_completion_queue_create_for_next(NULL);
	server->server = server_create(server);
	grpc_server_register_completion_queue(server->server, server->cq, NULL);
	for (size_t i = 0; i < options->n_addresses && r >= 0; i++)
		r = listen_on(server, &server->listeners[i],
			      options->addresses[i], options, err);
	if (r >= 0)
		r = rpc_pool_start(&server->pool, workers, queue, err);
	if (r >= 0) {
		r = rpc_core_thread(&server->poller, "rpc-poller", poll_events,
				    server);
		if (r >= 0)
			return 0;
		(void)error_set(err, -r, "start the poller: %s", strerror(-r));
		rpc_pool_stop(&server->pool);
	}
	return r;
}

/* Abandon a server that never started: nobody polls but we. */
static void abandon(struct rpc_server *server)
{
	grpc_event event;

	grpc_server_shutdown_and_notify(server->server, server->cq,
					&server->shutdown_tag);
	do
		event = grpc_completion_queue_next(
			server->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	while (event.tag != &server->shutdown_tag);
	grpc_server_destroy(server->server);
	grpc_completion_queue_shutdown(server->cq);
	do
		event = grpc_completion_queue_next(
			server->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
	while (event.type != GRPC_QUEUE_SHUTDOWN);
	grpc_completion_queue_destroy(server->cq);
}

int rpc_server_start(const struct rpc_server_options *options,
		     struct rpc_server **ret, struct error *err)
{
	struct rpc_server *server;
	struct rpc_method *methods;
	int r;

	if (!options->n_addresses)
		return error_set(err, EINVAL, "a server without an address");
	if (options->message_max > MESSAGE_MAX)
		return error_set(err, EINVAL,
				 "requests of %zu bytes: at most %u can be "
				 "allowed",
				 options->message_max, MESSAGE_MAX);
	r = rpc_methods_sort(options->methods, options->n_methods, &methods,
			     err);
	if (r < 0)
		return r;
	rpc_core_start();
	server = server_new(options->n_addresses);
	server->methods = methods;
	server->n_methods = options->n_methods;
	r = begin(server, options, err);
	if (r < 0) {
		abandon(server);
		server_free(server);
		return r;
	}
	grpc_server_start(server->server);
	rpc_call_post(server);
	*ret = server;
	return 0;
}

int rpc_server_port(const struct rpc_server *server, size_t index)
{
	const struct rpc_listener *l = &server->listeners[index];

	return l->address.is_unix ? 0 : l->port;
}

void rpc_server_stop(struct rpc_server *server, int grace_ms)
{
	if (!server)
		return;
	end_calls(server, grace_ms > 0 ? grace_ms : 0);
	rpc_pool_stop(&server->pool);
	close_queue(server);
	server_free(server);
}
