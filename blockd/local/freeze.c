/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/local/freeze.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mount_ns.h"
#include "base/process.h"

#define ABOVE_MAX   2    /* an attachment's device, and a volume's over it */
#define SLACK_MS    500  /* it thaws this long after we have given up */
#define END_WAIT_MS 3000 /* for a thaw */
#define NOTE_SIZE   32   /* bytes with NUL: "7:3" */

struct freeze {
	char device[LOCAL_NAME_MAX];
	char note[NOTE_SIZE];
	int state_fd; /* borrowed */
	int mount_fd;
	int socket; /* to the process */
	pid_t pid;
	bool ours; /* if it is frozen, we did it */
};

/* ---- the process ---- */

/* Its standard output, which it also reads from, is the other end. */
static int freeze_process_start(const char *what, int mount_fd, int *ret_socket,
				pid_t *ret_pid, struct error *err)
{
	char program[PATH_MAX];
	const char *argv[] = {file_find_program(FREEZE_PROGRAM, program), what,
			      NULL};
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return error_set(err, errno, "socketpair: %s", strerror(errno));
	r = process_start(argv, ends[1], mount_fd, ret_pid, err);
	fd_close(ends[1]);
	if (r < 0) {
		fd_close(ends[0]);
		return r;
	}
	*ret_socket = ends[0];
	return 0;
}

/*
 * Read the answer of trib-freeze: 0 or a positive errno. -EAGAIN: nothing yet;
 * -EPIPE: it has gone without a word.
 */
static int hear(int fd, int64_t until_ms)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	char text[16];
	ssize_t n;
	int r;

	do {
		int64_t left = until_ms - clock_ms();

		r = poll(&wait, 1, left < 0 ? 0 : (int)left);
	} while (r < 0 && errno == EINTR);
	if (r <= 0)
		return -EAGAIN;
	n = recv(fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return -EPIPE;
	text[n] = '\0';
	return atoi(text);
}

/* Its process: ended, or left to end by itself and then a zombie of ours. */
static void freeze_process_reap(pid_t pid, int64_t until_ms)
{
	struct timespec pause = {.tv_nsec = 2000000};

	while (waitpid(pid, NULL, WNOHANG) == 0 && clock_ms() < until_ms)
		(void)nanosleep(&pause, NULL);
}

/* ---- where it is mounted ---- */

/* "\040" and its like, in place (proc(5), mountinfo). */
static void unescape(char *text)
{
	char *to = text;

	while (*text) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' &&
		    text[2] >= '0' && text[2] <= '7' && text[3] >= '0' &&
		    text[3] <= '7') {
			*to++ = (char)((text[1] - '0') << 6 |
				       (text[2] - '0') << 3 | (text[3] - '0'));
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = '\0';
}

char *freeze_mount_of_line(char *line, dev_t device)
{
	dev_t mounted;
	int at;

	if (!mount_ns_line(line, &mounted, &at) || mounted != device)
		return NULL;
	line[at + (int)strcspn(line + at, " \n")] = '\0';
	unescape(line + at);
	return line + at;
}

/* A directory below the root that the process sees. */
static int open_seen_by(const char *pid, const char *place, dev_t device)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "/proc/%s/root%s", pid,
			     place) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Something else may be mounted over it. */
	if (fstat(fd, &st) < 0 || st.st_dev != device) {
		fd_close(fd);
		return -ENOENT;
	}
	return fd;
}

struct search {
	dev_t device;
	int fd; /* -ENOENT: not found */
};

static int search(void *context, const struct mount_ns *space)
{
	struct search *s = context;
	auto_free char *line = NULL;
	size_t size = 0;

	while (s->fd < 0 && getline(&line, &size, space->mounts) > 0) {
		const char *place = freeze_mount_of_line(line, s->device);

		if (place)
			s->fd = open_seen_by(space->pid, place, s->device);
	}
	return s->fd >= 0;
}

int freeze_find_mount(dev_t device, int *ret_fd)
{
	struct search s = {.device = device, .fd = -ENOENT};

	if (!mount_ns_walk(search, &s))
		return -ENOENT;
	*ret_fd = s.fd;
	return 0;
}

static int device_number(const char *name, dev_t *ret)
{
	char path[64 + LOCAL_NAME_MAX];
	unsigned major_number, minor_number;
	FILE *file;
	int n;

	(void)snprintf(path, sizeof(path), "/sys/block/%s/dev", name);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	n = fscanf(file, "%u:%u", &major_number, &minor_number);
	(void)fclose(file); /* was only read */
	if (n != 2)
		return -EIO;
	*ret = makedev(major_number, minor_number);
	return 0;
}

/* ---- notes ---- */

static int note_write(const struct freeze *freeze, struct error *err)
{
	int fd = openat(freeze->state_fd, freeze->note,
			O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return error_set(err, errno, "note that '%s' is frozen: %s",
				 freeze->device, strerror(errno));
	fd_close(fd);
	return 0;
}

/* ---- thawing without the one that froze ---- */

/* By a process, too: it may wait. */
static int freeze_thaw_mount(int mount_fd, struct error *err)
{
	pid_t pid;
	int socket,
		r = freeze_process_start("thaw", mount_fd, &socket, &pid, err);

	if (r < 0)
		return r;
	r = hear(socket, clock_ms() + END_WAIT_MS);
	fd_close(socket);
	freeze_process_reap(pid, clock_ms() + END_WAIT_MS);
	if (r != 0 && r != EINVAL) /* it was not frozen */
		return error_set(err, r < 0 ? -r : r, "thaw: %s",
				 strerror(r < 0 ? -r : r));
	return 0;
}

static void thaw_noted(int state_fd, const char *note)
{
	unsigned major_number, minor_number;
	struct error err = {0};
	auto_close int fd = -1;

	if (sscanf(note, "%u:%u", &major_number, &minor_number) != 2)
		return;
	/* Not mounted any more, it can't be frozen. */
	if (freeze_find_mount(makedev(major_number, minor_number), &fd) == 0) {
		if (freeze_thaw_mount(fd, &err) < 0)
			log_write(LOG_LEVEL_ERROR,
				  "the file system on device %s was left "
				  "frozen: %s; run fsfreeze -u on it",
				  note, error_text(&err));
		else
			log_warning("the file system on device %s was left "
				    "frozen: it is not any more",
				    note);
	}
	(void)unlinkat(state_fd, note, 0);
}

void freeze_thaw_left(int state_fd)
{
	int copy = openat(state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *notes = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *entry;

	if (!notes) {
		fd_close(copy);
		return;
	}
	while ((entry = readdir(notes)))
		thaw_noted(state_fd, entry->d_name);
	(void)closedir(notes); /* was only read */
}

/* ---- freezing ---- */

static int explain(int r, const char *device, struct error *err)
{
	switch (r) {
	case EBUSY:
		return error_set(
			err, EBUSY,
			"the file system on /dev/%s is frozen already, by another "
			"program",
			device);
	case EOPNOTSUPP:
		return error_set(err, EOPNOTSUPP,
				 "the file system on /dev/%s is of a kind that "
				 "can't be frozen",
				 device);
	case -EAGAIN:
		return error_set(err, ETIMEDOUT,
				 "the file system on /dev/%s could not be "
				 "frozen in time",
				 device);
	case -EPIPE:
		return error_set(err, EIO,
				 FREEZE_PROGRAM " ended without an answer");
	default:
		return error_set(err, r,
				 "freeze the file system on /dev/%s: %s",
				 device, strerror(r));
	}
}

/*
 * Find what is mounted on a device, or on a mapper device over it, up to
 * @levels above.
 */
static int find_mount_above(const char *name, unsigned levels, dev_t *ret,
			    int *ret_fd)
{
	char path[64 + LOCAL_NAME_MAX];
	const struct dirent *e;
	DIR *holders;
	int r = device_number(name, ret);

	if (r == 0)
		r = freeze_find_mount(*ret, ret_fd);
	if (r == 0 || levels == 0)
		return r;
	(void)snprintf(path, sizeof(path), "/sys/block/%s/holders", name);
	holders = opendir(path);
	while (r < 0 && holders && (e = readdir(holders))) {
		if (e->d_name[0] != '.')
			r = find_mount_above(e->d_name, levels - 1, ret,
					     ret_fd);
	}
	if (holders)
		(void)closedir(holders); /* was only read */
	return r;
}

/* Look up what is mounted on it. */
static int find_mounted(struct freeze *freeze, struct error *err)
{
	dev_t device = 0;
	int r = find_mount_above(freeze->device, ABOVE_MAX, &device,
				 &freeze->mount_fd);

	if (r < 0)
		return error_set(err, -r, "nothing is mounted on /dev/%s",
				 freeze->device);
	(void)snprintf(freeze->note, sizeof(freeze->note), "%u:%u",
		       major(device), minor(device));
	return 0;
}

void freeze_extend(struct freeze *freeze, int64_t until_ms)
{
	char text[24];
	int64_t left = until_ms - clock_ms() + SLACK_MS;
	int n = snprintf(text, sizeof(text), "%lld",
			 (long long)(left > 0 ? left : 0));

	/* A process that has gone shows when it is to end. */
	(void)send(freeze->socket, text, (size_t)n, MSG_NOSIGNAL);
}

int freeze_begin(const char *device, int state_fd, int64_t until_ms,
		 struct freeze **ret, struct error *err)
{
	struct freeze *freeze = calloc(1, sizeof(*freeze));
	int r;

	if (!freeze)
		return error_set(err, ENOMEM, "out of memory");
	freeze->mount_fd = freeze->socket = -1;
	freeze->state_fd = state_fd;
	(void)snprintf(freeze->device, sizeof(freeze->device), "%s", device);
	r = find_mounted(freeze, err);
	if (r == 0)
		r = note_write(freeze, err);
	if (r == 0)
		r = freeze_process_start("freeze", freeze->mount_fd,
					 &freeze->socket, &freeze->pid, err);
	if (r == 0) {
		freeze_extend(freeze, until_ms);
		r = hear(freeze->socket, until_ms);
		freeze->ours = r <= 0; /* it may be under way */
		if (r != 0)
			r = explain(r, device, err);
	}
	if (r < 0) {
		freeze_end(freeze);
		return r;
	}
	*ret = freeze;
	return 0;
}

/* True: its process has thawed it, or never froze it. */
static bool ended_well(struct freeze *freeze)
{
	int64_t until_ms = clock_ms() + END_WAIT_MS;
	int r;

	if (freeze->socket < 0)
		return true;
	(void)shutdown(freeze->socket, SHUT_WR);
	do
		r = hear(freeze->socket, until_ms);
	while (r > 0); /* why it could not freeze: it ends, then */
	freeze_process_reap(freeze->pid, r == -EAGAIN ? 0 : until_ms);
	return r == 0 || r == -EAGAIN;
}

void freeze_end(struct freeze *freeze)
{
	struct error err = {0};

	if (!ended_well(freeze) && freeze->ours &&
	    freeze_thaw_mount(freeze->mount_fd, &err) < 0)
		log_write(LOG_LEVEL_ERROR,
			  "the file system on /dev/%s is left frozen: %s; run "
			  "fsfreeze -u on it",
			  freeze->device, error_text(&err));
	if (freeze->note[0])
		(void)unlinkat(freeze->state_fd, freeze->note, 0);
	fd_close(freeze->socket);
	fd_close(freeze->mount_fd);
	free(freeze);
}
