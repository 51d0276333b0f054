/* SPDX-License-Identifier: Apache-2.0 */
/* What blockd/raw/dev/raw_users.c and the requests of blockd/raw/dev/raw_io.h
 * share. */
#ifndef BLOCKD_RAW_USERS_H
#define BLOCKD_RAW_USERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "blockd/raw/dev/raw_dev.h"

/* The part of a request that this file uses; raw_io.h has the rest. */
struct raw_request {
	TAILQ_ENTRY(raw_request) waiting; /* in one of the lists below */
	struct loop *loop;
	struct loop_message again; /* posted when the wait is over */
};

TAILQ_HEAD(raw_request_list, raw_request);

/*
 * Clusters of an object that are becoming written: one that gets one of the
 * pool's by a request, or those that are written ahead.
 */
struct raw_fill {
	LIST_ENTRY(raw_fill) in_users;
	uint32_t object;
	uint64_t cluster, count;
	struct raw_request_list waiting; /* for it to end */
	uint32_t physical;               /* the new one */
	bool taken;      /* it was for this, and is not mapped yet */
	bool partial;    /* it is going to be written in part */
	uint8_t *buffer; /* owned; what is written to a copied cluster */
};

LIST_HEAD(raw_fill_list, raw_fill);

struct raw_users {
	struct raw_store *store;
	char *path;
	unsigned flags;
	void (*broken)(void *context, const struct error *err);
	void (*fault)(void *context);
	int (*open_medium)(void *context, struct loop *loop,
			   struct blockdev **ret, struct error *err);
	void *context;

	_Atomic unsigned phase;
	_Atomic unsigned inside[2]; /* requests, by the phase they entered in */

	pthread_mutex_t lock;  /* guards the rest */
	unsigned devices;      /* that are open */
	pthread_cond_t closed; /* one was */
	pthread_cond_t left;   /* a phase that has ended is empty */
	pthread_cond_t ask;    /* the cleaner has work */
	pthread_cond_t clean;  /* it has done a round */
	pthread_t cleaner;
	bool stopping;
	uint64_t asked, cleaned; /* rounds */
	bool settle;             /* also when nothing leaves */
	bool due;                /* a look at the log, after a round */
	int result;              /* of the last round */
	struct error why;
	struct raw_fill_list fills;
	struct raw_request_list starving; /* for a free cluster */
};

/* A device is opened, is closed. */
void raw_users_join(struct raw_users *users);
void raw_users_part(struct raw_users *users);

unsigned raw_users_enter(struct raw_users *users);
void raw_users_leave(struct raw_users *users, unsigned phase);

/*
 * No cluster could be given to @request, and it has left. It is posted again
 * when the cleaner has done a round.
 */
void raw_users_starve(struct raw_users *users, struct raw_request *request);

/*
 * Find one that has any of @count clusters; NULL: there is none. Lock held.
 */
struct raw_fill *raw_users_find_fill(struct raw_users *users, uint32_t object,
				     uint64_t cluster, uint64_t count);
/* End it: the requests that wait for it look again. */
void raw_users_fill_end(struct raw_users *users, struct raw_fill *fill);

/* Post all of a list, and empty it. */
void raw_requests_again(struct raw_request_list *list);

#endif
