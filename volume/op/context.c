/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/context.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "volume/op/store_open.h"
#include "volume/record/known_nodes.h"

#define PATH_ROOM 160 /* bytes left for names below run_dir */

static int context_set_path(char *ret, size_t size, const char *what,
			    const char *text, struct error *err)
{
	if (text[0] != '/' || strlen(text) >= size - PATH_ROOM)
		return error_set(err, EINVAL,
				 "%s '%s' has to be absolute and not too long",
				 what, text);
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

static int set_node(struct volume_context *ctx, const char *name,
		    struct error *err)
{
	char host[HOST_NAME_MAX + 1] = "";
	int r;

	if (!name) {
		if (gethostname(host, sizeof(host) - 1) < 0)
			return error_set(err, errno, "gethostname: %s",
					 strerror(errno));
		name = host;
	}
	r = name_check("node", name, err);
	if (r < 0)
		return r;
	memcpy(ctx->node, name, strlen(name) + 1);
	return 0;
}

static int context_configure(struct volume_context *ctx,
			     const struct volume_config *config,
			     struct error *err)
{
	int r = config->no_node ? 0 : set_node(ctx, config->node, err);

	if (r == 0)
		r = context_set_path(ctx->run_dir, sizeof(ctx->run_dir),
				     "the run directory",
				     config->run_dir ? config->run_dir
						     : VOLUME_RUN_DIR_DEFAULT,
				     err);
	/* These characters would separate branches in trib-union's argument. */
	if (r == 0 && strpbrk(ctx->run_dir, ":=\\*?["))
		r = error_set(
			err, EINVAL,
			"the run directory '%s' has one of \":=\\*?[\" in it",
			ctx->run_dir);
	if (r == 0 && config->bin_dir)
		r = context_set_path(ctx->bin_dir, sizeof(ctx->bin_dir),
				     "the program directory", config->bin_dir,
				     err);
	if (r == 0 && config->launcher)
		r = context_set_path(ctx->launcher, sizeof(ctx->launcher),
				     "the launcher's socket", config->launcher,
				     err);
	if (r == 0 && config->source_address &&
	    snprintf(ctx->source_address, sizeof(ctx->source_address), "%s",
		     config->source_address) >=
		    (int)sizeof(ctx->source_address))
		r = error_set(err, EINVAL, "the source address is too long");
	if (r < 0)
		return r;
	ctx->call_timeout_ms = config->call_timeout_ms;
	if (r == 0 && config->iscsi_secrets)
		r = context_set_path(ctx->iscsi_secrets,
				     sizeof(ctx->iscsi_secrets),
				     "the directory of iSCSI secrets",
				     config->iscsi_secrets, err);
	ctx->dead_timeout_ms = config->dead_timeout_ms;
	ctx->cancel_fd = config->cancel_fd > 0 ? config->cancel_fd : -1;
	ctx->progress = config->progress;
	ctx->progress_context = config->progress_context;
	return store_open(config->store ? config->store : VOLUME_STORE_DEFAULT,
			  &ctx->store, err);
}

int volume_context_open(const struct volume_config *config,
			struct volume_context **ret, struct error *err)
{
	struct volume_context *ctx = calloc(1, sizeof(*ctx));
	int r;

	if (!ctx)
		return error_set(err, ENOMEM, "out of memory");
	(void)pthread_mutex_init(&ctx->lock, NULL);
	(void)pthread_mutex_init(&ctx->publish_lock, NULL);
	condition_writer_init(&ctx->condition_writer);
	r = context_configure(ctx, config, err);
	if (r < 0) {
		volume_context_close(ctx);
		return r;
	}
	*ret = ctx;
	return 0;
}

void volume_context_close(struct volume_context *ctx)
{
	if (!ctx)
		return;
	while (ctx->clients) {
		struct client_entry *entry = ctx->clients;

		ctx->clients = entry->next;
		node_client_free(entry->client);
		node_record_done(&entry->node);
		free(entry);
	}
	store_close(ctx->store);
	condition_writer_done(&ctx->condition_writer);
	known_nodes_unref(ctx->known_nodes);
	(void)pthread_mutex_destroy(&ctx->publish_lock);
	(void)pthread_mutex_destroy(&ctx->lock);
	free(ctx);
}

const char *volume_context_node(const struct volume_context *ctx)
{
	return ctx->node;
}

void context_initiator_dir(const struct volume_context *ctx, char *ret)
{
	(void)snprintf(ret, PATH_MAX, "%.*s/initiator", PATH_MAX - PATH_ROOM,
		       ctx->run_dir);
}

bool error_is_open(int r)
{
	return r == -EHOSTUNREACH || r == -ETIMEDOUT || r == -EAGAIN ||
	       r == -ECANCELED;
}

/* ---- nodes ---- */

int context_node_load(struct volume_context *ctx, const char *name,
		      struct node_record *ret, struct error *err)
{
	struct store_object object;
	int r = ctx->store->ops->get(ctx->store, RECORD_KIND_NODE, name,
				     &object, err);

	if (r == -ENOENT)
		return error_set(err, ENOENT,
				 "no node '%s' is known; `trib node add` "
				 "makes one known",
				 name);
	if (r < 0)
		return r;
	r = node_record_decode(object.json, object.length, ret, err);
	if (r == 0)
		memcpy(ret->resource_version, object.version,
		       sizeof(object.version));
	else
		(void)error_prefix(err, r, "record of node '%s': ", name);
	store_object_done(&object);
	return r;
}

static bool same_way(const struct node_record *a, const struct node_record *b)
{
	return strcmp(a->name, b->name) == 0 &&
	       strcmp(a->control_address, b->control_address) == 0 &&
	       strcmp(a->tls_ca_file, b->tls_ca_file) == 0 &&
	       strcmp(a->tls_cert_file, b->tls_cert_file) == 0 &&
	       strcmp(a->tls_key_file, b->tls_key_file) == 0 &&
	       strcmp(a->tls_server_name, b->tls_server_name) == 0;
}

static int client_add(struct volume_context *ctx,
		      const struct node_record *node, struct node_client **ret,
		      struct error *err)
{
	struct client_entry *entry = calloc(1, sizeof(*entry));
	int r;

	if (!entry)
		return error_set(err, ENOMEM, "out of memory");
	r = node_client_new(node, ctx->call_timeout_ms, &entry->client, err);
	if (r < 0) {
		free(entry);
		return r;
	}
	entry->node = *node;
	entry->node.labels = (struct labels){0}; /* not needed here */
	entry->node.cordoned_pools = (struct name_list){0};
	entry->node.report = NULL;
	entry->node.scrub = NULL;
	entry->next = ctx->clients;
	ctx->clients = entry;
	*ret = entry->client;
	return 0;
}

int context_client_of(struct volume_context *ctx,
		      const struct node_record *node, struct node_client **ret,
		      struct error *err)
{
	struct client_entry *entry;
	int r = 0;

	(void)pthread_mutex_lock(&ctx->lock);
	for (entry = ctx->clients; entry; entry = entry->next) {
		if (same_way(&entry->node, node))
			break;
	}
	if (entry)
		*ret = entry->client;
	else
		r = client_add(ctx, node, ret, err);
	(void)pthread_mutex_unlock(&ctx->lock);
	return r;
}

int context_client(struct volume_context *ctx, const char *node,
		   struct node_client **ret, struct error *err)
{
	struct node_record record = {0};
	int r = context_node_load(ctx, node, &record, err);

	if (r < 0)
		return r;
	r = context_client_of(ctx, &record, ret, err);
	node_record_done(&record);
	return r;
}

/* ---- our own address, as a peer sees it ---- */

/* "HOST:PORT" or "[HOST]:PORT" in two. */
static int split_address(const char *address, char *host, size_t size,
			 const char **ret_port, struct error *err)
{
	const char *colon = strrchr(address, ':');
	size_t length;

	if (!colon)
		return error_set(err, EINVAL, "'%s' is no HOST:PORT", address);
	length = (size_t)(colon - address);
	if (length >= 2 && address[0] == '[' && colon[-1] == ']') {
		address++;
		length -= 2;
	}
	if (length == 0 || length >= size)
		return error_set(err, EINVAL, "'%s' is no HOST:PORT", address);
	memcpy(host, address, length);
	host[length] = '\0';
	*ret_port = colon + 1;
	return 0;
}

/* Connecting a datagram socket sends nothing, but picks the source. */
static int source_address(const char *data_address, char *ret,
			  struct error *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
	struct addrinfo *found = NULL;
	struct sockaddr_storage own;
	socklen_t length = sizeof(own);
	auto_close int fd = -1;
	char host[NODE_ADDRESS_SIZE];
	const char *port = "";
	int r = split_address(data_address, host, sizeof(host), &port, err);

	if (r < 0)
		return r;
	r = getaddrinfo(host, port, &hints, &found);
	if (r != 0)
		return error_set(err, EHOSTUNREACH, "resolve '%s': %s", host,
				 gai_strerror(r));
	fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0 ||
	    getsockname(fd, (struct sockaddr *)&own, &length) < 0)
		r = error_set(err, EHOSTUNREACH, "no way to '%s': %s",
			      data_address, strerror(errno));
	else if (getnameinfo((struct sockaddr *)&own, length, ret,
			     NODE_ADDRESS_SIZE, NULL, 0, NI_NUMERICHOST) != 0)
		r = error_set(err, EIO, "no numeric source for '%s'",
			      data_address);
	freeaddrinfo(found);
	return r;
}

/* The numeric address of the server of a node. */
static int server_address(const char *data_address, char *ret,
			  struct error *err)
{
	struct addrinfo *found = NULL;
	char host[NODE_ADDRESS_SIZE];
	const char *port = "";
	int r = split_address(data_address, host, sizeof(host), &port, err);

	if (r < 0)
		return r;
	r = getaddrinfo(host, NULL, NULL, &found);
	if (r == 0)
		r = getnameinfo(found->ai_addr, found->ai_addrlen, ret,
				NODE_ADDRESS_SIZE, NULL, 0, NI_NUMERICHOST);
	if (found)
		freeaddrinfo(found);
	if (r != 0)
		return error_set(err, EHOSTUNREACH, "resolve '%s': %s", host,
				 gai_strerror(r));
	return 0;
}

int context_initiators(struct volume_context *ctx, const char *node,
		       const char *data_address,
		       char ret[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE],
		       struct error *err)
{
	bool here = strcmp(node, ctx->node) == 0;
	struct node_record record = {0};
	int r;

	if (strncmp(data_address, "unix:", 5) == 0) {
		(void)strcpy(ret[0], "unix");
		return 1;
	}
	if (here && ctx->source_address[0]) {
		memcpy(ret[0], ctx->source_address, NODE_ADDRESS_SIZE);
		return 1;
	}
	r = context_node_load(ctx, node, &record, err);
	if (r < 0 && !(here && r == -ENOENT))
		return r;
	if (record.n_initiators > 0) {
		memcpy(ret, record.initiators, sizeof(record.initiators));
		r = (int)record.n_initiators;
	} else {
		r = here ? source_address(data_address, ret[0], err)
			 : server_address(record.data_address, ret[0], err);
		r = r < 0 ? r : 1;
	}
	node_record_done(&record);
	return r;
}

/* ---- volumes ---- */

static int record_load(struct volume_context *ctx, const char *name,
		       struct volume_record **ret, struct error *err)
{
	struct store_object object;
	int r = ctx->store->ops->get(ctx->store, RECORD_KIND_VOLUME, name,
				     &object, err);

	if (r == -ENOENT)
		return error_set(err, ENOENT, "there is no volume '%s'", name);
	if (r < 0)
		return r;
	r = volume_record_decode(object.json, object.length, ret, err);
	if (r == 0)
		memcpy((*ret)->resource_version, object.version,
		       sizeof(object.version));
	else
		(void)error_prefix(err, r, "record of volume '%s': ", name);
	store_object_done(&object);
	return r;
}

int volume_get(struct volume_context *ctx, const char *name,
	       struct volume_record **ret, struct error *err)
{
	int r = name_check("volume", name, err);

	return r < 0 ? r : record_load(ctx, name, ret, err);
}
