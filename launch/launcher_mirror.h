/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mirror of a process's descriptors in a launcher (launch_store.h): of the
 * supervisor of a union, or of trib-nbd. The launcher starts the next process
 * when this one is killed, whatever is killed with it. Without a launcher there
 * is none.
 *
 * A launcher that ended is looked for again, at intervals that are doubled up
 * to LAUNCHER_PAUSE_MAX_MS. A process that goes on for a killed one has its
 * mirror in the launcher that started it. If another one is to have it, that
 * one is looked for in the same way.
 */
#ifndef LAUNCH_LAUNCHER_MIRROR_H
#define LAUNCH_LAUNCHER_MIRROR_H

#include <stdbool.h>
#include <stdint.h>

#include "launch/fd_store_server.h"

#define LAUNCHER_PAUSE_MS     100
#define LAUNCHER_PAUSE_MAX_MS 2000

struct launcher_mirror {
	const char *socket; /* of the launcher, borrowed; NULL: there is none */
	const char **argv;  /* of the next process; owned */
	uint64_t needs;     /* the token without which nobody could go on */
	bool moves;         /* the mirror that is there may be at another one */
	int pause_ms;
	int64_t next_ms; /* when to look for the launcher again */
};

/*
 * Begin.
 *
 * @argv   the command line of the next process, which gets a socket as its
 *         number 3; argv[0] is the name of a program. Copied; its words are
 *         borrowed
 * @needs  nothing is stored before a descriptor of this token is there
 *
 * 0 or -ENOMEM.
 */
int launcher_mirror_init(struct launcher_mirror *mirror,
			 const char *const *argv, uint64_t needs);
void launcher_mirror_done(struct launcher_mirror *mirror);

/* Tell how long until the launcher is to be looked for; ms, -1: it is not. */
int launcher_mirror_wait_ms(const struct launcher_mirror *mirror,
			    const struct fd_store_server *held);

/* Look for the launcher, if it is time, and give it all of @held. */
void launcher_mirror_look(struct launcher_mirror *mirror,
			  struct fd_store_server *held);

#endif
