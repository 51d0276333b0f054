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
#include "base/kernel/mount_ns.h"
#include "base/log.h"
#include "base/process.h"
#include "blockd/local/local_top.h"

/*
 * The attachment's device over a loop device. A volume's device over that may
 * be frozen already, and a sync of the file system there would wait.
 */
#define ABOVE_MAX   1
#define SLACK_MS    500  /* it thaws this long after we have given up */
#define END_WAIT_MS 3000 /* for a thaw */
#define NOTE_SIZE   MAPPER_NAME_MAX /* bytes with NUL: "7:3", or a UUID */

struct freeze {
	char device[LOCAL_NAME_MAX];
	char note[NOTE_SIZE];
	bool mapped;  /* the note is the UUID of a mapper device */
	int state_fd; /* borrowed */
	int mount_fd; /* -1: nothing is mounted there */
	int socket;   /* to the process */
	pid_t pid;
	bool ours; /* if it is frozen, we did it */
};

/* ---- the process ---- */

/* Its standard output, which it also reads from, is the other end. */
static int freeze_process_start(const char *what, const char *uuid,
				int mount_fd, int *ret_socket, pid_t *ret_pid,
				struct error *err)
{
	char program[PATH_MAX];
	const char *argv[] = {file_find_program(FREEZE_PROGRAM, program), what,
			      uuid, NULL};
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

int freeze_answer(int socket, int64_t until_ms)
{
	struct pollfd wait = {.fd = socket, .events = POLLIN};
	char text[16];
	ssize_t n;
	int r;

	do {
		int64_t left = until_ms - clock_ms();

		r = poll(&wait, 1, left < 0 ? 0 : (int)left);
	} while (r < 0 && errno == EINTR);
	if (r <= 0)
		return -EAGAIN;
	/* A process that ended with a message unread is an error, once. Its
	 * answer is still to come. */
	do
		n = recv(socket, text, sizeof(text) - 1, 0);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
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

static int explain(int r, const char *device, struct error *err)
{
	switch (r) {
	case EBUSY:
		return error_set(
			err, EBUSY,
			"/dev/%s is frozen already, by another program "
			"or for another snapshot",
			device);
	case EOPNOTSUPP:
		return error_set(err, EOPNOTSUPP,
				 "the file system on /dev/%s is of a kind that "
				 "can't be frozen",
				 device);
	case -EAGAIN:
		return error_set(err, ETIMEDOUT,
				 "what is on /dev/%s could not be frozen in "
				 "time",
				 device);
	case -EPIPE:
		return error_set(err, EIO,
				 FREEZE_PROGRAM " ended without an answer");
	default:
		return error_set(err, r, "freeze what is on /dev/%s: %s",
				 device, strerror(r));
	}
}

/* -EBUSY: another freeze has a note of it. */
static int note_write(struct freeze *freeze, struct error *err)
{
	int fd = openat(freeze->state_fd, freeze->note,
			O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			0600);

	if (fd < 0 && errno == EEXIST) {
		freeze->note[0] = '\0'; /* the other one's */
		return explain(EBUSY, freeze->device, err);
	}
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
	int socket, r = freeze_process_start("thaw", NULL, mount_fd, &socket,
					     &pid, err);

	if (r < 0)
		return r;
	r = freeze_answer(socket, clock_ms() + END_WAIT_MS);
	fd_close(socket);
	freeze_process_reap(pid, clock_ms() + END_WAIT_MS);
	if (r != 0 && r != EINVAL) /* it was not frozen */
		return error_set(err, r < 0 ? -r : r, "thaw: %s",
				 strerror(r < 0 ? -r : r));
	return 0;
}

/* Resume a mapper device. 0, also if it is not suspended or has gone. */
static int freeze_resume(const char *uuid, struct error *err)
{
	struct mapper_device device;
	int r = mapper_get(&mapper_kernel, uuid, &device, err);

	if (r == -ENOENT || (r == 0 && !device.suspended))
		return 0;
	return r < 0 ? r
		     : mapper_resume(&mapper_kernel, uuid, 0, MAPPER_LIMIT_MS,
				     err);
}

static void resume_noted(int state_fd, const char *uuid)
{
	struct error err = {0};

	if (freeze_resume(uuid, &err) < 0)
		log_write(LOG_LEVEL_ERROR,
			  "device %s was left suspended: %s; run dmsetup "
			  "resume -u %s",
			  uuid, error_text(&err), uuid);
	else
		log_warning("device %s was left suspended: it is not any more",
			    uuid);
	(void)unlinkat(state_fd, uuid, 0);
}

static void thaw_noted(int state_fd, const char *note)
{
	unsigned major_number, minor_number;
	struct error err = {0};
	auto_close int fd = -1;

	if (mapper_check_uuid(note, NULL) == 0) {
		resume_noted(state_fd, note);
		return;
	}
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

/* Look up our mapper device over it, and what is mounted on it. */
static int find_frozen(struct freeze *freeze, struct error *err)
{
	dev_t device = 0;
	int r = find_mount_above(freeze->device, ABOVE_MAX, &device,
				 &freeze->mount_fd);

	freeze->mapped = local_top_uuid(freeze->device, freeze->note);
	if (freeze->mapped)
		return 0;
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

static struct freeze *freeze_new(int state_fd)
{
	struct freeze *freeze = calloc(1, sizeof(*freeze));

	if (!freeze)
		return NULL;
	freeze->mount_fd = freeze->socket = -1;
	freeze->state_fd = state_fd;
	return freeze;
}

/* Start the process of what was found with @r. @freeze is taken. */
static int freeze_start(struct freeze *freeze, int r, struct freeze **ret,
			struct error *err)
{
	if (r == 0)
		r = note_write(freeze, err);
	if (r == 0)
		r = freeze_process_start(freeze->mapped ? "suspend" : "freeze",
					 freeze->mapped ? freeze->note : NULL,
					 freeze->mount_fd, &freeze->socket,
					 &freeze->pid, err);
	if (r < 0) {
		(void)freeze_end(freeze);
		return r;
	}
	*ret = freeze;
	return 0;
}

int freeze_prepare(const char *device, int state_fd, struct freeze **ret,
		   struct error *err)
{
	struct freeze *freeze = freeze_new(state_fd);

	if (!freeze)
		return error_set(err, ENOMEM, "out of memory");
	(void)snprintf(freeze->device, sizeof(freeze->device), "%s", device);
	return freeze_start(freeze, find_frozen(freeze, err), ret, err);
}

static int find_mapper(struct freeze *freeze, const char *uuid,
		       struct error *err)
{
	struct mapper_device device;
	dev_t above = 0;
	int r = mapper_check_uuid(uuid, err);

	if (r == 0)
		r = mapper_get(&mapper_kernel, uuid, &device, err);
	if (r < 0)
		return r;
	freeze->mapped = true;
	(void)snprintf(freeze->note, sizeof(freeze->note), "%s", uuid);
	(void)snprintf(freeze->device, sizeof(freeze->device), "dm-%u",
		       minor(device.device));
	/* A guest's device is mounted nowhere. */
	(void)find_mount_above(freeze->device, ABOVE_MAX, &above,
			       &freeze->mount_fd);
	return 0;
}

int freeze_prepare_mapper(const char *uuid, int state_fd, struct freeze **ret,
			  struct error *err)
{
	struct freeze *freeze = freeze_new(state_fd);

	if (!freeze)
		return error_set(err, ENOMEM, "out of memory");
	return freeze_start(freeze, find_mapper(freeze, uuid, err), ret, err);
}

int freeze_ready(struct freeze *freeze, int64_t until_ms, struct error *err)
{
	int r = freeze_answer(freeze->socket, until_ms);

	return r == 0 ? 0 : explain(r, freeze->device, err);
}

int freeze_begin(struct freeze *freeze, int64_t until_ms, struct error *err)
{
	int r;

	freeze_extend(freeze, until_ms);
	r = freeze_answer(freeze->socket, until_ms);
	freeze->ours = r <= 0; /* it may be under way */
	return r == 0 ? 0 : explain(r, freeze->device, err);
}

bool freeze_covers(const struct freeze *freeze, const char *device)
{
	char uuid[MAPPER_NAME_MAX];

	return freeze->mapped && local_top_uuid(device, uuid) &&
	       strcmp(uuid, freeze->note) == 0;
}

/*
 * True: its process has thawed it, or never froze it.
 *
 * @ret_lasted  false: somebody else thawed it before
 */
static bool ended_well(struct freeze *freeze, bool *ret_lasted)
{
	int64_t until_ms = clock_ms() + END_WAIT_MS;
	int r;

	if (freeze->socket < 0)
		return true;
	(void)shutdown(freeze->socket, SHUT_WR);
	/* Why it could not freeze or thaw: it ends, then. */
	while ((r = freeze_answer(freeze->socket, until_ms)) > 0)
		*ret_lasted = false;
	freeze_process_reap(freeze->pid, r == -EAGAIN ? 0 : until_ms);
	return r == 0 || r == -EAGAIN;
}

/* Its process has gone without a word. */
static void undo_alone(const struct freeze *freeze)
{
	struct error err = {0};
	int r = freeze->mapped ? freeze_resume(freeze->note, &err)
			       : freeze_thaw_mount(freeze->mount_fd, &err);

	if (r < 0)
		log_write(LOG_LEVEL_ERROR,
			  "what is on /dev/%s is left frozen: %s; run %s %s",
			  freeze->device, error_text(&err),
			  freeze->mapped ? "dmsetup resume -u"
					 : "fsfreeze -u on it; device",
			  freeze->note);
}

bool freeze_end(struct freeze *freeze)
{
	bool lasted = true;

	if (!ended_well(freeze, &lasted) && freeze->ours)
		undo_alone(freeze);
	if (freeze->note[0])
		(void)unlinkat(freeze->state_fd, freeze->note, 0);
	fd_close(freeze->socket);
	fd_close(freeze->mount_fd);
	free(freeze);
	return lasted;
}
