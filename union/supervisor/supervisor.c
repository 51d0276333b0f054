/* SPDX-License-Identifier: Apache-2.0 */
#include "union/supervisor/supervisor.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/kernel/oom.h"
#include "base/log.h"
#include "base/process.h"
#include "union/state/fd_store.h"
#include "union/state/state.h"
#include "union/supervisor/supervisor_state.h"
#include "union/sys/limits.h"
#include "union/sys/task_blocked.h"

#define ASK_TIMEOUT_MS 10000
#define ASKED_HANG_MS  2000
#define HANG_MS        5000 /* a slow disk takes part of that */
#define LOOK_MS        50   /* between looks whether it ends */
#define START_MS       5000 /* for so long it may hang anywhere */
#define START_LOOK_MS  1000
#define GATHER_MS      1
#define MESSAGES_MAX   256              /* at once */
#define OWN_PROGRAM    "/proc/self/exe" /* also when it was removed */
#define PROGRAM        "trib-union"
#define STORED         "--stored-fd=3" /* as the launcher passes it */
#define FD_WORD_AT     2               /* of server_argv() */

/*
 * Log once that a descriptor is not kept. The union goes on; the descriptor's
 * file goes with its server.
 */
static void note_kept(struct supervisor *h, int r)
{
	if (r < 0 && !h->said)
		log_warning(
			"'%s': not all file descriptors of the server could be "
			"stored: %s: files that were removed while open are lost "
			"when it is killed",
			h->mountpoint, strerror(-r));
	h->said |= r < 0;
}

/*
 * Send the server its descriptors. 0, also when the server is gone: that is
 * seen later.
 */
static int hand_state_over(const struct supervisor *h, struct error *err)
{
	int r = fd_store_server_send(&h->held, h->socket);

	return r == 0 || r == -EPIPE || r == -ECONNRESET
		       ? 0
		       : error_set(err, -r,
				   "give the server its file descriptors: %s",
				   strerror(-r));
}

/* Equip the new server. 0, or -errno: then there is none. */
static int equip_child(struct supervisor *h, struct error *err)
{
	int r;

	(void)oom_set(h->pid, h->oom_score); /* it may have ended */
	h->pidfd = pidfd_open(h->pid, 0);
	r = h->pidfd < 0 ? error_set(err, errno, "watch the server: %s",
				     strerror(errno))
			 : supervisor_store_server(h, err);
	if (r == 0)
		r = hand_state_over(h, err);
	if (r == 0)
		return 0;
	supervisor_forget_server(h);
	(void)kill(h->pid, SIGKILL); /* ours until it is waited for */
	while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
		;
	fd_close(take_fd(&h->pidfd));
	return r;
}

static int start_server(struct supervisor *h, struct error *err)
{
	int ends[2], r;

	h->serves_since_ms = -1;
	h->started_ms = clock_ms();
	h->ends = h->said = false;
	h->error = 0;
	h->failure[0] = '\0';
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set(err, errno, "start the server: %s",
				 strerror(errno));
	h->socket = ends[0];
	r = process_start_file(h->own ? OWN_PROGRAM : h->argv[0], h->argv,
			       STDERR_FILENO, ends[1], &h->pid, err);
	fd_close(ends[1]);
	if (r == 0)
		r = equip_child(h, err);
	if (r < 0)
		fd_close(take_fd(&h->socket));
	return r;
}

/* Can the program at our path go on with what this server keeps? */
static int check_program(const struct supervisor *h, struct error *err)
{
	const char *argv[] = {h->argv[0], SUPERVISOR_ASKS, NULL};
	struct process_result result;
	bool can;

	if (process_run(argv, NULL, ASK_TIMEOUT_MS, -1, &result, err) < 0)
		return -err->code;
	can = result.exit_code == 0 &&
	      strtoul(result.out, NULL, 10) == state_layout();
	process_result_done(&result);
	return can ? 0
		   : error_set(err, EPROTO,
			       "the program '%s' keeps other records than the "
			       "one that serves; it needs an unmount",
			       h->argv[0]);
}

/*
 * Can the server end? A server that cannot would hold up all requests of the
 * union.
 */
static int check_end(const struct supervisor *h, struct error *err)
{
	return task_blocked_thread(h->pid, ASKED_HANG_MS)
		       ? error_set(err, EBUSY,
				   "the server waits for a branch that does "
				   "not answer, and would not end before it "
				   "does")
		       : 0;
}

static int replace_server(struct supervisor *h, struct error *err)
{
	int r = check_program(h, err);

	if (r == 0)
		r = check_end(h, err);
	if (r < 0) {
		log_warning("'%s': no other server takes over: %s",
			    h->mountpoint, error_text(err));
		return r;
	}
	h->replaced = true;
	log_info("'%s': another server takes over", h->mountpoint);
	(void)pidfd_send_signal(h->pidfd, SIGKILL, NULL, 0);
	return 0;
}

/* Replace the server, which asked for that. */
static void replace_or_refuse(struct supervisor *h, uint64_t token)
{
	struct error err = {0};

	if (replace_server(h, &err) < 0)
		/* A server that is gone need not know. */
		(void)fd_store_send(h->socket, FD_STORE_REFUSED, token,
				    error_text(&err), -1);
}

static void take_message(struct supervisor *h,
			 const struct fd_store_message *message, int fd)
{
	switch (message->op) {
	case FD_STORE_ADD:
		if (fd >= 0)
			note_kept(h, fd_store_server_add(&h->held,
							 message->token, fd));
		else /* what was sent with it found no place here */
			note_kept(h, -EMFILE);
		if (message->token == FD_STORE_FUSE)
			supervisor_note_device(h);
		return;
	case FD_STORE_DROP:
		fd_store_server_drop(&h->held, message->token);
		break;
	case FD_STORE_READY:
		h->serves_since_ms = clock_ms();
		if (!h->told)
			h->ready(h->context);
		h->told = true;
		fd_store_server_say_ready(&h->held);
		break;
	case FD_STORE_FAILED:
		h->error = (int)message->token;
		memcpy(h->failure, message->text, sizeof(h->failure));
		break;
	case FD_STORE_MOUNTS: h->mounts = true; break;
	case FD_STORE_DEATH_PIPE:
		fd_close(h->death_pipe);
		h->death_pipe = take_fd(&fd);
		break;
	case FD_STORE_REPLACE: replace_or_refuse(h, message->token); break;
	default: break;
	}
	fd_close(fd);
}

/*
 * Read a message. False: there are no more, the server is gone. With a mirror
 * the message stays in the socket, which the launcher has too, until the mirror
 * has the descriptor. So none is lost if this process is killed.
 */
static bool read_message(struct supervisor *h)
{
	struct fd_store_message message;
	bool stays = h->held.mirrored;
	int fd, r;

	r = stays ? fd_store_peek(h->socket, &message, &fd)
		  : fd_store_receive(h->socket, &message, &fd);
	if (r == 1)
		take_message(h, &message, fd);
	else
		fd_close(fd);
	if (stays && r)
		fd_store_skip(h->socket);
	return r == 1 || r == -EPROTO;
}

static void take_signal(struct supervisor *h)
{
	struct signalfd_siginfo info;
	struct error err = {0};

	if (read(h->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGUSR2) {
		if (h->pidfd >= 0) /* else another one is being started */
			(void)replace_server(h, &err); /* has said so */
		return;
	}
	h->ending = true;
	(void)pidfd_send_signal(h->pidfd, (int)info.ssi_signo, NULL, 0);
}

/* Read the messages that are there, MESSAGES_MAX at most. False: as above. */
static bool read_messages(struct supervisor *h)
{
	struct pollfd socket = {.fd = h->socket, .events = POLLIN};
	int i = 0;

	while (i++ < MESSAGES_MAX && poll(&socket, 1, 0) > 0)
		if (!read_message(h))
			return false;
	return true;
}

/*
 * The descriptors that are there. poll() refuses more than a process may have
 * open.
 */
struct watched {
	struct pollfd fds[5 + FD_STORE_STUCK_MAX];
	unsigned count;
	/* Places in @fds; NULL: it is not watched. */
	struct pollfd *socket, *signals, *pidfd, *death_pipe, *mirror;
};

static struct pollfd *add_watched(struct watched *w, int fd, short events)
{
	if (fd < 0)
		return NULL;
	w->fds[w->count] = (struct pollfd){.fd = fd, .events = events};
	return &w->fds[w->count++];
}

static bool has_come(const struct pollfd *watched)
{
	return watched && watched->revents;
}

static void fill_watched(const struct supervisor *h, bool talks,
			 struct watched *w)
{
	w->count = 0;
	w->signals = add_watched(w, h->signals, POLLIN);
	w->pidfd = add_watched(w, h->pidfd, POLLIN);
	w->socket = add_watched(w, talks ? h->socket : -1, POLLIN);
	/* poll() always tells that it is closed. */
	w->death_pipe = add_watched(w, h->ends ? -1 : h->death_pipe, 0);
	w->mirror = add_watched(w, h->held.mirrored ? h->held.mirror : -1,
				POLLIN);
	w->count += stuck_servers_poll(&h->dying, w->fds + w->count);
}

/* Is the server starting: does it go on for another, and not serve yet? */
static bool is_starting(const struct supervisor *h)
{
	return h->serves_since_ms < 0 &&
	       fd_store_server_has(&h->held, FD_STORE_FUSE);
}

/* Tell how long until the next look, though nothing comes; ms. */
static int next_look_ms(const struct supervisor *h)
{
	int look_ms = h->ends ? LOOK_MS : is_starting(h) ? START_LOOK_MS : -1;
	int launcher_ms = launcher_mirror_wait_ms(&h->launcher, &h->held);

	return look_ms < 0 || (launcher_ms >= 0 && launcher_ms < look_ms)
		       ? launcher_ms
		       : look_ms;
}

/*
 * Kill a server that hangs as it starts, which holds up everybody. The next one
 * sees in which branch it hangs, and does without that.
 */
static void end_hanging_start(struct supervisor *h)
{
	if (h->ends || !is_starting(h) ||
	    clock_ms() - h->started_ms < START_MS ||
	    !task_is_blocked(h->pid, h->pid, HANG_MS))
		return;
	log_warning("'%s': the server %d hangs in a branch as it starts: "
		    "another one is started without that branch",
		    h->mountpoint, h->pid);
	(void)pidfd_send_signal(h->pidfd, SIGKILL, NULL, 0);
}

/* Does a call of the server not come back, when it was killed or has ended? */
static bool cannot_end(struct supervisor *h)
{
	return h->ends && stuck_servers_fit(&h->dying) &&
	       task_blocked_thread(h->pid, HANG_MS);
}

/*
 * Watch the server until it has ended, or is about to and cannot: false then. A
 * file that is removed is two messages. To be woken for each would cost as much
 * as the rest of a removal, so they gather for a moment.
 */
static bool watch_end(struct supervisor *h)
{
	struct watched w;
	bool talks = true;
	int events;

	for (;;) {
		fill_watched(h, talks, &w);
		events = poll(w.fds, w.count, next_look_ms(h));
		if (events < 0)
			continue;
		if (has_come(w.pidfd))
			return true;
		h->ends = h->ends || has_come(w.death_pipe);
		/* Most servers have ended before that is asked. */
		if (!events && cannot_end(h))
			return false;
		end_hanging_start(h);
		if (has_come(w.signals))
			take_signal(h);
		stuck_servers_reap(&h->dying, &h->held);
		if (has_come(w.mirror)) /* nothing comes but its end */
			fd_store_server_unmirror(&h->held);
		launcher_mirror_look(&h->launcher, &h->held);
		if (!has_come(w.socket))
			continue;
		talks = read_messages(h);
		/* The events of these two come again. */
		(void)poll(w.fds, 2, GATHER_MS);
	}
}

/*
 * Part with a server that hangs in a call, and do not wait for it. The messages
 * it had sent are taken. It has no exit status yet: it counts as killed, unless
 * there is nothing to serve any more. False: for want of room or memory.
 */
static bool part_with(struct supervisor *h, siginfo_t *ret)
{
	struct pollfd socket = {.fd = h->socket, .events = POLLIN};

	while (poll(&socket, 1, 0) > 0 && read_message(h))
		;
	if (!stuck_servers_add(&h->dying, &h->held, h->pidfd))
		return false;
	h->pidfd = -1;
	*ret = (siginfo_t){.si_code = CLD_KILLED, .si_status = SIGKILL};
	if (fd_store_server_has(&h->held, FD_STORE_FUSE) &&
	    !supervisor_is_connected(h))
		*ret = (siginfo_t){.si_code = CLD_EXITED};
	log_warning("'%s': server %d hangs in a call to a branch and cannot "
		    "end: the next server does not wait for it",
		    h->mountpoint, h->pid);
	return true;
}

static siginfo_t wait_for_server(struct supervisor *h)
{
	siginfo_t info = {0};

	/* Take the messages that it had sent before. */
	while (read_message(h))
		;
	while (waitid(P_PIDFD, (id_t)h->pidfd, &info, WEXITED) < 0 &&
	       errno == EINTR)
		;
	return info;
}

/* Watch the server; return how it ended, as waitid() says it. */
static siginfo_t watch(struct supervisor *h)
{
	siginfo_t info;

	if (watch_end(h) || !part_with(h, &info))
		info = wait_for_server(h);
	supervisor_forget_server(h);
	fd_close(take_fd(&h->death_pipe));
	fd_close(take_fd(&h->socket));
	fd_close(take_fd(&h->pidfd));
	return info;
}

/* Give up: there is nothing to go on with, or no server that can. */
static int give_up(struct supervisor *h, struct error *err)
{
	int r = error_set(err, EIO, "%s",
			  h->failure[0] ? h->failure
					: "the server ended at once");

	supervisor_let_go(h);
	return r;
}

static int end_early(struct supervisor *h, struct error *err)
{
	supervisor_let_go(h);
	return error_set(err, EIO, "'%s' was given up while in use",
			 h->mountpoint);
}

/* Wait, shorter when a signal comes. */
static void wait_a_pause(struct supervisor *h, int pause_ms)
{
	struct pollfd signals = {.fd = h->signals, .events = POLLIN};

	if (poll(&signals, 1, pause_ms) > 0)
		take_signal(h);
	h->replaced = false; /* there is no server to replace */
}

/*
 * Choose the program of the next server: that at our path. If it does not come
 * to serve, our own program follows, which did and keeps the same records. And
 * so on in turn.
 */
static void choose_program(struct supervisor *h)
{
	h->own = h->serves_since_ms < 0 && !h->own &&
		 fd_store_server_has(&h->held, FD_STORE_FUSE);
	if (h->own)
		log_warning("'%s': the program '%s' does not come to serve: "
			    "the one that did before takes over",
			    h->mountpoint, h->argv[0]);
}

/*
 * Decide after an end. 1: another server is to be started; else the result of
 * supervisor_run().
 */
static int start_again(struct supervisor *h, bool by_itself, const char *how,
		       struct error *err)
{
	int64_t since_ms = h->serves_since_ms;
	int pause_ms = 0;

	if (!h->replaced) {
		pause_ms = restart_backoff_next(
			&h->pace, since_ms < 0 ? -1 : clock_ms() - since_ms,
			by_itself);
		if (pause_ms < 0)
			return give_up(h, err);
		if (!pause_ms || pause_ms != h->pause_ms)
			log_warning("'%s': %s; another one is started%s",
				    h->mountpoint, how,
				    pause_ms ? " after a pause" : "");
		h->pause_ms = pause_ms;
	}
	if (!fd_store_server_has(&h->held, FD_STORE_FUSE))
		supervisor_let_go(h); /* from the start */
	choose_program(h);
	wait_a_pause(h, pause_ms);
	return h->ending ? end_early(h, err) : 1;
}

/* Decide after the end of a server. Returns as start_again(). */
static int judge(struct supervisor *h, const siginfo_t *info, struct error *err)
{
	bool killed = info->si_code != CLD_EXITED;
	char how[sizeof(h->failure) + 64];

	if (!killed && info->si_status == 0)
		return 0;
	if (h->ending)
		return end_early(h, err);
	if (!killed && h->serves_since_ms < 0 &&
	    (!fd_store_server_has(&h->held, FD_STORE_FUSE) ||
	     (h->error == EPROTO && h->own)))
		return give_up(h, err);
	(void)snprintf(how, sizeof(how), "its server ended by %s %d%s%s",
		       killed ? "signal" : "exit status", info->si_status,
		       h->failure[0] ? ": " : "", h->failure); /* fits */
	return start_again(h, !killed || info->si_status != SIGKILL, how, err);
}

/* Decide after a server could not be started. Returns as start_again(). */
static int not_started(struct supervisor *h, struct error *err)
{
	char how[sizeof(h->failure)];

	if (!fd_store_server_has(&h->held, FD_STORE_FUSE))
		return -err->code;
	(void)snprintf(how, sizeof(how), "%s", error_text(err)); /* as long */
	memcpy(h->failure, how, sizeof(how));
	return start_again(h, true, how, err);
}

static int block_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGUSR2);
	(void)sigprocmask(SIG_BLOCK, &set, NULL); /* a valid set */
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Make the command line of a server: ours, and where we are. */
static const char **server_argv(int argc, char **argv, char *self)
{
	const char **words = calloc((size_t)argc + 3, sizeof(*words));
	int i, n = 0;

	if (!words)
		return NULL;
	words[n++] = self;
	words[n++] = "-f";
	words[n++] = "--holder-fd=3"; /* as process_start() passes it */
	for (i = 1; i < argc; i++)
		if (strcmp(argv[i], "-f") != 0 &&
		    strncmp(argv[i], "--ready-fd=", 11) != 0 &&
		    strncmp(argv[i], "--start-fd=", 11) != 0 &&
		    strncmp(argv[i], "--stored-fd=", 12) != 0)
			words[n++] = argv[i];
	return words;
}

/* The command line of the next supervisor is a server's, with its socket. */
static int mirror_init(struct supervisor *h)
{
	const char *server[2] = {h->argv[0], h->argv[FD_WORD_AT]};
	int r;

	h->argv[0] = PROGRAM;
	h->argv[FD_WORD_AT] = STORED;
	r = launcher_mirror_init(&h->launcher, h->argv, FD_STORE_FUSE);
	h->argv[0] = server[0];
	h->argv[FD_WORD_AT] = server[1];
	return r;
}

/*
 * Go on for a supervisor that was killed, alone or with its server. Returns as
 * start_again().
 */
static int follow_killed(struct supervisor *h, int socket, struct error *err)
{
	int r = fd_store_server_receive(&h->held, socket);

	if (r < 0)
		return error_set(err, -r, "take over from the launcher: %s",
				 strerror(-r));
	h->told = true;
	h->launcher.moves = true;
	supervisor_take_device(h);
	stuck_servers_resume(&h->dying, &h->held);
	if (supervisor_take_left(h))
		(void)watch(h);
	if (!supervisor_is_connected(h)) { /* it was unmounted meanwhile */
		fd_store_server_done(&h->held);
		return 0;
	}
	h->serves_since_ms = clock_ms();
	return start_again(h, false, "its supervisor was killed", err);
}

static int supervise(struct supervisor *h, int stored_fd, struct error *err)
{
	siginfo_t info;
	int r = 1;

	if (stored_fd >= 0)
		r = follow_killed(h, stored_fd, err);
	while (r == 1) {
		r = start_server(h, err);
		if (r == 0) {
			info = watch(h);
			r = judge(h, &info, err);
		} else {
			r = not_started(h, err);
		}
	}
	return r;
}

int supervisor_run(const struct union_options *options, int argc, char **argv,
		   void (*ready)(void *context), void *context,
		   struct error *err)
{
	char self[PATH_MAX] = "";
	struct supervisor h = {.ready = ready,
			       .context = context,
			       .signals = -1,
			       .pidfd = -1,
			       .socket = -1,
			       .death_pipe = -1};
	int r;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return error_set(err, errno, "find the program: %s",
				 strerror(errno));
	h.mountpoint = realpath(options->mountpoint, NULL);
	if (!h.mountpoint)
		return error_set(err, errno, "mount point '%s': %s",
				 options->mountpoint, strerror(errno));
	stuck_servers_init(&h.dying);
	h.argv = server_argv(argc, argv, self);
	h.signals = block_signals();
	limits_raise();
	h.oom_score = oom_protect();
	r = h.argv && h.signals >= 0 && mirror_init(&h) == 0
		    ? supervise(&h, options->stored_fd, err)
		    : error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	fd_store_server_done(&h.held);
	stuck_servers_done(&h.dying);
	fd_close(h.signals);
	launcher_mirror_done(&h.launcher);
	free(h.argv);
	free(h.mountpoint);
	return r;
}
