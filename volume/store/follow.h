/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watch of a store behind a network: list, then the stream of changes from
 * there on. A stream that is cut is resumed there. Objects are listed again
 * when the server forgot that moment. A server that stumbles, or says to slow
 * down, is given the time. Inside watches only.
 */
#ifndef VOLUME_FOLLOW_H
#define VOLUME_FOLLOW_H

#include "volume/store/store.h"
#include "volume/store/watch_diff.h"

struct follow {
	/*
	 * Report all objects by follow_set(), and set @version to their moment.
	 * Errors as of @stream.
	 */
	int (*list)(struct follow *follow, struct error *err);
	/*
	 * Report changes from @version on, and set it, until the stream ends.
	 * -ESTALE: the server forgot that moment. -EHOSTUNREACH: go on at
	 * @version later. -ECANCELED: @stop_fd.
	 */
	int (*stream)(struct follow *follow, struct error *err);
	int stop_fd;
	struct watch_diff known; /* with the watcher and its context */
	char version[RECORD_VERSION_SIZE]; /* to go on from; "": list first */
	int64_t after_s; /* the stream's Retry-After; -1: none */

	/* follow.c's own; zero-initialise */
	int verdict;       /* of the watcher; not 0: it ends with that */
	unsigned failures; /* since a stream was good */
	bool listed;       /* at least once */
	bool cut;          /* the watcher was told of that */
	int64_t pause_ms;
};

/* An object is there, as watch_diff_set(); or gone. */
int follow_set(struct follow *follow, const struct store_object *object,
	       struct error *err);
int follow_drop(struct follow *follow, const char *name);
/* The stream said something, so the server is well. */
void follow_well(struct follow *follow);

/* As the watch of struct store_ops. Frees what is in @follow. */
int follow_run(struct follow *follow, struct error *err);

#endif
