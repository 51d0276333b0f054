/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases on objects (lease_table.h), and heartbeats, both by leases of etcd:
 *
 *	PREFIX/leases/KIND/NAME   an object's lease: {"holder", "doing",
 *	                          "since"}
 *	PREFIX/beats/last/NAME    the last heartbeat: {"holder", "time"}
 *	PREFIX/beats/live/NAME    its holder; it ends STORE_BEAT_LOST_S after
 *	                          the last heartbeat
 *
 * Etcd counts the time by its own clock, and starts again when another member
 * leads: a lease never ends too early. Our clocks say since when, and decide
 * nothing.
 */
#ifndef VOLUME_ETCD_LEASE_H
#define VOLUME_ETCD_LEASE_H

#include <pthread.h>

#include "base/error.h"
#include "volume/store/etcd/etcd_call.h"
#include "volume/store/lease_table.h"
#include "volume/store/lease_who.h"
#include "volume/store/store.h"

struct etcd_leases {
	struct etcd_api *api; /* borrowed */
	struct lease_who us;
	struct lease_table *table;
};

int etcd_leases_init(struct etcd_leases *leases, struct etcd_api *api,
		     struct error *err);
void etcd_leases_done(struct etcd_leases *leases);

/* "KIND/NAME", the lease's name in the table. -EINVAL: no name. */
int etcd_lease_name(const char *kind, const char *name, char *ret,
		    struct error *err);
/*
 * Make @txn fail when this process took the lease on the object and another
 * has it now. 0: nothing is held, @ret_revision is 0. -ESTALE: it is known to
 * be lost.
 *
 * @ret_key  ETCD_KEY_SIZE bytes: the lease's key, which @txn then reads
 */
int etcd_lease_fence(struct etcd_leases *leases, const char *kind,
		     const char *name, struct json_object *txn, char *ret_key,
		     int64_t *ret_revision, struct error *err);

struct etcd_beats {
	struct etcd_api *api; /* borrowed */
	char holder[LEASE_MACHINE_SIZE];
	pthread_mutex_t lock; /* guards what follows, and one beat at a time */
	char name[RECORD_NAME_SIZE]; /* of the last; "": none */
	int64_t lease;
};

int etcd_beats_init(struct etcd_beats *beats, struct etcd_api *api,
		    struct error *err);
void etcd_beats_done(struct etcd_beats *beats);
/* As struct store_ops has them. */
int etcd_beat_send(struct etcd_beats *beats, const char *name,
		   struct error *err);
int etcd_beat_end(struct etcd_beats *beats, const char *name,
		  struct error *err);
int etcd_beat_list(struct etcd_beats *beats, struct store_beat **ret,
		   size_t *ret_count, struct error *err);

#endif
