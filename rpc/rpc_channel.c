/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc_channel.h"

#include <grpc/support/string_util.h>
#include <pthread.h>

#include "base/log.h"
#include "rpc/rpc_internal.h"

#define ANSWER_MAX (16 << 20) /* bytes of one message */

/* Between attempts to connect. */
#define BACKOFF_FIRST_MS 100
#define BACKOFF_MAX_MS   1000
#define CONNECT_MAX_MS   5000 /* one attempt, with its TLS handshake */

struct rpc_channel {
	struct rpc_address address;
	struct rpc_tls *tls; /* owned; NULL: none */
	char *server_name;   /* owned */
	pthread_mutex_t lock;
	grpc_channel *grpc;     /* under lock */
	struct timespec loaded; /* under lock: time of the certificate's file */
};

static grpc_channel *channel_create(const struct rpc_channel *channel,
				    grpc_channel_credentials *creds)
{
	char target[RPC_TARGET_MAX];
	grpc_arg args[12];
	size_t n = 0;

	args[n++] = rpc_core_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
				 ANSWER_MAX);
	args[n++] = rpc_core_arg(
		GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
		1 << GRPC_COMPRESS_NONE);
	args[n++] = rpc_core_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
				 BACKOFF_FIRST_MS);
	args[n++] = rpc_core_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
				 BACKOFF_MAX_MS);
	args[n++] = rpc_core_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
				 CONNECT_MAX_MS);
	args[n++] = rpc_core_arg(GRPC_ARG_KEEPALIVE_TIME_MS,
				 RPC_CLIENT_KEEPALIVE_MS);
	args[n++] = rpc_core_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
				 RPC_KEEPALIVE_TIMEOUT_MS);
	args[n++] = rpc_core_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
	args[n++] = rpc_core_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
	args[n++] = rpc_core_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
	/* Nodes talk to nodes, whatever http_proxy says. */
	args[n++] = rpc_core_arg(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
	if (!channel->address.is_unix)
		args[n++] = rpc_core_arg_string(
			GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
			channel->server_name ?: (char *)channel->address.host);
	return grpc_channel_create(
		rpc_address_target(target, &channel->address), creds,
		&(grpc_channel_args){n, args});
}

/* Make the grpc channel from the files as they are now. */
static int channel_open(struct rpc_channel *channel, grpc_channel **ret,
			struct timespec *ret_loaded, struct error *err)
{
	grpc_channel_credentials *creds;
	int r = 0;

	*ret_loaded = rpc_tls_time(channel->tls); /* before they are read */
	if (channel->tls)
		r = rpc_tls_channel(channel->tls, &creds, err);
	else
		creds = grpc_insecure_credentials_create();
	if (r < 0)
		return r;
	*ret = channel_create(channel, creds);
	grpc_channel_credentials_release(creds);
	return 0;
}

int rpc_channel_new(const struct rpc_address *address,
		    const struct rpc_tls *tls, const char *server_name,
		    struct rpc_channel **ret, struct error *err)
{
	struct rpc_channel *channel = gpr_zalloc(sizeof(*channel));
	int r = 0;

	channel->address = *address;
	pthread_mutex_init(&channel->lock, NULL);
	if (server_name)
		channel->server_name = gpr_strdup(server_name);
	if (tls && !address->is_unix)
		r = rpc_tls_copy(tls, &channel->tls, err);
	if (r == 0)
		r = channel_open(channel, &channel->grpc, &channel->loaded,
				 err);
	if (r < 0) {
		rpc_channel_free(channel);
		return r;
	}
	*ret = channel;
	return 0;
}

void rpc_channel_free(struct rpc_channel *channel)
{
	if (channel->grpc)
		grpc_channel_destroy(channel->grpc);
	rpc_tls_free(channel->tls);
	gpr_free(channel->server_name);
	pthread_mutex_destroy(&channel->lock);
	gpr_free(channel);
}

const struct rpc_tls *rpc_channel_tls(const struct rpc_channel *channel)
{
	return channel->tls;
}

static grpc_connectivity_state channel_state(struct rpc_channel *channel)
{
	return grpc_channel_check_connectivity_state(channel->grpc, 0);
}

bool rpc_channel_is_connected(struct rpc_channel *channel)
{
	bool is;

	pthread_mutex_lock(&channel->lock);
	is = channel_state(channel) == GRPC_CHANNEL_READY;
	pthread_mutex_unlock(&channel->lock);
	return is;
}

/* Take renewed certificates, if there are any and they fit each other. */
static void channel_renew(struct rpc_channel *channel)
{
	struct timespec now = rpc_tls_time(channel->tls), loaded;
	struct error err = {0};
	grpc_channel *fresh;

	if (now.tv_sec == channel->loaded.tv_sec &&
	    now.tv_nsec == channel->loaded.tv_nsec)
		return;
	if (channel_open(channel, &fresh, &loaded, &err) < 0) {
		log_warning("renewed certificate: %s", error_text(&err));
		return;
	}
	grpc_channel_destroy(channel->grpc);
	channel->grpc = fresh;
	channel->loaded = loaded;
}

void rpc_channel_connect(struct rpc_channel *channel)
{
	pthread_mutex_lock(&channel->lock);
	if (channel_state(channel) == GRPC_CHANNEL_TRANSIENT_FAILURE) {
		if (channel->tls)
			channel_renew(channel);
		grpc_channel_reset_connect_backoff(channel->grpc);
	}
	pthread_mutex_unlock(&channel->lock);
}

grpc_call *rpc_channel_call(struct rpc_channel *channel,
			    grpc_completion_queue *cq, const char *path,
			    gpr_timespec deadline)
{
	grpc_slice method = grpc_slice_from_copied_string(path);
	grpc_call *call;

	pthread_mutex_lock(&channel->lock);
	call = grpc_channel_create_call(channel->grpc, NULL,
					GRPC_PROPAGATE_DEFAULTS, cq, method,
					NULL, deadline, NULL);
	pthread_mutex_unlock(&channel->lock);
	grpc_slice_unref(method);
	return call;
}
