/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher: takes requests of launch_proto.h at a unix socket, from root
 * only, starts the programs and reaps them. One thread; it sleeps while
 * nobody asks and nothing ends.
 */
#ifndef LAUNCH_LAUNCH_SERVER_H
#define LAUNCH_LAUNCH_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

#define LAUNCH_PEERS   16   /* at once; more wait */
#define LAUNCH_PEER_MS 5000 /* for a peer to say what it wants */

struct launch_config {
	const char *socket;  /* at most 107 bytes */
	const char *bin_dir; /* of the programs */
	uid_t uid;           /* who may ask; 0 but in tests */
	int oom_score;       /* of what it starts (base/kernel/oom.h) */
	void (*ready)(void); /* it takes requests from now on; NULL: nothing */
};

/*
 * Serve until SIGTERM or SIGINT (which the caller has not blocked; afterwards
 * they, and SIGCHLD, are). The started programs live on.
 *
 * -EADDRINUSE: another launcher, or something else, is at that path.
 */
int launch_serve(const struct launch_config *config, struct error *err);

#endif
