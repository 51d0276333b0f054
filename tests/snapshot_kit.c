/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/snapshot_kit.h"

#include "base/process.h"
#include "base/size.h"

int kit_begin(void **state)
{
	struct kit *t = calloc(1, sizeof(*t));
	struct volume_config config = {0};
	char name[8];

	(void)strcpy(t->dir, "/tmp/trib-snapshot-XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	(void)snprintf(t->store, sizeof(t->store), "local:%s/db", t->dir);
	config.store = t->store;
	config.node = "here";
	config.run_dir = t->dir;
	assert_int_equal(volume_context_open(&config, &t->volumes, NULL), 0);
	for (int i = 0; i < KIT_NODES; i++) {
		(void)snprintf(name, sizeof(name), "h%d", i);
		fake_node_start(&t->nodes[i], t->dir, name, GIB, t->volumes);
	}
	*state = t;
	return 0;
}

int kit_end(void **state)
{
	struct kit *t = *state;
	const char *const argv[] = {"rm", "-rf", t->dir, NULL};
	struct process_result result;

	for (int i = 0; i < KIT_NODES; i++)
		fake_node_stop(&t->nodes[i]);
	volume_context_close(t->volumes);
	if (process_run(argv, NULL, -1, -1, &result, NULL) == 0)
		process_result_done(&result);
	free(t);
	return 0;
}

size_t kit_extents(struct kit *t)
{
	return fake_node_extents(&t->nodes[0]) +
	       fake_node_extents(&t->nodes[1]);
}

/* Make a volume of one extent on each node. */
int kit_make(struct kit *t, const char *name, uint64_t size,
	     const struct volume_source *source)
{
	struct volume_spec spec = {.capacity = size,
				   .min_splits = source ? 0 : 2};
	const struct volume_create_request request = {.name = name,
						      .spec = &spec};
	struct error err = {0};
	int r;

	if (source)
		spec.source = *source;
	r = volume_create(t->volumes, &request, NULL, &err);
	if (r < 0)
		print_message("# %s\n", error_text(&err));
	return r;
}

int kit_make_from(struct kit *t, enum volume_source_kind kind, const char *from,
		  const char *name, uint64_t size)
{
	struct volume_source source = {.kind = kind};

	(void)snprintf(source.name, sizeof(source.name), "%s", from);
	return kit_make(t, name, size, &source);
}

int kit_snapshot(struct kit *t, const char *name, const char *volume)
{
	const struct snapshot_create_request request = {.name = name,
							.volume = volume};
	struct error err = {0};
	int r = volume_snapshot_create(t->volumes, &request, NULL, &err);

	if (r < 0)
		print_message("# %s\n", error_text(&err));
	return r;
}

int kit_group(struct kit *t, const char *name)
{
	const char *const volumes[] = {"w", "v"};
	const struct group_create_request request = {
		.name = name, .volumes = volumes, .n_volumes = 2};
	struct error err = {0};
	int r = volume_group_create(t->volumes, &request, NULL, &err);

	if (r < 0)
		print_message("# %s\n", error_text(&err));
	return r;
}

struct fake_node *kit_node_of(struct kit *t, const char *name)
{
	return &t->nodes[strcmp(name, "h1") == 0];
}

/* Return the number that a snapshot's split holds. */
uint64_t kit_held(struct kit *t, const struct snapshot_split *split)
{
	struct fake_extent e;

	assert_true(
		fake_node_look(kit_node_of(t, split->node), split->extent, &e));
	assert_true(e.snapshot);
	return e.content;
}

uint64_t kit_content(struct kit *t, const char *volume, unsigned index)
{
	struct volume_record *record = NULL;
	struct fake_extent e;

	assert_int_equal(volume_get(t->volumes, volume, &record, NULL), 0);
	assert_true(index < record->n_splits);
	assert_true(fake_node_look(kit_node_of(t, record->splits[index].node),
				   record->splits[index].extent, &e));
	volume_record_free(record);
	return e.content;
}

void kit_write_split(struct kit *t, const char *volume, unsigned index,
		     uint64_t value)
{
	struct volume_record *record = NULL;

	assert_int_equal(volume_get(t->volumes, volume, &record, NULL), 0);
	fake_node_write(kit_node_of(t, record->splits[index].node),
			record->splits[index].extent, value);
	volume_record_free(record);
}

struct snapshot_record *kit_load(struct kit *t, const char *name)
{
	struct snapshot_record *record = NULL;

	assert_int_equal(volume_snapshot_get(t->volumes, name, &record, NULL),
			 0);
	return record;
}

bool kit_there(struct kit *t, const char *name)
{
	struct snapshot_record *record = NULL;
	int r = volume_snapshot_get(t->volumes, name, &record, NULL);

	snapshot_record_free(record);
	return r == 0;
}

/* Nothing but the extents of v (and w). */
void kit_only(struct kit *t, size_t n)
{
	struct orphan *orphans = NULL;
	size_t found = 0, silent = 0;

	assert_int_equal(kit_extents(t), n);
	assert_int_equal(
		volume_orphans(t->volumes, &orphans, &found, &silent, NULL), 0);
	for (size_t i = 0; i < found; i++)
		print_message("# orphan %s: %s\n", orphans[i].name,
			      orphans[i].message);
	assert_int_equal(found, 0);
	free(orphans);
}

/* @ret: PATH_MAX bytes. */
static void find_volume_call(char *ret)
{
	ssize_t length = readlink("/proc/self/exe", ret, PATH_MAX - 64);

	assert_true(length > 0);
	ret[length] = '\0';
	*strrchr(ret, '/') = '\0';
	(void)strcpy(strrchr(ret, '/'), "/volume/testkit/volume_call_main");
}

/* The time of its holds is up. */
static void end_holds(struct kit *t)
{
	for (int i = 0; i < KIT_NODES; i++) {
		pthread_mutex_lock(&t->nodes[i].lock);
		t->nodes[i].hold[0] = '\0';
		pthread_mutex_unlock(&t->nodes[i].lock);
	}
}

bool kit_killed(struct kit *t, unsigned n, const char *command,
		const char *first, const char *second, const char *third)
{
	char program[PATH_MAX], at[16];
	const char *const argv[] = {program, t->store, "here", t->dir,
				    t->dir,  command,  at,     first,
				    second,  third,    NULL};
	struct process_result result;
	bool dead;

	find_volume_call(program);
	(void)snprintf(at, sizeof(at), "kill=%u", n);
	assert_int_equal(process_run(argv, NULL, -1, -1, &result, NULL), 0);
	dead = result.exit_code != 0;
	if (dead && result.exit_code < 128)
		print_message("# %s\n", result.errors);
	assert_true(!dead || result.exit_code >= 128);
	process_result_done(&result);
	end_holds(t);
	return dead;
}
