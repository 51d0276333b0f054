/* SPDX-License-Identifier: Apache-2.0 */
/* Raw pools, for blockd/testkit/model_kit.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blockd/testkit/model_kit.h"

static void raw_make(struct run *run)
{
	const struct pool_record record = {.name = "test",
					   .kind = POOL_RAW_KIND,
					   .id = POOL_ID,
					   .incarnation = POOL_ID,
					   .overcommit_percent = 100};
	struct raw_format_options options = {
		.pool_id = POOL_ID, .cluster_shift = RAW_CLUSTER_SHIFT_MIN};
	struct raw_file_medium file;
	auto_close int fd = -1;
	char *text = NULL;

	/* In memory, where it can be: nothing is flushed to a disk. */
	(void)snprintf(run->path, sizeof(run->path), "%.40s/raw-model.XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm"
						     : getenv("TMPDIR")
							       ?: "/tmp");
	fd = mkstemp(run->path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)MEDIUM_BYTES), 0);
	MUST(run, pool_record_encode(&record, &text, &options.text_length,
				     &run->err));
	options.text = text;
	raw_file_medium_init(&file, fd, MEDIUM_BYTES);
	MUST(run, raw_store_format(&file.medium, &options, &run->err));
	free(text);
}

static int raw_open(struct run *run)
{
	return pool_raw_open(run->path, "test", POOL_ID, &run->pool, &run->err);
}

static void raw_verify(struct run *run)
{
	MUST(run,
	     raw_state_verify(raw_store_lock(pool_raw_of(run->pool)->store),
			      &run->err));
	raw_store_unlock(pool_raw_of(run->pool)->store);
}

/* The bytes of the medium as they are now. */
static void copy_medium(const char *from, const char *to)
{
	auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
	auto_close int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
				  0600);
	char *data = malloc(1 << 20);
	ssize_t n;

	assert_true(in >= 0 && out >= 0 && data);
	while ((n = read(in, data, 1 << 20)) > 0)
		assert_int_equal(write(out, data, (size_t)n), n);
	assert_int_equal(n, 0);
	free(data);
}

static void raw_kill(struct run *run)
{
	char kept[sizeof(run->path) + 8];

	(void)snprintf(kept, sizeof(kept), "%s.kept", run->path);
	copy_medium(run->path, kept);
	pool_close(run->pool);
	assert_int_equal(rename(kept, run->path), 0);
}

static void raw_remove(struct run *run)
{
	(void)unlink(run->path);
}

const struct model_kind model_raw = {
	.exact = true,
	.make = raw_make,
	.open = raw_open,
	.verify = raw_verify,
	.kill = raw_kill,
	.remove = raw_remove,
};

/* ---- what they have in common ---- */

/*
 * Return the numbers of snapshots; an object that is none, or is going, is an
 * extent.
 */
static void find_snapshots(struct run *run, uint32_t *ids)
{
	for (size_t i = 0; i < OBJECTS; i++) {
		const struct object *object = &run->objects[i];

		ids[i] = model_is_there(object) && model_is_snapshot(object)
				 ? pool_raw_find(pool_raw_of(run->pool),
						 object->record.name, NULL)
				 : 0;
	}
}

static bool is_one_of(const uint32_t *ids, uint32_t id)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* The clusters of one, into how many have each; or are extents. */
static void add_clusters(struct run *run, uint32_t id, bool kept,
			 unsigned *users, unsigned *keepers)
{
	struct raw_store *store = pool_raw_of(run->pool)->store;
	const struct raw_object *object = raw_state_object(
		raw_store_lock(store), id);
	const struct raw_map *map = object ? &object->map : NULL;

	for (uint64_t i = 0; map && i < raw_map_clusters(map); i++) {
		uint32_t entry = raw_map_get(map, i);

		if (entry == RAW_HOLE)
			continue;
		users[RAW_PHYSICAL(entry)]++;
		keepers[RAW_PHYSICAL(entry)] += kept;
	}
	raw_store_unlock(store);
}

void model_check_sharing(struct run *run)
{
	struct raw_store *store = pool_raw_of(run->pool)->store;
	const struct raw_state *state = raw_store_lock(store);
	const uint32_t clusters = state->alloc.clusters, ids = state->n_slots;
	unsigned *users = calloc(clusters, sizeof(*users));
	unsigned *keepers = calloc(clusters, sizeof(*keepers));
	struct pool_sharing sharing, right = {0};
	uint32_t snapshots[OBJECTS];

	raw_store_unlock(store);
	find_snapshots(run, snapshots);
	assert_true(users && keepers);
	for (uint32_t id = 1; id <= ids; id++)
		add_clusters(run, id, !is_one_of(snapshots, id), users,
			     keepers);
	for (uint32_t i = 0; i < clusters; i++) {
		right.shared += users[i] > 1 ? CLUSTER : 0;
		right.reclaimable += users[i] && !keepers[i] ? CLUSTER : 0;
	}
	free(users);
	free(keepers);
	MUST(run,
	     run->pool->ops->sharing(run->pool, NULL, 0, &sharing, &run->err));
	CHECK(run, sharing.shared == right.shared);
	CHECK(run, sharing.reclaimable == right.reclaimable);
	run->shared += sharing.shared > 0;
	run->reclaimable += sharing.reclaimable > 0;
}
