/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tests of the flows of volume/snapshot/snapshot.h share: two nodes that
 * keep numbers, volumes of one extent on each, and what is there of them. All
 * of it asserts; results are those of the flow itself, which is told when it
 * fails.
 */
#ifndef TESTS_SNAPSHOT_KIT_H
#define TESTS_SNAPSHOT_KIT_H

#include "csi/testkit/fake_node.h"
#include "volume/snapshot/snapshot.h"

#define KIT_NODES 2

struct kit {
	char dir[64];
	char store[96];
	struct volume_context *volumes;
	struct fake_node nodes[KIT_NODES]; /* "h0" and "h1", 1 GiB each */
};

/* For cmocka: *state is a struct kit. */
int kit_begin(void **state);
int kit_end(void **state);
#define KIT_TEST(f) cmocka_unit_test_setup_teardown(f, kit_begin, kit_end)

/* How many both nodes have. */
size_t kit_extents(struct kit *t);

/* @size bytes, one extent on each node; or of @source (NULL: empty). */
int kit_make(struct kit *t, const char *name, uint64_t size,
	     const struct volume_source *source);
/* Volume @name of the volume or snapshot @from; @size 0: as large as that. */
int kit_make_from(struct kit *t, enum volume_source_kind kind, const char *from,
		  const char *name, uint64_t size);
int kit_snapshot(struct kit *t, const char *name, const char *volume);
/* Of the volumes "w" and "v". */
int kit_group(struct kit *t, const char *name);

struct fake_node *kit_node_of(struct kit *t, const char *name);

/* The number that a snapshot's split holds; that of a volume's split @index. */
uint64_t kit_held(struct kit *t, const struct snapshot_split *split);
uint64_t kit_content(struct kit *t, const char *volume, unsigned index);
void kit_write_split(struct kit *t, const char *volume, unsigned index,
		     uint64_t value);

/* The snapshot @name's record, owned by the caller. */
struct snapshot_record *kit_load(struct kit *t, const char *name);
bool kit_there(struct kit *t, const char *name);

/*
 * Call volume_call_main, which is killed at step @n. Its last arguments may be
 * NULL. Returns false when it came to its end.
 */
bool kit_killed(struct kit *t, unsigned n, const char *command,
		const char *first, const char *second, const char *third);

/* There are @n extents, and none of them is an orphan. */
void kit_only(struct kit *t, size_t n);

#endif
