/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The duties of every store: one set of tests over the ops table. Only tests
 * include this.
 */
#ifndef VOLUME_STORE_CONFORMANCE_H
#define VOLUME_STORE_CONFORMANCE_H

/*
 * Run all of it against the store at @location, which starts empty. The
 * calling program is started again as children (other processes that use the
 * same store); it gives main()'s arguments to store_conformance_child()
 * first. Fails by cmocka's assertions.
 */
void store_conformance(const char *location);

/*
 * A watcher of volumes, in a thread, with a store of its own. The test fails
 * when a version is told twice.
 */
struct watching;

struct watching *watching_start(const char *location);
/*
 * Wait until the watcher has been told exactly these "NAME=VERSION" words,
 * sorted.
 */
void watching_wait(struct watching *watching, const char *words);
/* Return how often the watcher was told that the store is out of reach. */
unsigned watching_cuts(struct watching *watching);
/*
 * Wait until the watcher was told once more, since the last call, that it knows
 * all.
 */
void watching_wait_synced(struct watching *watching);
void watching_stop(struct watching *watching);

/* The exit code when the arguments are a child's, else -1. */
int store_conformance_child(int argc, char **argv);

#endif
