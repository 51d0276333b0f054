/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the layers above the pools: a node with one pool "a", a dir pool
 * whose way of copying the test sets.
 */
#ifndef BLOCKD_CUT_KIT_H
#define BLOCKD_CUT_KIT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "blockd/copy/extent_cut.h"
#include "blockd/node/node.h"

#define KIT_CAPACITY (UINT64_C(64) << 20) /* bytes, of the pool */
#define CUT          "01234567-89ab-4cde-8f01-23456789abcd"
#define CUT_2        "11234567-89ab-4cde-8f01-23456789abcd"
#define HOLD         "21234567-89ab-4cde-8f01-23456789abcd"

struct kit {
	char dir[64];
	struct node *node;
};

/* What the pool is to do. */
extern enum pool_copy_method kit_method;
extern atomic_bool kit_copy_waits; /* until it is false, or it is stopped */
extern int kit_copy_takes_ms;
extern size_t kit_copy_fails_at; /* 0: never; 1: at the first */
/* Extents have devices that are to be held; how many are prepared for that: */
extern bool kit_has_device;
extern atomic_int kit_holds, kit_held; /* now; in all */
extern atomic_int kit_suspended;       /* of those, now */
/* Of the next calls. */
extern int kit_hold_result, kit_release_result;

/* Of cmocka. */
int kit_setup(void **state);
int kit_teardown(void **state);

void kit_restart(struct kit *k);
void kit_pause_ms(int ms);

struct extent *kit_find(struct kit *k, const char *name); /* NULL: none */
bool kit_is_there(struct kit *k, const char *name);
uint64_t kit_reserved(struct kit *k);

/* @source NULL: of zeroes. */
int kit_create_from(struct kit *k, const char *name, uint64_t size,
		    const char *source, struct error *err);
void kit_create(struct kit *k, const char *name); /* 4 MiB */
int kit_remove(struct kit *k, const char *name);

/* Put @length bytes of @byte at the start of its data. */
void kit_fill(struct kit *k, const char *name, char byte, size_t length);
char kit_first_byte(struct kit *k, const char *name);

/* Snapshots "s-NAME" of extents, up to 8. */
int kit_cut(struct kit *k, const char *id, const char *hold,
	    const char *const *extents, size_t n, struct error *err);
int kit_cut_x(struct kit *k, struct error *err);

#endif
