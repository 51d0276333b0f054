/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/transport/nbd_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/kernel/fusectl.h"
#include "base/process.h"
#include "initiator/device/loopdev.h"
#include "initiator/device/parts.h"
#include "initiator/nbd/nbd_link.h"
#include "initiator/nbd/nbd_program.h"
#include "launch/launch_client.h"

#define PROGRAM           "trib-nbd"
#define START_TIMEOUT_MS  15000 /* its handshake has 10,000 */
#define EXIT_TIMEOUT_MS   5000
#define EXIT_STEP_MS      5
#define CLOSED_TIMEOUT_MS 10000 /* others' tasks close its file: unmount() */
#define NAME_ROOM         64    /* bytes of a name below the mount */

/* The places of an attachment. */
struct places {
	char mount[PATH_MAX];
	char file[PATH_MAX];
	char state[PATH_MAX];
	char log[PATH_MAX];
	char parts[PATH_MAX];
};

static int places_of(const struct attachment *a, struct places *p,
		     struct error *err)
{
	int n = snprintf(p->mount, sizeof(p->mount), "%s/%s.%s", a->state_dir,
			 a->record.id, a->tag);

	if (n < 0 || n + NAME_ROOM > (int)sizeof(p->mount))
		return error_set(err, ENAMETOOLONG,
				 "the path of the state directory is too long");
	(void)snprintf(p->file, sizeof(p->file), "%.*s/" NBD_PROGRAM_ALIAS "%s",
		       n, p->mount, a->tag);
	(void)snprintf(p->state, sizeof(p->state), "%.*s/" NBD_PROGRAM_STATE, n,
		       p->mount);
	(void)snprintf(p->log, sizeof(p->log), "%.3900s/%s.log", a->state_dir,
		       a->record.id);
	(void)snprintf(p->parts, sizeof(p->parts), "%.3900s/%s" PARTS_SUFFIX,
		       a->state_dir, a->record.id);
	return 0;
}

/* ---- starting trib-nbd ---- */

static int start_program(struct attachment *a, const struct places *p,
			 bool by_ublk, int log_fd, int control,
			 struct error *err)
{
	struct record *r = &a->record;
	char program[PATH_MAX], size[24], timeout[24];
	const char *argv[] = {file_find_program(PROGRAM, program),
			      "--parts",
			      p->parts,
			      "--mount",
			      p->mount,
			      "--name",
			      r->id,
			      "--size",
			      size,
			      "--dead-timeout",
			      timeout,
			      "--control-fd",
			      "3",
			      NULL,
			      NULL,
			      NULL,
			      NULL};
	size_t n = 13; /* the first that is NULL */

	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)r->size);
	(void)snprintf(timeout, sizeof(timeout), "%u", r->dead_timeout_ms);
	if (by_ublk) {
		argv[n++] = "--ublk";
		argv[n++] = a->tag;
	}
	if (r->read_only)
		argv[n++] = "--read-only";
	return launch_start(a->launcher, argv, log_fd, control, &r->pid, err);
}

/* Wait for a message. */
static int hear(int control, char text[static NBD_PROGRAM_MESSAGE_MAX],
		struct error *err)
{
	struct pollfd fd = {.fd = control, .events = POLLIN};
	ssize_t n;

	do {
		n = poll(&fd, 1, START_TIMEOUT_MS);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return error_set(err, ETIMEDOUT,
				 PROGRAM " did not answer in %d s",
				 START_TIMEOUT_MS / 1000);
	n = recv(control, text, NBD_PROGRAM_MESSAGE_MAX - 1, 0);
	text[n > 0 ? n : 0] = 0;
	return 0;
}

/* 0: the message is @wanted. Another one is the error. */
static int judge(const char *text, const char *wanted, struct error *err)
{
	int code = 0, at = 0;

	if (!strcmp(text, wanted))
		return 0;
	if (sscanf(text, NBD_PROGRAM_ERROR " %d %n", &code, &at) == 1 && at)
		return error_set(err, code, "%s", text + at);
	return error_set(err, EIO,
			 PROGRAM " ended before it served (is it installed?)");
}

static int expect(int control, const char *wanted, struct error *err)
{
	char text[NBD_PROGRAM_MESSAGE_MAX];
	int r = hear(control, text, err);

	return r < 0 ? r : judge(text, wanted, err);
}

/*
 * Wait until it is ready, and keep the incarnations that it tells before: what
 * takes its place has to have the same.
 */
static int expect_ready(const struct places *p, int control, struct error *err)
{
	auto_free struct parts *parts = NULL;
	char text[NBD_PROGRAM_MESSAGE_MAX] = "";
	int r = parts_load(AT_FDCWD, p->parts, &parts, err);

	while (r == 0) {
		unsigned index;
		int at = 0;

		r = hear(control, text, err);
		if (r < 0 ||
		    sscanf(text, NBD_PROGRAM_INCARNATION " %u %n", &index,
			   &at) != 1 ||
		    !at || index >= parts->n)
			break;
		r = parts_keep_incarnation(&parts->items[index], text + at,
					   err);
	}
	if (r == 0)
		r = judge(text, NBD_PROGRAM_READY, err);
	return r < 0 ? r : parts_save(AT_FDCWD, p->parts, parts, err);
}

static int save(struct attachment *a, struct error *err)
{
	return record_save(a->dirfd, &a->record, err);
}

static int bring_up(struct attachment *a, const struct places *p, bool by_ublk,
		    int log_fd, struct error *err)
{
	struct record *r = &a->record;
	int pair[2], status;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "socketpair: %s", strerror(errno));
	auto_close int control = pair[0];
	status = start_program(a, p, by_ublk, log_fd, pair[1], err);
	fd_close(pair[1]);
	if (status < 0)
		return status;
	/* Gone so soon: its last words are in the socket. */
	if (process_start_time(r->pid, &r->pid_start) < 0)
		r->pid_start = 0;
	status = save(a, err);
	if (!status)
		status = expect_ready(p, control, err);
	if (status < 0)
		return status;
	if (send(control, NBD_PROGRAM_GO, strlen(NBD_PROGRAM_GO),
		 MSG_NOSIGNAL) < 0)
		return error_set(err, EIO, PROGRAM " ended: see %s", p->log);
	return expect(control, NBD_PROGRAM_MOUNTED, err);
}

int nbd_process_start(struct attachment *a, bool by_ublk, struct error *err)
{
	struct places p;
	int status = places_of(a, &p, err);

	if (status < 0)
		return status;
	if (mkdir(p.mount, 0700) < 0 && errno != EEXIST)
		return error_set(err, errno, "mkdir '%s': %s", p.mount,
				 strerror(errno));
	auto_close int log_fd = open(
		p.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
		0600);
	if (log_fd < 0)
		return error_set(err, errno, "open '%s': %s", p.log,
				 strerror(errno));
	(void)flock(log_fd, LOCK_SH); /* is_logged() */
	return bring_up(a, &p, by_ublk, log_fd, err);
}

int nbd_process_open(struct attachment *a, int *ret_fd, struct error *err)
{
	struct places p;
	int status = places_of(a, &p, err);

	if (status < 0)
		return status;
	*ret_fd = open(p.file,
		       (a->record.read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	return *ret_fd < 0 ? error_set(err, errno, "open '%s': %s", p.file,
				       strerror(errno))
			   : 0;
}

/* ---- taking it down ---- */

/*
 * Is a process at work, or about to be? All that serve the device have one log,
 * and so has the launcher while it stores for them. A lock of that open file
 * lasts as long as any of them has it.
 */
static bool is_logged(const struct places *p)
{
	auto_close int fd = open(p->log, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

bool nbd_process_is_alive(const struct attachment *a)
{
	struct places p;

	return places_of(a, &p, NULL) == 0 && is_logged(&p);
}

static bool wait_all_ended(const struct places *p)
{
	int64_t end = clock_ms() + EXIT_TIMEOUT_MS;

	while (is_logged(p)) {
		if (clock_ms() >= end)
			return false;
		(void)poll(NULL, 0, EXIT_STEP_MS);
	}
	return true;
}

/* Find the process that serves it now, by its lock of the log. 0: none. */
static pid_t find_process(const struct places *p)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	auto_close int fd = open(p->log, O_RDWR | O_CLOEXEC);

	return fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK
		       ? 0
		       : lock.l_pid;
}

/*
 * Kill by a descriptor: the pid cannot become somebody else's in between. One
 * of a version without a lock is known by the record.
 */
static void kill_process(const struct record *r, const struct places *p)
{
	pid_t pid = find_process(p);
	bool found = pid > 0;
	int fd = (int)syscall(SYS_pidfd_open, found ? pid : r->pid, 0);

	if (fd >= 0 && (found ? find_process(p) == pid
			      : process_alive(r->pid, r->pid_start)))
		/* ESRCH: it went by itself. */
		(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	fd_close(fd);
}

/*
 * A killed process is followed, if the launcher stores for it. The next one
 * ends by itself when the mount has gone, or its connection was aborted.
 */
static int end_process(struct record *r, const struct places *p, bool served,
		       struct error *err)
{
	if (!served || !wait_all_ended(p))
		kill_process(r, p);
	if (!wait_all_ended(p))
		return error_set(err, EBUSY,
				 PROGRAM " (process %d) does not end",
				 (int)find_process(p));
	if (!r->pid)
		return 0;
	/* Ours to reap when this process started it; else ECHILD. */
	(void)waitpid(r->pid, NULL, WNOHANG);
	r->pid = 0;
	return 0;
}

/*
 * Unmount all that are stacked there. Another program that looked at the loop
 * device may have been its last user. The kernel then closes the file below on
 * behalf of that program, a moment after the device has gone. 1: unmounted, 0:
 * was not mounted.
 */
static int unmount(const struct places *p, bool alive, struct error *err)
{
	int64_t end = clock_ms() + CLOSED_TIMEOUT_MS;
	int count = 0, e;

	for (;;) {
		if (!umount2(p->mount, UMOUNT_NOFOLLOW)) {
			count = 1;
			continue;
		}
		e = errno;
		if (e == EINVAL || e == ENOENT)
			return count;
		if (e == EBUSY && alive && clock_ms() < end) {
			(void)poll(NULL, 0, EXIT_STEP_MS);
			continue;
		}
		if (e == EBUSY && alive)
			return error_set(err, EBUSY, "'%s' is in use",
					 p->mount);
		if (umount2(p->mount, MNT_DETACH) < 0)
			return error_set(err, errno, "umount '%s': %s",
					 p->mount, strerror(errno));
		count = 1;
	}
}

/*
 * The kernel aborts a FUSE connection when it is told to, and when its program
 * has ended.
 */
int nbd_process_fail(struct attachment *a, struct error *err)
{
	struct places p;
	int status = places_of(a, &p, err);

	if (status < 0)
		return status;
	auto_close int fd = fusectl_open(fusectl_number(p.mount));
	if (fd >= 0)
		(void)fusectl_abort(fd); /* else by its end */
	return end_process(&a->record, &p, false, err);
}

int nbd_process_unmount(struct attachment *a, struct error *err)
{
	struct places p;
	int status = places_of(a, &p, err);

	if (!status)
		status = unmount(&p, false, err);
	return status < 0 ? status : 0;
}

int nbd_process_end(struct attachment *a, struct error *err)
{
	struct record *r = &a->record;
	struct places p;
	int status = places_of(a, &p, err);

	if (status < 0)
		return status;
	status = unmount(&p, nbd_process_is_alive(a), err);
	if (status < 0)
		return status;
	status = end_process(r, &p, status > 0, err);
	if (status < 0)
		return status;
	if (rmdir(p.mount) < 0 && errno != ENOENT)
		return error_set(err, errno, "rmdir '%s': %s", p.mount,
				 strerror(errno));
	if (unlink(p.log) < 0 && errno != ENOENT)
		return error_set(err, errno, "unlink '%s': %s", p.log,
				 strerror(errno));
	if (unlink(p.parts) < 0 && errno != ENOENT)
		return error_set(err, errno, "unlink '%s': %s", p.parts,
				 strerror(errno));
	return 0;
}

/* ---- how it is ---- */

int nbd_process_check(struct attachment *a, bool *ret_dead, struct error *err)
{
	char text[ERROR_TEXT_MAX];
	struct places p;
	ssize_t n = -1;
	int status = places_of(a, &p, err);

	*ret_dead = true;
	if (status < 0)
		return status;
	if (!nbd_process_is_alive(a))
		return error_set(err, EIO,
				 PROGRAM " has ended (see %s): attach it again",
				 p.log);
	auto_close int fd = open(p.state, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return error_set(err, ENOTCONN, "'%s': %s", p.state,
				 strerror(errno));
	text[n] = 0;
	*ret_dead = !strncmp(text, NBD_LINK_FAILED, strlen(NBD_LINK_FAILED));
	return strcmp(text, NBD_LINK_CONNECTED) != 0
		       ? error_set(err, EIO, "%s", text)
		       : 0;
}

int nbd_process_grow(struct attachment *a, uint64_t size, struct error *err)
{
	struct places p;
	int status = places_of(a, &p, err);

	if (status < 0)
		return status;
	if (truncate(p.file, (off_t)size) < 0)
		return error_set(err, errno == EFBIG ? EINVAL : errno,
				 "'%s': %s", p.file,
				 errno == EFBIG ? "the server's export is "
						  "smaller: grow the extent "
						  "first"
						: strerror(errno));
	return 0;
}
