/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets: addresses in text, and a loop that accepts. */
#ifndef TARGET_LISTENER_H
#define TARGET_LISTENER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/loop/loop.h"
#include "target/net/peer.h"

struct listener {
	struct listener *next; /* the owner's */
	struct loop *loop;
	int fd;
	char *unix_path; /* owned; NULL for TCP */
	struct op accept_op;
	struct loop_timer pause; /* after an error, not to spin */
	bool closing;
	/* On the loop. Takes @fd. */
	void (*accepted)(struct listener *listener, int fd,
			 const struct peer_address *peer);
	/* On the loop, after listener_close(): nothing is in flight. */
	void (*closed)(struct listener *listener);
	void *context; /* the owner's */
};

/*
 * Bind and listen at "tcp:HOST:PORT" ("tcp:[::]:10809"; an empty HOST means
 * every address) or "unix:PATH". Any thread.
 *
 * @ret_fd    owned
 * @ret_port  the port bound, 0 for a unix socket; may be NULL
 * @ret_path  owned; NULL for TCP
 *
 * -EINVAL: not such an address. -EADDRINUSE: somebody listens there.
 */
int listener_open(const char *address, int *ret_fd, int *ret_port,
		  char **ret_path, struct error *err);

/* On the loop; @loop, @fd, accepted and closed are set. */
void listener_start(struct listener *listener);

/* On the loop: stop; a unix socket's name goes. closed() follows. */
void listener_close(struct listener *listener);

#endif
