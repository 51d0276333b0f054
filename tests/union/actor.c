/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/actor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

static const struct {
	uid_t uid;
	gid_t gid;
	gid_t groups[2];
} users[OP_ACTORS] = {
	{0, 0, {0, 0}},
	{1000, 1000, {1000, 3000}},
	{2000, 1000, {1000, 1000}},
	{3000, 3000, {3000, 2000}},
};

static const char *const fault_names[FAULTS] = {
	"none",  "errno",  "data",   "mode",   "lost", "time",  "xattr",
	"owner", "rename", "absent", "broken", "kept", "quota",
};

const char *fault_name(enum fault fault)
{
	return fault_names[fault];
}

/* The errors that are told wrongly: this one, as that. */
static const char *const errors[FAULTS][2] = {
	[FAULT_ERRNO] = {" EEXIST", " ENOENT"},
	[FAULT_ABSENT] = {" EIO", " ENOENT"},
	[FAULT_BROKEN] = {" ENOENT", " EIO"},
	[FAULT_KEPT] = {" EPERM", " 0"},
};

/* The call that is done wrong; false: as it is. */
static bool change(enum fault fault, struct op *op)
{
	static const enum op_kind kinds[FAULTS] = {
		[FAULT_DATA] = OP_WRITE,     [FAULT_MODE] = OP_CHMOD,
		[FAULT_LOST] = OP_UNLINK,    [FAULT_TIME] = OP_UTIMENS,
		[FAULT_XATTR] = OP_SETXATTR, [FAULT_OWNER] = OP_CHOWN,
		[FAULT_RENAME] = OP_RENAME,
	};

	if (fault == FAULT_NONE || errors[fault][0] || op->kind != kinds[fault])
		return false;
	switch (fault) {
	case FAULT_DATA: op->seed ^= 1; break;
	case FAULT_MODE: op->mode ^= 040; break;
	case FAULT_RENAME: op->kind = OP_LINK; break;
	case FAULT_TIME: op->nanoseconds[0] = op->nanoseconds[1] = 7; break;
	case FAULT_LOST: op->kind = OP_ACCESS; break;
	case FAULT_XATTR: op->seed ^= 1; break;
	case FAULT_OWNER: op->uid = op->gid = -1; break;
	default: return false;
	}
	op->watch = false;
	return true;
}

static void do_with_fault(enum fault fault, struct op *op, int *fds, char *text)
{
	struct op wrong = *op;

	if (!change(fault, &wrong)) {
		op_do(op, fds, text);
		if (errors[fault][0] && strcmp(text, errors[fault][0]) == 0)
			strcpy(text, errors[fault][1]);
		return;
	}
	op_do(&wrong, fds, text);
}

/* CAP_SYS_RESOURCE is no capability of these. */
static int obey_quotas(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return -1;
	data[0].effective &= ~(UINT32_C(1) << CAP_SYS_RESOURCE);
	data[0].permitted &= ~(UINT32_C(1) << CAP_SYS_RESOURCE);
	return (int)syscall(SYS_capset, &header, data);
}

static void become(unsigned number, const char *root, bool obeys)
{
	if ((obeys && obey_quotas() < 0) || chroot(root) < 0 ||
	    chdir("/") < 0 || setgroups(2, users[number].groups) < 0 ||
	    setresgid(users[number].gid, users[number].gid, users[number].gid) <
		    0 ||
	    setresuid(users[number].uid, users[number].uid, users[number].uid) <
		    0)
		abort();
}

static void act(int socket, enum fault fault)
{
	static char text[OP_TEXT_MAX];
	int fds[OP_SLOTS], i;
	struct op op;

	for (i = 0; i < OP_SLOTS; i++)
		fds[i] = -1;
	(void)umask(022);
	while (recv(socket, &op, sizeof(op), 0) == sizeof(op)) {
		do_with_fault(fault, &op, fds, text);
		if (send(socket, text, strlen(text) + 1, 0) < 0)
			break;
	}
	_exit(0);
}

void actor_start(struct actor *actor, unsigned number, const char *root,
		 enum fault fault)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	actor->pid = fork();
	if (actor->pid < 0)
		abort();
	if (actor->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)close(pair[0]);
		(void)signal(SIGXFSZ, SIG_IGN);
		become(number, root, fault != FAULT_QUOTA);
		act(pair[1], fault);
	}
	(void)close(pair[1]);
	actor->socket = pair[0];
}

int actor_do(const struct actor *actor, const struct op *op, char *text)
{
	struct pollfd wait = {.fd = actor->socket, .events = POLLIN};
	ssize_t n;
	int r;

	if (send(actor->socket, op, sizeof(*op), MSG_NOSIGNAL) < 0)
		return -EPIPE;
	r = poll(&wait, 1, ACTOR_PATIENCE_MS);
	if (r <= 0)
		return -ETIMEDOUT;
	n = recv(actor->socket, text, OP_TEXT_MAX, 0);
	return n > 0 ? 0 : -EPIPE;
}

void actor_stop(struct actor *actor)
{
	fd_close(actor->socket);
	(void)kill(actor->pid, SIGKILL);
	(void)waitpid(actor->pid, NULL, 0); /* is our child */
}
