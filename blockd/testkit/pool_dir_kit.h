/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of a dir pool: a pool below $TMPDIR (else in memory), and the
 * content of its files. Its file system decides how copies are made.
 */
#ifndef BLOCKD_POOL_DIR_KIT_H
#define BLOCKD_POOL_DIR_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/size.h"
#include "blockd/pool/pool.h"

#define BLOCK 4096
#define SIZE  (4 * MIB)

struct pool_dir_kit {
	char dir[256];
	struct pool *pool;
	struct pool_record record;
	unsigned found, damaged, notes;
};

/* Of a test; *state is the kit. */
int pool_dir_kit_setup(void **state);
int pool_dir_kit_teardown(void **state);
/* Open a pool that was closed; returns the result of its load(). */
int pool_dir_kit_open(struct pool_dir_kit *k, struct error *err);
/* As after a crash. */
void pool_dir_kit_reopen(struct pool_dir_kit *k);

/* What a new extent's record says. */
struct extent_record pool_dir_kit_record_of(const struct pool_dir_kit *k,
					    const char *name, uint64_t size);
void pool_dir_kit_create(struct pool_dir_kit *k, const char *name,
			 uint64_t size);
/* A copy, larger perhaps, of what is in the pool. */
int pool_dir_kit_copy_to(struct pool_dir_kit *k, const char *from,
			 const char *to, uint64_t size, struct error *err);
int pool_dir_kit_revert_to(struct pool_dir_kit *k, const char *name,
			   const char *from, uint64_t size);
/* "a", "b" and "c", that differ; and a copy of each at once: "a1", ... */
void pool_dir_kit_create_three(struct pool_dir_kit *k);
int pool_dir_kit_copy_three(struct pool_dir_kit *k, pool_copied copied,
			    struct error *err);

/* Its file, for reading and writing; or -1. */
int pool_dir_kit_data_open(struct pool_dir_kit *k, const char *name);
/* @length bytes of @c at @offset; @c 0: a hole. */
void pool_dir_kit_put(struct pool_dir_kit *k, const char *name, char c,
		      uint64_t offset, uint64_t length);
/* Of data that is @size bytes long; returned owned. */
char *pool_dir_kit_content(struct pool_dir_kit *k, const char *name,
			   uint64_t size);
void pool_dir_kit_same_content(struct pool_dir_kit *k, const char *a,
			       const char *b);
/* Files in extents/. */
unsigned pool_dir_kit_files(const struct pool_dir_kit *k);
uint64_t pool_dir_kit_allocated(struct pool_dir_kit *k, const char *name);
/* Does its file system share blocks? */
bool pool_dir_kit_reflinks(const struct pool_dir_kit *k);

#endif
