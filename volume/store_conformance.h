/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every store has to do: one set of tests over the ops table. Only
 * tests include this.
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

/* The exit code when the arguments are a child's, else -1. */
int store_conformance_child(int argc, char **argv);

#endif
