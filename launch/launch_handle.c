/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launch_handle.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/kernel/oom.h"
#include "base/log.h"

/* ---- what may be started ---- */

static bool launch_program_known(const char *name)
{
	return strcmp(name, "trib-union") == 0 || strcmp(name, "trib-nbd") == 0;
}

static int check_program(const struct launch_request *request,
			 struct error *err)
{
	return launch_program_known(request->argv[0])
		       ? 0
		       : error_set(err, EPERM,
				   "it starts trib-union and trib-nbd only");
}

static int start_program(void *server, const struct launch_request *request,
			 int log, int pass, pid_t *ret_pid, struct error *err)
{
	struct launch_handler *s = server;
	char path[PATH_MAX];
	int r = check_program(request, err);

	if (r < 0)
		return r;
	if (snprintf(path, sizeof(path), "%s/%s", s->config->bin_dir,
		     request->argv[0]) >= (int)sizeof(path))
		return error_set(err, ENAMETOOLONG, "its path is too long");
	request->argv[0] = path;
	r = oom_start(s->config->oom_score, request->argv, log, pass, ret_pid,
		      err);
	if (r == 0)
		log_info("started %s: process %d, for process %d",
			 strrchr(path, '/') + 1, (int)*ret_pid,
			 (int)request->pid);
	return r;
}

/* ---- who asks ---- */

static int check_peer(struct launch_handler *s, int fd, pid_t *ret_pid,
		      struct error *err)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return error_set(err, errno, "SO_PEERCRED: %s",
				 strerror(errno));
	if (peer.uid != s->config->uid)
		return error_set(err, EACCES, "user %u may not ask", peer.uid);
	*ret_pid = peer.pid;
	return 0;
}

/* The pid in our answer has to mean the same process to the peer. */
static int check_namespace(pid_t seen, pid_t said, struct error *err)
{
	if (seen == said)
		return 0;
	return error_set(
		err, EPERM,
		"process %d is in another PID namespace than the launcher "
		"and would not find the processes it starts",
		(int)said);
}

/* Do what is asked. @fds of what is to be stored are taken: -1 then. */
static int carry_out(struct launch_handler *s, int *fd, pid_t peer,
		     const struct launch_request *request, int *fds,
		     struct launch_reply *reply, struct error *err)
{
	int log = request->flags & LAUNCH_HAS_LOG ? fds[0] : -1;
	int pass = request->flags & LAUNCH_HAS_PASS ? fds[log >= 0] : -1;
	int r;

	if (!(request->flags & LAUNCH_STORES))
		return start_program(s, request, log, pass, &reply->pid, err);
	if (log < 0 || pass >= 0)
		return error_set(err, EPROTO, "a request that makes no sense");
	r = check_program(request, err);
	return r < 0 ? r
		     : launch_store_add(&s->store, request, peer,
					take_fd(&fds[0]), take_fd(fd), err);
}

int launch_handle(struct launch_handler *s, int *fd, const void *data,
		  size_t length, int *fds, size_t n_fds,
		  struct launch_reply *reply, struct error *err)
{
	struct launch_request request;
	size_t wanted;
	pid_t pid = 0;
	int r = check_peer(s, *fd, &pid, err);

	if (r == 0)
		r = launch_request_decode(data, length, &request, err);
	if (r < 0)
		return r;
	wanted = !!(request.flags & LAUNCH_HAS_LOG) +
		 !!(request.flags & LAUNCH_HAS_PASS);
	r = check_namespace(pid, request.pid, err);
	if (r == 0 && n_fds != wanted)
		r = error_set(err, EPROTO, "%zu descriptors came, not %zu",
			      n_fds, wanted);
	if (r == 0)
		r = carry_out(s, fd, pid, &request, fds, reply, err);
	launch_request_done(&request);
	return r;
}

void launch_handler_init(struct launch_handler *handler,
			 const struct launch_config *config)
{
	*handler = (struct launch_handler){
		.config = config,
		.store = {.start = start_program, .context = handler},
	};
}
