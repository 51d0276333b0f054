/* SPDX-License-Identifier: Apache-2.0 */
#include "union/migrate/nudge.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"

#define READY_MS     1000
#define AGAIN_MS     1000 /* from one that ended to the next */
#define SOCKET       3    /* as process_start() passes it */
#define PROGRAM      "/proc/self/exe"
#define HANDLE_TYPE  0x81 /* FILEID_INO64_GEN; fuse_encode_fh() */
#define HANDLE_BYTES 12
#define MOUNT_FLAGS  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int start_nudge(struct nudge *nudge, const char *mountpoint,
		       struct error *err)
{
	const char *const argv[] = {"trib-nudge", NUDGE_WORD, mountpoint, NULL};
	auto_close int ours = -1, its = -1;
	struct pollfd ready;
	int pair[2];
	pid_t pid;
	int r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, errno, "%s", strerror(errno));
	ours = pair[0];
	its = pair[1];
	r = process_start_file(PROGRAM, argv, -1, its, &pid, err);
	if (r < 0)
		return r;
	nudge->pid = (int)pid;
	nudge->asked = true;
	ready = (struct pollfd){.fd = ours, .events = POLLIN};
	fd_close(take_fd(&its));
	(void)poll(&ready, 1, READY_MS); /* else it says so later */
	nudge->socket = 1 + take_fd(&ours);
	return 0;
}

/* Note an end of the process: 0 bytes are the end of a connection. */
static void take_loss(struct nudge *nudge, ssize_t n)
{
	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	fd_close(nudge->socket - 1);
	/* If the process is not gone yet, somebody else waits for it. */
	(void)waitpid(nudge->pid, NULL, WNOHANG);
	nudge->socket = 0;
	nudge->asked = false;
	nudge->lost++;
}

void nudge_start(struct nudge *nudge, const char *mountpoint)
{
	struct error err = {0};
	char answer;

	if (nudge->socket > 0)
		take_loss(nudge, recv(nudge->socket - 1, &answer, 1,
				      MSG_DONTWAIT | MSG_PEEK));
	if (nudge->socket || clock_ms() < nudge->next_ms)
		return;
	nudge->next_ms = clock_ms() + AGAIN_MS;
	if (start_nudge(nudge, mountpoint, &err) == 0)
		return;
	nudge->socket = -1;
	log_warning("'%s': fast writers to a branch that is nearly full will "
		    "not wait for room: %s",
		    mountpoint, error_text(&err));
}

bool nudge_is_done(struct nudge *nudge)
{
	char answer;
	ssize_t n;

	if (nudge->socket > 0 && nudge->asked) {
		n = recv(nudge->socket - 1, &answer, 1, MSG_DONTWAIT);
		nudge->asked = n != 1;
		take_loss(nudge, n);
	}
	return nudge->socket > 0 && !nudge->asked;
}

bool nudge_files(struct nudge *nudge, const struct nudge_file *files,
		 unsigned count)
{
	ssize_t n;

	if (!nudge_is_done(nudge))
		return false;
	n = send(nudge->socket - 1, files, count * sizeof(*files),
		 MSG_DONTWAIT | MSG_NOSIGNAL);
	nudge->asked = n > 0;
	take_loss(nudge, n);
	return n > 0;
}

void nudge_end(struct nudge *nudge)
{
	if (nudge->socket <= 0)
		return;
	fd_close(nudge->socket - 1);
	/* The process ends by itself; somebody else waits for a late one. */
	(void)waitpid(nudge->pid, NULL, WNOHANG);
	memset(nudge, 0, sizeof(*nudge));
}

/* Ask for @file if it can be opened: it may be gone. */
static void ask_event(int mount, const struct nudge_file *file)
{
	_Alignas(struct file_handle) char
		buf[sizeof(struct file_handle) + HANDLE_BYTES];
	struct file_handle *handle = (struct file_handle *)buf;
	const uint32_t words[] = {(uint32_t)(file->node >> 32),
				  (uint32_t)file->node, file->generation};
	const struct timespec times[] = {{.tv_sec = NUDGE_SECONDS},
					 {.tv_nsec = UTIME_OMIT}};
	auto_close int fd = -1;

	handle->handle_bytes = HANDLE_BYTES;
	handle->handle_type = HANDLE_TYPE;
	memcpy(handle->f_handle, words, sizeof(words));
	fd = open_by_handle_at(mount, handle, O_PATH | O_CLOEXEC);
	if (fd >= 0) /* the asking counts */
		(void)utimensat(fd, "", times, AT_EMPTY_PATH);
}

int nudge_main(const char *mountpoint)
{
	struct nudge_file files[NUDGE_MAX];
	size_t i, count;
	ssize_t n;

	while (send(SOCKET, "", 1, MSG_NOSIGNAL) == 1 &&
	       (n = recv(SOCKET, files, sizeof(files), 0)) > 0) {
		/* Not kept: that would keep the union mounted. */
		auto_close int mount = open(mountpoint, MOUNT_FLAGS);

		count = (size_t)n / sizeof(*files);
		for (i = 0; mount >= 0 && i < count; i++)
			ask_event(mount, &files[i]);
	}
	return 0;
}
