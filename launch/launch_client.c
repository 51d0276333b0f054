/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_client.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "launch/launch_proto.h"

#define ANSWER_S 20 /* it starts one program after another */

static int launch_unreachable(const char *path, int code, struct error *err)
{
	return error_set(err, EHOSTUNREACH,
			 "the launcher at '%s' does not answer (%s): is "
			 "trib-launch running?",
			 path, strerror(code));
}

/* @flags: SOCK_NONBLOCK, or 0. */
static int launch_connect(const char *path, int flags, int *ret_fd,
			  struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct timeval wait = {.tv_sec = ANSWER_S};
	auto_close int fd = socket(AF_UNIX,
				   SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

	if (fd < 0)
		return error_set(err, errno, "socket: %s", strerror(errno));
	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(err, ENAMETOOLONG,
				 "the path of the launcher '%s' is longer than "
				 "%zu bytes",
				 path, sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path));
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0)
		return error_set(err, errno, "setsockopt: %s", strerror(errno));
	while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		if (errno != EINTR)
			return launch_unreachable(path, errno, err);
	*ret_fd = take_fd(&fd);
	return 0;
}

/*
 * The request, and beside it the descriptors its flags speak of. What waits
 * with a time limit is interrupted also by being stopped and let go on.
 */
static int send_request(int fd, const void *data, size_t length,
			const int *passed, size_t n_passed)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = {0};
	struct iovec part = {.iov_base = (void *)data, .iov_len = length};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (n_passed > 0) {
		struct cmsghdr *c = &control.align;

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_passed * sizeof(int));
		memcpy(CMSG_DATA(c), passed, n_passed * sizeof(int));
		message.msg_control = c;
		message.msg_controllen = CMSG_SPACE(n_passed * sizeof(int));
	}
	while (sendmsg(fd, &message, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int launch_ask(const char *path, const struct launch_request *request,
		      const int *passed, size_t n_passed,
		      struct launch_reply *ret, struct error *err)
{
	char reply[LAUNCH_REPLY_MAX + 1];
	auto_close int fd = -1;
	auto_free void *data = NULL;
	size_t length = 0;
	ssize_t n = 0;
	int r = launch_request_encode(request, &data, &length, err);

	if (r == 0)
		r = launch_connect(path, 0, &fd, err);
	if (r < 0)
		return r;
	r = send_request(fd, data, length, passed, n_passed);
	/* A server that refuses at once may have closed: read its answer. */
	if (r == 0 || r == -EPIPE)
		do {
			n = recv(fd, reply, sizeof(reply), 0);
		} while (n < 0 && errno == EINTR);
	if (r < 0 && n <= 0)
		return launch_unreachable(path, -r, err);
	if (n <= 0)
		return launch_unreachable(path, n < 0 ? errno : ECONNRESET,
					  err);
	r = launch_reply_decode(reply, (size_t)n, ret);
	if (r < 0)
		return error_set(err, -r,
				 "the launcher at '%s' is of another kind or "
				 "version",
				 path);
	return 0;
}

/* Set the words of @request; @words: LAUNCH_ARGS_MAX + 2. */
static void set_words(struct launch_request *request, const char **words,
		      const char *const *argv)
{
	const char *slash = strrchr(argv[0], '/');

	while (argv[request->argc] && request->argc <= LAUNCH_ARGS_MAX) {
		words[request->argc] = argv[request->argc];
		request->argc++;
	}
	words[0] = slash ? slash + 1 : argv[0];
	request->argv = words;
}

/* The process at the other side of @fd; 0: it is not known. */
static pid_t launcher_of(int fd)
{
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0
		       ? 0
		       : peer.pid;
}

int launch_store_begin(const char *socket, const char *const *argv, int log_fd,
		       int other_than, int *ret_fd, struct error *err)
{
	struct launch_request request = {
		.pid = getpid(), .flags = LAUNCH_STORES | LAUNCH_HAS_LOG};
	const char *words[LAUNCH_ARGS_MAX + 2];
	auto_free void *data = NULL;
	auto_close int fd = -1;
	size_t length = 0;
	int r;

	set_words(&request, words, argv);
	r = launch_request_encode(&request, &data, &length, err);
	if (r == 0)
		r = launch_connect(socket, SOCK_NONBLOCK, &fd, err);
	if (r < 0)
		return r;
	if (other_than >= 0 && launcher_of(fd) == launcher_of(other_than))
		return error_set(err, EALREADY, "'%s': it is the same launcher",
				 socket);
	r = send_request(fd, data, length, &log_fd, 1);
	if (r < 0)
		return launch_unreachable(socket, -r, err);
	*ret_fd = take_fd(&fd);
	return 0;
}

int launch_start(const char *socket, const char *const *argv, int log_fd,
		 int pass_fd, pid_t *ret_pid, struct error *err)
{
	struct launch_request request = {.pid = getpid()};
	struct launch_reply reply = {0};
	const char *words[LAUNCH_ARGS_MAX + 2];
	int passed[2], r;
	size_t n = 0;

	if (!socket || !socket[0])
		return process_start(argv, log_fd, pass_fd, ret_pid, err);
	if (log_fd >= 0) {
		request.flags |= LAUNCH_HAS_LOG;
		passed[n++] = log_fd;
	}
	if (pass_fd >= 0) {
		request.flags |= LAUNCH_HAS_PASS;
		passed[n++] = pass_fd;
	}
	set_words(&request, words, argv);
	r = launch_ask(socket, &request, passed, n, &reply, err);
	if (r == 0 && reply.code)
		r = error_set(err, reply.code, "%s", reply.text);
	if (r < 0)
		return error_prefix(err, r, "launch '%s': ", words[0]);
	*ret_pid = reply.pid;
	return 0;
}
