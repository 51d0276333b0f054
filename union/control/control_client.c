/* SPDX-License-Identifier: Apache-2.0 */
#include "union/control/control_client.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "union/control/control_proto.h"
#include "union/state/stuck_server.h"

#define NEXT_MS       30000 /* for another server, to serve */
#define REFUSED_MS    3000  /* for the next, after a server was killed */
#define NEXT_PAUSE_MS 20
#define LOOK_MS       500 /* whether the server that is asked can answer */

static void pause_a_little(void)
{
	const struct timespec pause = {.tv_nsec = NEXT_PAUSE_MS * 1000000};

	(void)nanosleep(&pause, NULL);
}

static int connect_once(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return take_fd(&fd);
}

/*
 * Connect, with patience: a socket that refuses, or is gone, may be between two
 * servers.
 */
static int connect_to(const char *path)
{
	int64_t end = clock_ms() + REFUSED_MS;
	bool looked_again = false;
	int fd;

	while ((fd = connect_once(path)) < 0 && clock_ms() < end) {
		if (fd != -ECONNREFUSED && (fd != -ENOENT || looked_again))
			break;
		looked_again = fd == -ENOENT;
		pause_a_little();
	}
	return fd;
}

/* Map the errors of a connection whose server was killed to one. */
static int broken_off(int r)
{
	return r == -ECONNRESET || r == -EPIPE ? -EPROTO : r;
}

/*
 * Wait until bytes can be read. False: nothing comes any more, as a server that
 * was killed, and cannot end, keeps the socket open.
 */
static bool wait_for_bytes(int fd)
{
	struct pollfd reply = {.fd = fd, .events = POLLIN};

	while (poll(&reply, 1, LOOK_MS) <= 0)
		if (stuck_server_is_peer(fd))
			return false;
	return true;
}

/* Read until the server closes; @ret owned, also after an error. */
static int read_reply(int fd, char **ret, size_t *ret_length)
{
	size_t used = 0, size = 0;
	char *bigger;
	ssize_t n = 1;

	while (n > 0) {
		if (used == size) {
			size = size ? size * 2 : 4096;
			bigger = size > CONTROL_REPLY_MAX ? NULL
							  : realloc(*ret, size);
			if (!bigger)
				return -EMSGSIZE;
			*ret = bigger;
		}
		if (!wait_for_bytes(fd))
			return -EPROTO;
		n = read(fd, *ret + used, size - used);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			used += (size_t)n;
	}
	*ret_length = used;
	return n < 0 ? -errno : 0;
}

/*
 * Send a request and read its reply. @reply owned, also after an error, with
 * @text in it; NULL: none.
 */
static int ask_server(const char *path, const char *request, char **reply,
		      const char **text)
{
	auto_close int fd = connect_to(path);
	size_t length = 0;
	int r = fd < 0 ? fd : 0;

	*text = NULL;
	if (r == 0 && send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		r = broken_off(-errno);
	if (r == 0)
		r = broken_off(read_reply(fd, reply, &length));
	if (r == 0)
		r = control_reply_decode(*reply, length, text);
	return r;
}

/* Ask until the next server answers there; get its status. */
static int ask_next(const char *path, char **reply, const char **text)
{
	int64_t end = clock_ms() + NEXT_MS;
	int r;

	while ((r = ask_server(path, "status\n", reply, text)) < 0 &&
	       r != -EREMOTEIO && clock_ms() < end)
		pause_a_little();
	return r;
}

/* Does the server still run another program than that at its path? */
static bool is_old(const char *status)
{
	return strstr(status, "\"current\":false") != NULL;
}

static int ask_and_print(const char *path, const char *request)
{
	auto_free char *reply = NULL;
	bool old = false;
	const char *text;
	int r = ask_server(path, request, &reply, &text);

	/* A server that is replaced or killed gives no answer. */
	if (r == -EPROTO && strcmp(request, "upgrade\n") == 0) {
		r = ask_next(path, &reply, &text);
		old = r == 0 && is_old(text);
	} else if (r == -EPROTO && strcmp(request, "status\n") == 0) {
		r = ask_next(path, &reply, &text);
	}
	if (r == 0 && puts(text) >= 0)
		return old ? log_error(
				     1,
				     "the installed program does not serve: the previous one "
				     "goes on")
			   : 0;
	return log_error(1, "%s%s%s", text ? "" : path, text ? "" : ": ",
			 text           ? text
			 : r == -EPROTO ? "the server broke off"
					: strerror(-r));
}

static const char usage[] =
	"it is 'trib-union --control SOCKET' and one of\n"
	"  status\n"
	"  upgrade                           another server takes over\n"
	"  add BRANCH                        BRANCH is PATH or PATH=WORDS\n"
	"  remove PATH                       a branch that is empty\n"
	"  set BRANCH                        give it other WORDS\n"
	"  policy NAME=VALUE...              as the options are called\n"
	"  drain PATH [--rate BYTES]         move all that is on it (a second)\n"
	"  drain --stop PATH";

/* Join the words to one line, owned; NULL: ENOMEM. */
static char *join_words(char **words, int count)
{
	char *line = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&line, &size);
	int i;

	if (!out)
		return NULL;
	for (i = 0; i < count; i++)
		(void)fprintf(out, "%s%c", words[i],
			      i + 1 < count ? ' ' : '\n');
	if (fclose(out) == 0)
		return line;
	free(line);
	return NULL;
}

/* Make the line to send, owned; NULL: those are no arguments, or ENOMEM. */
static char *make_request(int argc, char **argv)
{
	char *line = NULL;
	const char *rate = "0", *path = NULL;
	int n = -1;

	if (argc >= 2 && strcmp(argv[0], "policy") == 0)
		return join_words(argv, argc);
	if (argc == 1 &&
	    (strcmp(argv[0], "status") == 0 || strcmp(argv[0], "upgrade") == 0))
		n = asprintf(&line, "%s\n", argv[0]);
	else if (argc == 2 && strcmp(argv[0], "drain") != 0)
		n = asprintf(&line, "%s %s\n", argv[0], argv[1]);
	else if (argc == 3 && strcmp(argv[0], "drain") == 0 &&
		 strcmp(argv[1], "--stop") == 0)
		n = asprintf(&line, "stop %s\n", argv[2]);
	else if (argc >= 2 && strcmp(argv[0], "drain") == 0) {
		path = argv[1];
		if (argc == 4 && strcmp(argv[2], "--rate") == 0)
			rate = argv[3];
		else if (argc == 4 && strcmp(argv[1], "--rate") == 0) {
			rate = argv[2];
			path = argv[3];
		} else if (argc != 2)
			return NULL;
		n = asprintf(&line, "drain %s %s\n", rate, path);
	}
	return n < 0 ? NULL : line;
}

int control_client(int argc, char **argv)
{
	auto_free char *request = NULL;

	if (argc >= 2)
		request = make_request(argc - 1, argv + 1);
	if (!request)
		return log_error(2, "%s", usage);
	return ask_and_print(argv[0], request);
}
