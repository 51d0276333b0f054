/* SPDX-License-Identifier: Apache-2.0 */
/* A supervisor: what supervisor*.c share. */
#ifndef UNION_SUPERVISOR_STATE_H
#define UNION_SUPERVISOR_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launch/fd_store_server.h"
#include "launch/launcher_mirror.h"
#include "union/supervisor/restart_backoff.h"
#include "union/supervisor/stuck_servers.h"

/* Tokens of what only the next supervisor is given. */
#define STORED_SERVER (FD_STORE_PRIVATE + 0) /* a pidfd */
#define STORED_SOCKET (FD_STORE_PRIVATE + 1) /* our end, with its messages */
#define STORED_DEVICE (FD_STORE_PRIVATE + 2) /* a memfd: struct device */

/* The device number of what a server has mounted. */
struct device {
	uint32_t major, minor;
	bool known;
};

struct supervisor {
	const char **argv;
	char *mountpoint; /* absolute */
	void (*ready)(void *context);
	void *context;
	struct fd_store_server held;
	struct launcher_mirror launcher;
	struct stuck_servers dying;
	int signals;
	bool ending;          /* somebody asked for it */
	bool replaced;        /* by us: somebody asked for another server */
	bool told;            /* @ready was called */
	bool mounts;          /* a server has mounted, or was about to */
	struct device device; /* @known false: its number is not */
	bool own;             /* the next server is OWN_PROGRAM */
	struct restart_backoff pace;
	int pause_ms, oom_score; /* the last; of servers */
	/* Of the server: */
	pid_t pid;
	int pidfd, socket;
	int death_pipe; /* -1: none */
	bool ends;      /* the death pipe says so */
	int64_t started_ms;
	int64_t serves_since_ms; /* -1: the server does not serve */
	bool said;               /* that a descriptor is not kept was logged */
	int error; /* why it does not serve, as it said; 0: it did not say */
	char failure[ERROR_TEXT_MAX];
};

/* Store a copy of @fd for the next supervisor alone. 0 or -errno. */
int supervisor_store_copy(struct supervisor *h, uint64_t token, int fd);

/*
 * Store what the next supervisor has to know of the server. The server is known
 * there before it begins, so no two servers are ever at work.
 */
int supervisor_store_server(struct supervisor *h, struct error *err);
void supervisor_forget_server(struct supervisor *h);

/*
 * Take the server that a killed supervisor has left, and kill it. Then it is
 * watched as ours. False: there is none.
 */
bool supervisor_take_left(struct supervisor *h);

/* Note the device of the union, which has just been mounted. */
void supervisor_note_device(struct supervisor *h);

/* Know the device of the union as a killed supervisor noted it. */
void supervisor_take_device(struct supervisor *h);

/* Is the union still mounted? Nothing else tells of the end. */
bool supervisor_is_connected(const struct supervisor *h);

/* End the union: the kernel answers the requests that wait. */
void supervisor_let_go(struct supervisor *h);

#endif
