/* SPDX-License-Identifier: Apache-2.0 */
/* trib-freeze: holds a file system still (blockd/local/freeze.h has why). */
#include <errno.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dm/mapper_call.h"
#include "blockd/local/freeze.h"

#define EXIT_USAGE 2

static const char help[] =
	"usage: " FREEZE_PROGRAM " freeze|thaw|suspend UUID\n"
	"Freeze the file system of descriptor 3, or thaw it. With suspend, suspend\n"
	"the device mapper device, and the file system with it. First write out\n"
	"what that has, and answer. The freeze begins with the first time, in\n"
	"milliseconds, at the socket at standard output. It ends when the socket\n"
	"closes, or when the time last sent is up. blockd runs this program,\n"
	"because the file system must be thawed when blockd is killed. To thaw a\n"
	"file system by hand use fsfreeze(8), for a device dmsetup(8).\n";

/* 0 or a positive errno. */
static void say(int error)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", error);

	/* Nobody may be listening any more. */
	(void)send(STDOUT_FILENO, text, (size_t)n, MSG_NOSIGNAL);
}

static int freeze_fs(unsigned long request)
{
	return ioctl(FREEZE_FD, request, 0) < 0 ? errno : 0;
}

/* A time, when it comes. False: the other side has closed. */
static bool take_message(int64_t *until_ms)
{
	char text[24];
	ssize_t n;

	do
		n = recv(STDOUT_FILENO, text, sizeof(text) - 1, 0);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return false;
	text[n] = '\0';
	*until_ms = clock_ms() + atoll(text);
	return true;
}

static void wait_end(int64_t until_ms)
{
	struct pollfd wait = {.fd = STDOUT_FILENO, .events = POLLIN};

	for (;;) {
		int64_t left = until_ms - clock_ms();

		if (left <= 0)
			return;
		if (poll(&wait, 1, (int)left) > 0 && !take_message(&until_ms))
			return;
	}
}

/* 0 or a positive errno. */
static int device_change(const char *uuid, enum mapper_change change)
{
	const struct mapper_change_request request = {
		.change = change,
		.uuid = uuid,
	};

	return -mapper_call_change(&request, NULL);
}

/* EBUSY: it is suspended already, and a sync would wait for its resume. */
static int device_check(const char *uuid)
{
	struct mapper_device device;
	int r = -mapper_call_get(uuid, &device, NULL);

	return r == 0 && device.suspended ? EBUSY : r;
}

static int device_suspend(const char *uuid)
{
	int r = device_check(uuid);

	return r ? r : device_change(uuid, MAPPER_CHANGE_SUSPEND);
}

static int device_resume(const char *uuid)
{
	struct mapper_device device;
	int r = -mapper_call_get(uuid, &device, NULL);

	if (r == 0 && !device.suspended)
		return ESTALE;
	return r ? r : device_change(uuid, MAPPER_CHANGE_RESUME);
}

/*
 * Write out what the file system has. The less there is to do while frozen.
 */
static int make_ready(const char *uuid)
{
	int r = uuid ? device_check(uuid) : 0;

	if (r == 0)
		(void)syncfs(FREEZE_FD); /* EBADF: nothing is mounted */
	say(r);
	return r;
}

/* @uuid: a device mapper device; NULL: only the file system */
static int hold_still(const char *uuid)
{
	int64_t until_ms;
	int r;

	/* Only SIGKILL may leave it frozen. */
	for (int i = 1; i < NSIG; i++)
		(void)signal(i, SIG_IGN);
	if (make_ready(uuid) != 0)
		return EXIT_FAILURE;
	if (!take_message(&until_ms))
		return EXIT_SUCCESS;
	r = uuid ? device_suspend(uuid) : freeze_fs(FIFREEZE);
	say(r);
	if (r != 0)
		return EXIT_FAILURE;
	wait_end(until_ms);
	r = uuid ? device_resume(uuid) : freeze_fs(FITHAW);
	say(r);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int thaw_stdin(void)
{
	int r = freeze_fs(FITHAW);

	say(r);
	return r == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		(void)fputs(help, stdout);
		return EXIT_SUCCESS;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		(void)puts(FREEZE_PROGRAM " " TRIBUTARY_VERSION);
		return EXIT_SUCCESS;
	}
	if (argc == 2 && strcmp(argv[1], "freeze") == 0)
		return hold_still(NULL);
	if (argc == 3 && strcmp(argv[1], "suspend") == 0)
		return hold_still(argv[2]);
	if (argc == 2 && strcmp(argv[1], "thaw") == 0)
		return thaw_stdin();
	(void)fputs(help, stderr);
	return EXIT_USAGE;
}
