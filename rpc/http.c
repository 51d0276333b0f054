/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/unix_served.h"
#include "rpc/rpc_address.h"

#define BACKLOG     16
#define PLAIN       "text/plain; charset=utf-8"
#define UNIX_PREFIX "unix:"

struct http {
	const struct http_page *pages;
	size_t n_pages;
	void *context;
	struct MHD_Daemon *daemon;
	char path[RPC_PATH_MAX + 1]; /* of a unix socket; "": tcp */
};

/* ---- answers ---- */

static enum MHD_Result send_text(struct MHD_Connection *connection,
				 unsigned status, const char *type, char *text,
				 size_t length, const char *allow)
{
	enum MHD_Result r = MHD_NO;
	struct MHD_Response *response = MHD_create_response_from_buffer(
		length, text, MHD_RESPMEM_MUST_FREE);

	if (!response) {
		free(text);
		return MHD_NO;
	}
	if (MHD_add_response_header(response, "Content-Type", type) ==
		    MHD_YES &&
	    (!allow ||
	     MHD_add_response_header(response, "Allow", allow) == MHD_YES))
		r = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return r;
}

static enum MHD_Result http_refuse(struct MHD_Connection *connection,
				   unsigned status, const char *why,
				   const char *allow)
{
	char *text = strdup(why);

	return text ? send_text(connection, status, PLAIN, text, strlen(text),
				allow)
		    : MHD_NO;
}

static enum MHD_Result send_page(const struct http *http,
				 const struct http_page *page,
				 struct MHD_Connection *connection)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	unsigned status;

	if (!out)
		return MHD_NO;
	status = page->write(http->context, out);
	if (fclose(out) != 0) { /* out of memory */
		free(text);
		return MHD_NO;
	}
	return send_text(connection, status, page->content_type, text, length,
			 NULL);
}

/*
 * Answer for libmicrohttpd, which calls this once for the headers, and again
 * with each part of a body.
 */
static enum MHD_Result http_answer(void *http_,
				   struct MHD_Connection *connection,
				   const char *url, const char *method,
				   const char *version, const char *body,
				   size_t *body_size, void **seen)
{
	const struct http *http = http_;

	(void)version;
	(void)body;
	(void)seen;
	/* Answered before a body is asked for: the connection then ends. */
	if (*body_size > 0)
		return MHD_NO;
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return http_refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
				   "only GET and HEAD\n", "GET, HEAD");
	for (size_t i = 0; i < http->n_pages; i++)
		if (strcmp(url, http->pages[i].path) == 0)
			return send_page(http, &http->pages[i], connection);
	return http_refuse(connection, MHD_HTTP_NOT_FOUND, "no such page\n",
			   NULL);
}

/* ---- the socket ---- */

/* Remove the socket that a killed process left there; a live one's is kept. */
static void remove_stale(const struct sockaddr_un *un)
{
	struct stat st;

	if (lstat(un->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	    unix_served(un, SOCK_STREAM) == 0)
		(void)unlink(un->sun_path); /* or bind() says why not */
}

static int listen_unix(const char *path, struct error *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	memcpy(un.sun_path, path, strlen(path) + 1);
	remove_stale(&un);
	/* The mode is set before anybody can connect. */
	if (fd < 0 || fchmod(fd, 0600) < 0 ||
	    bind(fd, (const struct sockaddr *)&un, sizeof(un)) < 0 ||
	    chmod(path, 0600) < 0 || listen(fd, BACKLOG) < 0)
		return error_set(err, errno, "listen on unix:%s: %s", path,
				 strerror(errno));
	return take_fd(&fd);
}

static int http_listen_at(const struct addrinfo *ai)
{
	auto_close int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC,
				   0);
	const int on = 1;

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	return take_fd(&fd);
}

static int listen_tcp(const struct rpc_address *address, struct error *err)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
	struct addrinfo *list = NULL;
	char port[8];
	int r;

	(void)snprintf(port, sizeof(port), "%u", address->port);
	r = getaddrinfo(address->host, port, &hints, &list);
	if (r != 0)
		return error_set(err, EINVAL, "host '%s': %s", address->host,
				 gai_strerror(r));
	r = http_listen_at(list);
	freeaddrinfo(list);
	if (r < 0)
		return error_set(err, -r, "listen on %s port %s: %s",
				 address->host, port, strerror(-r));
	return r;
}

static int http_listen_on(struct http *http, const char *text,
			  struct error *err)
{
	struct rpc_address address;
	char full[RPC_TARGET_MAX];
	bool is_unix = strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;

	if (snprintf(full, sizeof(full), "%s%s", is_unix ? "" : "tcp:", text) >=
		    (int)sizeof(full) ||
	    rpc_address_parse(full, &address, NULL) < 0)
		return error_set(err, EINVAL,
				 "address '%.100s': write HOST:PORT (IPv6 in "
				 "brackets) or unix:/PATH",
				 text);
	if (!address.is_unix)
		return listen_tcp(&address, err);
	(void)strcpy(http->path, address.path);
	return listen_unix(address.path, err);
}

/* ---- begin and end ---- */

/* A page may wait for the store, so each connection has a thread. */
static int http_serve(struct http *http, int fd, const char *address,
		      struct error *err)
{
	http->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD |
			MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
			MHD_USE_ITC,
		0, NULL, NULL, http_answer, http, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_SILENT_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_MEMORY_MAX,
		MHD_OPTION_END);
	if (http->daemon)
		return 0;
	fd_close(fd);
	if (http->path[0])
		(void)unlink(http->path); /* ours, and of no use */
	return error_set(err, EIO, "HTTP server on '%s': no thread", address);
}

int http_start(const char *address, const struct http_page *pages, size_t n,
	       void *context, struct http **ret, struct error *err)
{
	struct http *http = calloc(1, sizeof(*http));
	int r;

	if (!http)
		return error_set(err, ENOMEM, "out of memory");
	http->pages = pages;
	http->n_pages = n;
	http->context = context;
	r = http_listen_on(http, address, err);
	if (r >= 0)
		r = http_serve(http, r, address, err);
	if (r < 0) {
		free(http);
		return r;
	}
	*ret = http;
	return 0;
}

void http_stop(struct http *http)
{
	if (!http)
		return;
	if (http->path[0])
		(void)unlink(http->path); /* nobody else's: we listen there */
	MHD_stop_daemon(http->daemon);    /* closes the socket */
	free(http);
}
