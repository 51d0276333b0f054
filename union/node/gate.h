/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and moves of files keep out of each other's way. Every request
 * goes through the gate of the node (or two) it names, shared, for as long as
 * it is served. Who moves a file to another branch holds the gates of the file
 * and of the directories it has names in alone, for the moment in which the
 * names and the node change: so no request sees half of that, none looks for
 * a name first where it is not yet and then where it is no more, and none
 * writes to a file that has just been copied.
 *
 * Taken before every other lock. Who holds gates alone waits for no request:
 * it asks nothing of the kernel about the union.
 */
#ifndef UNION_GATE_H
#define UNION_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define GATE_LOCKS       256
#define GATE_PATIENCE_MS 200 /* that a move makes others wait for */

struct gate {
	pthread_rwlock_t locks[GATE_LOCKS]; /* of nodes, by id */

	/* For gate_drain(): who is inside, by the phase in which they came. */
	atomic_uint phase; /* 0 or 1 */
	atomic_uint inside[GATE_LOCKS][2];
	pthread_mutex_t drain;
};

/* The one or two locks of a request; -1: none. */
struct gate_pass {
	int first, second;
	unsigned phase;
};

int gate_init(struct gate *gate); /* 0 or -ENOMEM */
void gate_done(struct gate *gate);

/*
 * The nodes that a request of the kernel names: 0, 1 or 2.
 *
 * @data  the request, or whatever length of it is there
 * @ret   their ids
 */
unsigned gate_request_nodes(const void *data, size_t length, uint64_t ret[2]);

/* Through the gates of those nodes; gate_leave() gives them back. */
struct gate_pass gate_enter(struct gate *gate, const uint64_t *ids,
			    unsigned count);
void gate_leave(struct gate *gate, struct gate_pass pass);

/*
 * Hold the gates of @ids alone. 0, or -EBUSY when the requests in them did
 * not end within GATE_PATIENCE_MS; or -ENOMEM. Then nothing is held.
 */
struct gate_hold {
	struct gate *gate;
	uint64_t held[GATE_LOCKS / 64]; /* bits by lock */
	int first;                      /* of them; it counts as inside there */
	unsigned phase;                 /* of that */
};
int gate_close(struct gate *gate, const uint64_t *ids, size_t count,
	       struct gate_hold *ret);
void gate_open(struct gate_hold *hold); /* what is not held is fine */

/*
 * Wait until every request that is being served now, and every move that holds
 * gates, has ended. Who comes later is neither waited for nor held up. 0 or
 * -EBUSY, after @patience_ms.
 */
int gate_drain(struct gate *gate, int patience_ms);

#endif
