/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remote extent where the kernel has FUSE and loop devices but no NBD
 * client: trib-nbd makes it a file, a loop device with direct I/O makes that
 * a block device.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/kernel/fusectl.h"
#include "base/process.h"
#include "initiator/device/loopdev.h"
#include "initiator/device/parts.h"
#include "initiator/nbd/nbd_link.h"
#include "initiator/nbd/nbd_program.h"
#include "initiator/transport/transport.h"
#include "launch/launch_client.h"

#define PROGRAM          "trib-nbd"
#define STATE_NAME       "state"
#define START_TIMEOUT_MS 15000 /* its handshake has 10,000 */
#define EXIT_TIMEOUT_MS  5000

/* The places of an attachment. */
struct places {
	char mount[PATH_MAX];
	char file[PATH_MAX];
	char state[PATH_MAX];
	char log[PATH_MAX];
	char parts[PATH_MAX];
	char backing_end[64]; /* of /sys/block/loopN/loop/backing_file */
};

static int places_of(const struct attachment *a, struct places *p,
		     struct error *err)
{
	int n = snprintf(p->mount, sizeof(p->mount), "%s/%s.%s", a->state_dir,
			 a->record.id, a->tag);

	if (n < 0 || n + sizeof(p->backing_end) > sizeof(p->mount))
		return error_set(err, ENAMETOOLONG,
				 "the path of the state directory is too long");
	(void)snprintf(p->backing_end, sizeof(p->backing_end),
		       "/" LOOPDEV_QUIET "%s", a->tag);
	(void)snprintf(p->file, sizeof(p->file), "%.*s%s", n, p->mount,
		       p->backing_end);
	(void)snprintf(p->state, sizeof(p->state), "%.*s/" STATE_NAME, n,
		       p->mount);
	(void)snprintf(p->log, sizeof(p->log), "%.3900s/%s.log", a->state_dir,
		       a->record.id);
	(void)snprintf(p->parts, sizeof(p->parts), "%.3900s/%s" PARTS_SUFFIX,
		       a->state_dir, a->record.id);
	return 0;
}

static int fuse_probe(struct error *err)
{
	auto_close int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, ENODEV, "no FUSE here (/dev/fuse: %s)",
				 strerror(errno));
	return loopdev_probe(err);
}

/* ---- starting trib-nbd ---- */

static int start_program(struct attachment *a, const struct places *p,
			 int log_fd, int control, struct error *err)
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
			      r->read_only ? "--read-only" : NULL,
			      NULL};

	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)r->size);
	(void)snprintf(timeout, sizeof(timeout), "%u", r->dead_timeout_ms);
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

static int bring_up(struct attachment *a, const struct places *p, int log_fd,
		    struct error *err)
{
	struct record *r = &a->record;
	int pair[2], status;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "socketpair: %s", strerror(errno));
	auto_close int control = pair[0];
	status = start_program(a, p, log_fd, pair[1], err);
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

static int fuse_attach(struct attachment *a, struct error *err)
{
	struct record *r = &a->record;
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
	status = bring_up(a, &p, log_fd, err);
	if (status < 0)
		return status;
	auto_close int fd = open(p.file, (r->read_only ? O_RDONLY : O_RDWR) |
						 O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", p.file,
				 strerror(errno));
	return loopdev_attach(fd, a->tag, r->read_only, true, r->device, err);
}

/* ---- taking it down ---- */

static bool wait_exit(const struct record *r, int timeout_ms)
{
	struct pollfd fd = {.events = POLLIN};
	bool ended;

	fd.fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
	if (fd.fd < 0)
		return true;
	ended = !process_alive(r->pid, r->pid_start) ||
		poll(&fd, 1, timeout_ms) > 0;
	fd_close(fd.fd);
	return ended;
}

/* Kill by a descriptor: the pid cannot become somebody else's in between. */
static void kill_process(const struct record *r)
{
	int fd = (int)syscall(SYS_pidfd_open, r->pid, 0);

	if (fd >= 0 && process_alive(r->pid, r->pid_start))
		/* ESRCH: it went by itself. */
		(void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	fd_close(fd);
}

static int end_process(struct record *r, bool served, struct error *err)
{
	if (!r->pid || !r->pid_start)
		return 0;
	if (!served || !wait_exit(r, EXIT_TIMEOUT_MS)) {
		kill_process(r);
		if (!wait_exit(r, EXIT_TIMEOUT_MS))
			return error_set(err, EBUSY,
					 PROGRAM " (process %d) does not end",
					 (int)r->pid);
	}
	/* Ours to reap when this process started it; else ECHILD. */
	(void)waitpid(r->pid, NULL, WNOHANG);
	r->pid = 0;
	return 0;
}

/* Unmount all that are stacked there. 1: unmounted, 0: was not mounted. */
static int unmount(const struct places *p, bool alive, struct error *err)
{
	int count = 0;

	for (;;) {
		if (!umount2(p->mount, UMOUNT_NOFOLLOW)) {
			count = 1;
			continue;
		}
		if (errno == EINVAL || errno == ENOENT)
			return count;
		if (errno == EBUSY && alive)
			return error_set(err, EBUSY, "'%s' is in use",
					 p->mount);
		if (umount2(p->mount, MNT_DETACH) < 0)
			return error_set(err, errno, "umount '%s': %s",
					 p->mount, strerror(errno));
		count = 1;
	}
}

/* Find the number of the mount's FUSE connection (fuse.rst). 0: none. */
static unsigned connection_of(const struct places *p)
{
	auto_fclose FILE *f = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	unsigned ma, mi, found = 0;
	size_t space = 0;
	int at;

	while (f && getline(&line, &space, f) > 0) {
		if (sscanf(line, "%*u %*u %u:%u %*s %n", &ma, &mi, &at) != 2)
			continue;
		line[at + (int)strcspn(line + at, " \n")] = 0;
		if (!strcmp(line + at, p->mount))
			found = mi;
	}
	return found;
}

/*
 * The kernel aborts a connection when it is told to, and when its program has
 * ended.
 */
static int fuse_fail(struct attachment *a, struct error *err)
{
	char device[DEVICE_PATH_MAX];
	struct places p;
	int status = places_of(a, &p, err);

	if (status < 0)
		return status;
	auto_close int fd = fusectl_open(connection_of(&p));
	if (fd >= 0)
		(void)fusectl_abort(fd); /* else by its end */
	status = end_process(&a->record, false, err);
	if (!status && !loopdev_find(p.backing_end, NULL, device))
		status = loopdev_leave(device, err);
	if (!status)
		status = unmount(&p, false, err);
	return status < 0 ? status : 0;
}

static int fuse_detach(struct attachment *a, struct error *err)
{
	struct record *r = &a->record;
	char device[DEVICE_PATH_MAX];
	struct places p;
	bool alive = r->pid && process_alive(r->pid, r->pid_start);
	int status = places_of(a, &p, err);

	if (status < 0)
		return status;
	if (!loopdev_find(p.backing_end, NULL, device)) {
		status = loopdev_detach(device, err);
		if (status < 0)
			return status;
	}
	r->device[0] = 0;
	status = unmount(&p, alive, err);
	if (status < 0)
		return status;
	status = end_process(r, status > 0, err);
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

static int check_state(const struct places *p, bool *ret_dead,
		       struct error *err)
{
	char text[ERROR_TEXT_MAX];
	ssize_t n = -1;

	auto_close int fd = open(p->state, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, text, sizeof(text) - 1);
	if (n < 0) {
		*ret_dead = true;
		return error_set(err, EIO, "'%s': %s", p->state,
				 strerror(errno));
	}
	text[n] = 0;
	if (!strcmp(text, NBD_LINK_CONNECTED))
		return 0;
	*ret_dead = !strncmp(text, NBD_LINK_FAILED, strlen(NBD_LINK_FAILED));
	return error_set(err, EIO, "%s", text);
}

static int fuse_check(struct attachment *a, bool *ret_dead, struct error *err)
{
	struct record *r = &a->record;
	struct places p;
	int status = places_of(a, &p, err);

	*ret_dead = true;
	if (status < 0)
		return status;
	if (!r->pid || !process_alive(r->pid, r->pid_start))
		return error_set(err, EIO,
				 PROGRAM " has ended (see %s): attach it again",
				 p.log);
	if (loopdev_find(p.backing_end, NULL, r->device) < 0)
		return error_set(err, ENODEV,
				 "its loop device is gone: attach it again");
	*ret_dead = false;
	return check_state(&p, ret_dead, err);
}

static int fuse_resize(struct attachment *a, uint64_t size, struct error *err)
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
	return loopdev_resize(a->record.device, err);
}

const struct transport transport_fuse = {
	.name = "fuse",
	.parts = true,
	.probe = fuse_probe,
	.attach = fuse_attach,
	.detach = fuse_detach,
	.check = fuse_check,
	.resize = fuse_resize,
	.fail = fuse_fail,
};
