/* SPDX-License-Identifier: Apache-2.0 */
#include "union/control_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "union/control_proto.h"

static int connect_to(const char *path)
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

/* Until the server closes; @ret owned, also after an error. */
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
		n = read(fd, *ret + used, size - used);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			used += (size_t)n;
	}
	*ret_length = used;
	return n < 0 ? -errno : 0;
}

static int ask(const char *path, const char *request)
{
	auto_close int fd = connect_to(path);
	auto_free char *reply = NULL;
	const char *text = NULL;
	size_t length = 0;
	int r = fd < 0 ? fd : 0;

	if (r == 0 && send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		r = -errno;
	if (r == 0)
		r = read_reply(fd, &reply, &length);
	if (r == 0)
		r = control_reply_decode(reply, length, &text);
	if (r == 0)
		return puts(text) < 0;
	return log_error(1, "%s%s%s", text ? "" : path, text ? "" : ": ",
			 text           ? text
			 : r == -EPROTO ? "the server broke off"
					: strerror(-r));
}

int control_client(int argc, char **argv)
{
	auto_free char *request = NULL;

	if (argc < 2 || argc > 3)
		return log_error(2, "it is 'trib-union --control SOCKET status'"
				    " or '... SOCKET add BRANCH'");
	if (asprintf(&request, "%s%s%s\n", argv[1], argc == 3 ? " " : "",
		     argc == 3 ? argv[2] : "") < 0)
		return log_error(1, "%s", strerror(ENOMEM));
	return ask(argv[0], request);
}
