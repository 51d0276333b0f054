/* SPDX-License-Identifier: Apache-2.0 */
#include "union/names.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch_health.h"
#include "union/dir_fd.h"
#include "union/merge.h"

#define SHARDS        64
#define SHARD_BUCKETS 256 /* lists of directories */
#define FIRST_SLOTS   16
#define READ_SIZE     (32 << 10) /* bytes a getdents call */
#define GONE          UINT64_MAX /* a slot that was used */

struct names {
	uint64_t id; /* of the node */
	struct names *next;
	uint64_t
		known[BRANCH_MAX / 64]; /* branches all of whose names are in */
	uint64_t *slots;                /* 0: free; see slot_of(). A hash set */
	size_t size, used, live;
	bool reading;
	bool outdated;  /* forgot of a branch while it is read */
	unsigned asked; /* copies, by lookups, since it was read last */
	/* node_copies_changed() when all copies were known; 0: they were not */
	uint64_t whole;
	size_t limit; /* entries to read at most, next time */
};

struct shard {
	pthread_mutex_t lock;
	struct names *buckets[SHARD_BUCKETS];
};

static struct shard shards[SHARDS] = {
	[0 ... SHARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};
static _Atomic size_t bytes_used;

static struct shard *shard_of(uint64_t id)
{
	return &shards[id % SHARDS];
}

static struct names **bucket_of(struct shard *shard, uint64_t id)
{
	return &shard->buckets[id / SHARDS % SHARD_BUCKETS];
}

/* With the shard locked. */
static struct names *find(struct shard *shard, uint64_t id)
{
	struct names *names = *bucket_of(shard, id);

	while (names && names->id != id)
		names = names->next;
	return names;
}

static struct names *find_or_new(struct shard *shard, uint64_t id)
{
	struct names **into, *names = find(shard, id);

	if (names || atomic_load(&bytes_used) > NAMES_BYTES_MAX)
		return names;
	names = calloc(1, sizeof(*names));
	if (!names)
		return NULL;
	atomic_fetch_add(&bytes_used, sizeof(*names));
	names->id = id;
	names->limit = NAMES_READ_FIRST;
	into = bucket_of(shard, id);
	names->next = *into;
	*into = names;
	return names;
}

static void drop(struct shard *shard, uint64_t id)
{
	struct names **at = bucket_of(shard, id), *names;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	names = *at;
	if (!names)
		return;
	*at = names->next;
	atomic_fetch_sub(&bytes_used,
			 sizeof(*names) + names->size * sizeof(*names->slots));
	free(names->slots);
	free(names);
}

static uint64_t slot_of(const char *name, unsigned branch)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return (h ^ h >> 32) << 16 | (branch + 1);
}

/* Where to look first: a name is in one place for all branches. */
static size_t place_of(const struct names *names, uint64_t slot)
{
	return (size_t)((slot >> 16) * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
	       (names->size - 1);
}

static void put(struct names *names, uint64_t slot)
{
	size_t mask = names->size - 1, i = place_of(names, slot);

	while (names->slots[i])
		i = (i + 1) & mask;
	names->slots[i] = slot;
	names->used++;
	names->live++;
}

/* The place of @slot, or NULL. */
static uint64_t *seek(const struct names *names, uint64_t slot)
{
	size_t mask = names->size - 1, i;

	if (!names->size)
		return NULL;
	i = place_of(names, slot);
	while (names->slots[i] && names->slots[i] != slot)
		i = (i + 1) & mask;
	return names->slots[i] ? &names->slots[i] : NULL;
}

/* Room for @more. False: no memory, or too much. */
static bool make_room(struct names *names, size_t more)
{
	size_t i, old_size = names->size,
		  size = old_size ? old_size : FIRST_SLOTS;
	uint64_t *old = names->slots;

	if ((names->used + more) * 4 <= old_size * 3)
		return true;
	while ((names->live + more) * 2 > size)
		size *= 2;
	if (atomic_load(&bytes_used) + size * sizeof(*old) > NAMES_BYTES_MAX)
		return false;
	names->slots = calloc(size, sizeof(*old));
	if (!names->slots) {
		names->slots = old;
		return false;
	}
	atomic_fetch_add(&bytes_used, (size - old_size) * sizeof(*old));
	names->size = size;
	names->used = names->live = 0;
	for (i = 0; i < old_size; i++)
		if (old[i] && old[i] != GONE)
			put(names, old[i]);
	free(old);
	return true;
}

void names_begin(struct unionfs *fs, const struct node *dir, unsigned branch)
{
	struct shard *shard = shard_of(dir->id);
	struct names *names;

	if (fs->shared)
		return;
	pthread_mutex_lock(&shard->lock);
	names = find_or_new(shard, dir->id);
	if (names)
		names->known[branch / 64] |= UINT64_C(1) << branch % 64;
	pthread_mutex_unlock(&shard->lock);
}

void names_add(struct unionfs *fs, const struct node *dir, const char *name,
	       unsigned branch)
{
	struct shard *shard = shard_of(dir->id);
	struct names *names;

	(void)fs;
	pthread_mutex_lock(&shard->lock);
	names = find(shard, dir->id);
	if (names && make_room(names, 1))
		put(names, slot_of(name, branch));
	else if (names)
		drop(shard, dir->id); /* knows too little from now on */
	pthread_mutex_unlock(&shard->lock);
}

void names_remove(struct unionfs *fs, const struct node *dir, const char *name,
		  unsigned branch)
{
	struct shard *shard = shard_of(dir->id);
	struct names *names;
	uint64_t *slot;

	(void)fs;
	pthread_mutex_lock(&shard->lock);
	names = find(shard, dir->id);
	/* While it is read nobody knows whether the name was met. */
	slot = names && !names->reading ? seek(names, slot_of(name, branch))
					: NULL;
	if (slot) {
		*slot = GONE;
		names->live--;
	}
	pthread_mutex_unlock(&shard->lock);
}

static bool is_known(const struct names *names, unsigned branch)
{
	return names->known[branch / 64] >> branch % 64 & 1;
}

bool names_may_have(const struct node *dir, const char *name, unsigned branch)
{
	struct shard *shard = shard_of(dir->id);
	const struct names *names;
	bool maybe;

	pthread_mutex_lock(&shard->lock);
	names = find(shard, dir->id);
	maybe = !names || !is_known(names, branch) ||
		seek(names, slot_of(name, branch));
	pthread_mutex_unlock(&shard->lock);
	return maybe;
}

/* The branches that have a name of that hash. */
static void add_found(const struct names *names, uint64_t hash,
		      uint64_t ret[BRANCH_MAX / 64])
{
	size_t mask = names->size - 1, i = place_of(names, hash << 16);
	unsigned branch;

	for (; names->slots[i]; i = (i + 1) & mask) {
		if (names->slots[i] >> 16 != hash || names->slots[i] == GONE)
			continue;
		branch = (unsigned)(names->slots[i] & 0xffff) - 1;
		ret[branch / 64] |= UINT64_C(1) << branch % 64;
	}
}

/* As many in each turn as with few branches: it costs the same with many. */
static void add_checked(unsigned count, uint64_t ret[BRANCH_MAX / 64])
{
	static _Thread_local unsigned asked, next;
	unsigned i;

	if (++asked % NAMES_CHECK_EVERY != 0)
		return;
	for (i = 0; i < NAMES_CHECKED && i < count; i++, next++)
		ret[next % count / 64] |= UINT64_C(1) << next % count % 64;
}

/* Are all names of all its copies known? Then the copies need no walk. */
static bool is_whole(const struct names *names)
{
	return names->whole && names->whole == node_copies_changed();
}

void names_where(const struct node *dir, unsigned count, const char *name,
		 uint64_t ret[BRANCH_MAX / 64])
{
	struct shard *shard = shard_of(dir->id);
	const struct names *names;
	unsigned i;

	memset(ret, 0xff, sizeof(uint64_t[BRANCH_MAX / 64]));
	/* What is too long a name a branch says better. */
	if (strlen(name) > NAME_MAX)
		return;
	pthread_mutex_lock(&shard->lock);
	names = find(shard, dir->id);
	for (i = 0; names && i < BRANCH_MAX / 64; i++)
		ret[i] = is_whole(names) ? 0 : ~names->known[i];
	if (names && names->size)
		add_found(names, slot_of(name, 0) >> 16, ret);
	pthread_mutex_unlock(&shard->lock);
	add_checked(count, ret);
}

void names_confirm(const struct node *dir, const char *name, unsigned branch)
{
	if (names_may_have(dir, name, branch))
		return;
	log_warning("a name on branch %u was not known to be there; the "
		    "directory is read again",
		    branch);
	names_forget(dir->id);
}

void names_forget(uint64_t id)
{
	struct shard *shard = shard_of(id);

	pthread_mutex_lock(&shard->lock);
	drop(shard, id);
	pthread_mutex_unlock(&shard->lock);
}

void names_forget_all(void)
{
	unsigned i, j;

	for (i = 0; i < SHARDS; i++) {
		pthread_mutex_lock(&shards[i].lock);
		for (j = 0; j < SHARD_BUCKETS; j++)
			while (shards[i].buckets[j])
				drop(&shards[i], shards[i].buckets[j]->id);
		pthread_mutex_unlock(&shards[i].lock);
	}
}

static void forget_branch(struct names *names, unsigned branch)
{
	size_t i;

	names->known[branch / 64] &= ~(UINT64_C(1) << branch % 64);
	names->outdated = names->reading;
	names->whole = 0;
	for (i = 0; i < names->size; i++)
		if (names->slots[i] && names->slots[i] != GONE &&
		    (names->slots[i] & 0xffff) == branch + 1) {
			names->slots[i] = GONE;
			names->live--;
		}
}

void names_forget_branch(unsigned branch)
{
	struct names *names;
	unsigned i, j;

	for (i = 0; i < SHARDS; i++) {
		pthread_mutex_lock(&shards[i].lock);
		for (j = 0; j < SHARD_BUCKETS; j++)
			for (names = shards[i].buckets[j]; names;
			     names = names->next)
				forget_branch(names, branch);
		pthread_mutex_unlock(&shards[i].lock);
	}
}

/* What is read of a directory, before it is put in. */
struct reading {
	uint64_t *slots;
	size_t count, size, limit;
};

static bool keep(struct reading *reading, const char *name, unsigned branch)
{
	size_t size = reading->size ? reading->size * 2 : 256;
	uint64_t *bigger;

	if (reading->count == reading->limit)
		return false;
	if (reading->count == reading->size) {
		bigger = reallocarray(reading->slots, size, sizeof(*bigger));
		if (!bigger)
			return false;
		reading->slots = bigger;
		reading->size = size;
	}
	reading->slots[reading->count++] = slot_of(name, branch);
	return true;
}

/* All names of the directory @fd. False: not all. */
static bool read_names(struct reading *reading, int fd, unsigned branch)
{
	_Alignas(struct dirent_wire) char data[READ_SIZE];
	const struct dirent_wire *entry;
	long at, n = 1;

	while (n > 0) {
		n = syscall(SYS_getdents64, fd, data, sizeof(data));
		for (at = 0; at < n; at += entry->length) {
			entry = (const void *)(data + at);
			if (!keep(reading, entry->name, branch))
				return false;
		}
	}
	return n == 0;
}

/* The copies of @dir that are not known. False: one could not be read. */
static bool read_copies(struct unionfs *fs, const struct node *dir,
			const uint64_t *known, struct reading *reading,
			uint64_t *ret_read)
{
	struct copy *copy;
	bool good = true;

	for (copy = node_first(dir); copy && good; copy = copy_next(copy)) {
		auto_close int fd = -1;

		if (known[copy->branch / 64] >> copy->branch % 64 & 1)
			continue;
		fd = unionfs_open_copy(fs, copy, O_RDONLY | O_DIRECTORY);
		good = fd >= 0 && read_names(reading, fd, copy->branch);
		if (good)
			ret_read[copy->branch / 64] |= UINT64_C(1)
						       << copy->branch % 64;
	}
	return good;
}

/*
 * Is it time to read @dir? Then what is known already is in @known, and what
 * is added from now on is noted.
 */
static bool begin_reading(const struct node *dir, uint64_t *known,
			  size_t *ret_limit)
{
	struct shard *shard = shard_of(dir->id);
	const struct copy *copy;
	struct names *names;
	uint64_t changed = node_copies_changed();
	unsigned unknown = 0;
	bool wanted;

	pthread_mutex_lock(&shard->lock);
	names = find(shard, dir->id);
	if (names && is_whole(names)) {
		pthread_mutex_unlock(&shard->lock);
		return false;
	}
	for (copy = node_first(dir); copy; copy = copy_next(copy))
		unknown += !names || !is_known(names, copy->branch);
	if (!unknown && names && !branch_any_doubted())
		names->whole = changed;
	if (unknown && !names)
		names = find_or_new(shard, dir->id);
	if (unknown && names)
		names->asked += unknown;
	/* Reading an entry costs about an eighth of asking a copy. */
	wanted = unknown && names && !names->reading &&
		 (names->limit == NAMES_READ_FIRST ||
		  names->asked > names->limit / 32);
	if (wanted) {
		names->reading = true;
		names->outdated = false;
		*ret_limit = names->limit;
		memcpy(known, names->known, sizeof(names->known));
	}
	pthread_mutex_unlock(&shard->lock);
	return wanted;
}

static void end_reading(uint64_t id, const struct reading *reading,
			const uint64_t *read, bool good)
{
	struct shard *shard = shard_of(id);
	struct names *names;
	size_t i;

	pthread_mutex_lock(&shard->lock);
	names = find(shard, id);
	if (names) {
		names->reading = false;
		names->asked = 0;
		if (!good)
			names->limit *= 4;
		good = good && !names->outdated &&
		       make_room(names, reading->count);
		for (i = 0; good && i < reading->count; i++)
			put(names, reading->slots[i]);
		for (i = 0; good && i < array_size(names->known); i++)
			names->known[i] |= read[i];
	}
	pthread_mutex_unlock(&shard->lock);
}

void names_learn(struct unionfs *fs, const struct node *dir)
{
	uint64_t known[BRANCH_MAX / 64], read[BRANCH_MAX / 64] = {0};
	struct reading reading = {0};
	bool good;

	if (fs->shared || !begin_reading(dir, known, &reading.limit))
		return;
	dir_fd_changes_begin();
	good = read_copies(fs, dir, known, &reading, read);
	dir_fd_changes_end();
	end_reading(dir->id, &reading, read, good);
	free(reading.slots);
}
