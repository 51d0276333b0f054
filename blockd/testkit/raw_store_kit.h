/* SPDX-License-Identifier: Apache-2.0 */
/* A store on a medium in memory, for tests: changed at random, or as asked. */
#ifndef BLOCKD_RAW_STORE_KIT_H
#define BLOCKD_RAW_STORE_KIT_H

#include "blockd/testkit/power_kit.h"
#include "blockd/testkit/power_states.h"

#define MEDIUM  (UINT64_C(10) << 20)
#define SMALL   (MEDIUM - (UINT64_C(2) << 20)) /* what it grows from */
#define OBJECTS 8
#define LENGTH  40 /* clusters of an object */

struct run {
	struct power power;
	struct raw_store *store;
	unsigned random;
	struct power_states states;
	struct error err;
};

void run_init(struct run *run);
void run_open(struct run *run);
void run_done(struct run *run);
/* Of opening it beside; it is closed again. */
int run_open_result(struct run *run);

/* The test has failed when @r is an error. */
void run_must(struct run *run, int r, const char *what);
void run_change(struct run *run, const struct raw_record *records, size_t n);
bool run_exists(struct run *run, uint32_t id);
/* With the clusters of @from; 0: none. */
void run_make_object(struct run *run, uint32_t id, uint32_t from);
/* Any change, commit or checkpoint. */
void run_step(struct run *run);

#endif
