/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of code that uses a store. Each test has a fresh folder for a local
 * store and, where the tools for it are there, a fake API server. All functions
 * fail by cmocka's assertions.
 *
 *	const struct CMUnitTest tests[] = {SCENE_TEST(a_sentence)};
 *	return cmocka_run_group_tests(tests, scene_prepare, scene_remove);
 */
#ifndef VOLUME_STORE_TEST_KIT_H
#define VOLUME_STORE_TEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <stdbool.h>

#include "volume/record/volume_record.h"
#include "volume/store/store.h"
#include "volume/testkit/kube_test_server.h"

struct scene {
	struct test_server server;
	bool prepared; /* there is a server; else skip() */
	char directory[64];
	char local[96]; /* location of the local store */
};
extern struct scene scene;

int scene_prepare(void **state);
int scene_remove(void **state);
int scene_begin(void **state);
int scene_end(void **state);
#define SCENE_TEST(f) cmocka_unit_test_setup_teardown(f, scene_begin, scene_end)

#define SCENE_PATIENCE_MS 20000
#define scene_wait(condition)                                 \
	do {                                                  \
		for (int ms_ = 0; !(condition); ms_ += 20) {  \
			assert_true(ms_ < SCENE_PATIENCE_MS); \
			(void)poll(NULL, 0, 20);              \
		}                                             \
	} while (0)

/* ---- the fake server's store ---- */

/* As the user @context of its kubeconfig; skips where there is no server. */
struct store *scene_open_as(const char *context);
struct store *scene_open(void); /* who may do everything */

/* ---- records ---- */

/* A volume of one split, on @node. Returned owned. */
struct volume_record *scene_volume(const char *name, const char *node);
int scene_create(struct store *store, struct volume_record *record,
		 struct error *err);
int scene_swap(struct store *store, struct volume_record *record,
	       struct error *err);
int scene_delete(struct store *store, const char *name);
/* Read a record, which must be there. Returned owned. */
struct volume_record *scene_read(struct store *store, const char *name);
/*
 * Check that two records are equal in all but the fields that the store sets.
 * @a gets those fields.
 */
void scene_same(struct volume_record *a, struct volume_record *b);

#endif
