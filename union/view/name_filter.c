/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/name_filter.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/view/merge.h"
#include "union/view/name_hash_set.h"

#define SHARDS        64
#define SHARD_BUCKETS 256        /* lists of directories */
#define READ_SIZE     (32 << 10) /* bytes a getdents call */

struct name_filter {
	uint64_t id; /* of the node */
	struct name_filter *next;
	uint64_t
		known[BRANCH_MAX / 64]; /* branches all of whose names are in */
	struct name_hash_set set;
	bool reading;
	bool outdated;   /* the present reading is not to count */
	unsigned makers; /* requests whose names a reading may miss */
	unsigned asked;  /* copies, by lookups, since it was read last */
	/* node_copies_changed() when all copies were known; 0: they were not */
	uint64_t whole;
	size_t limit; /* entries to read at most, next time */
};

struct shard {
	pthread_mutex_t lock;
	struct name_filter *buckets[SHARD_BUCKETS];
};

static struct shard shards[SHARDS] = {
	[0 ... SHARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER},
};

static struct shard *shard_of(uint64_t id)
{
	return &shards[id % SHARDS];
}

static struct name_filter **shard_bucket(struct shard *shard, uint64_t id)
{
	return &shard->buckets[id / SHARDS % SHARD_BUCKETS];
}

/* With the shard locked. */
static struct name_filter *find_filter(struct shard *shard, uint64_t id)
{
	struct name_filter *names = *shard_bucket(shard, id);

	while (names && names->id != id)
		names = names->next;
	return names;
}

static struct name_filter *find_or_new(struct shard *shard, uint64_t id)
{
	struct name_filter **into, *names = find_filter(shard, id);

	if (names)
		return names;
	names = names_alloc(1, sizeof(*names));
	if (!names)
		return NULL;
	names->id = id;
	names->limit = NAME_FILTER_READ_FIRST;
	into = shard_bucket(shard, id);
	names->next = *into;
	*into = names;
	return names;
}

static void drop(struct shard *shard, uint64_t id)
{
	struct name_filter **at = shard_bucket(shard, id), *names;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	names = *at;
	if (!names)
		return;
	*at = names->next;
	name_hash_set_done(&names->set);
	names_free(names, 1, sizeof(*names));
}

void name_filter_begin(struct unionfs *fs, const struct node *dir,
		       unsigned branch)
{
	struct shard *shard = shard_of(dir->id);
	struct name_filter *names;

	if (fs->shared)
		return;
	pthread_mutex_lock(&shard->lock);
	names = find_or_new(shard, dir->id);
	if (names)
		names->known[branch / 64] |= UINT64_C(1) << branch % 64;
	pthread_mutex_unlock(&shard->lock);
}

/* With the shard locked. */
static void add_slot(struct shard *shard, struct name_filter *names,
		     uint64_t slot)
{
	if (names && name_hash_set_reserve(&names->set, 1))
		name_hash_set_put(&names->set, slot);
	else if (names)
		drop(shard, names->id); /* knows too little from now on */
}

void name_filter_add(const struct node *dir, const char *name, unsigned branch)
{
	struct shard *shard = shard_of(dir->id);

	pthread_mutex_lock(&shard->lock);
	add_slot(shard, find_filter(shard, dir->id),
		 name_hash_slot(name, branch));
	pthread_mutex_unlock(&shard->lock);
}

void name_filter_make_begin(struct unionfs *fs, const struct node *dir,
			    const char *name, unsigned branch)
{
	struct shard *shard = shard_of(dir->id);
	struct name_filter *names;

	if (fs->shared)
		return;
	pthread_mutex_lock(&shard->lock);
	names = find_or_new(shard, dir->id);
	if (names) {
		names->makers++;
		names->outdated = names->reading;
	}
	add_slot(shard, names, name_hash_slot(name, branch));
	pthread_mutex_unlock(&shard->lock);
}

void name_filter_make_end(struct unionfs *fs, const struct node *dir,
			  const char *name, unsigned branch, bool made)
{
	struct shard *shard = shard_of(dir->id);
	struct name_filter *names;

	if (fs->shared)
		return;
	pthread_mutex_lock(&shard->lock);
	names = find_filter(shard, dir->id);
	if (names && names->makers) {
		names->makers--;
		if (!made)
			name_hash_set_take(&names->set,
					   name_hash_slot(name, branch));
	} else if (names) {
		drop(shard, dir->id); /* begun anew since: may lack the name */
	}
	pthread_mutex_unlock(&shard->lock);
}

void name_filter_remove(const struct node *dir, const char *name,
			unsigned branch)
{
	struct shard *shard = shard_of(dir->id);
	struct name_filter *names;

	pthread_mutex_lock(&shard->lock);
	names = find_filter(shard, dir->id);
	/* While the directory is read, the name may be met or not. */
	if (names && !names->reading)
		name_hash_set_take(&names->set, name_hash_slot(name, branch));
	pthread_mutex_unlock(&shard->lock);
}

static bool is_known_on(const struct name_filter *names, unsigned branch)
{
	return names->known[branch / 64] >> branch % 64 & 1;
}

bool name_filter_may_have(const struct node *dir, const char *name,
			  unsigned branch)
{
	struct shard *shard = shard_of(dir->id);
	const struct name_filter *names;
	bool maybe;

	pthread_mutex_lock(&shard->lock);
	names = find_filter(shard, dir->id);
	maybe = !names || !is_known_on(names, branch) ||
		name_hash_set_has(&names->set, name_hash_slot(name, branch));
	pthread_mutex_unlock(&shard->lock);
	return maybe;
}

/* Add branches to check in turn; many branches cost no more than few. */
static void add_checked(unsigned count, uint64_t ret[BRANCH_MAX / 64])
{
	static _Thread_local unsigned asked, next;
	unsigned i;

	if (++asked % NAME_FILTER_CHECK_EVERY != 0)
		return;
	for (i = 0; i < NAME_FILTER_CHECKED && i < count; i++, next++)
		ret[next % count / 64] |= UINT64_C(1) << next % count % 64;
}

/* Are all names of all its copies known? Then the copies need no walk. */
static bool is_whole(const struct name_filter *names)
{
	return names->whole && names->whole == node_copies_changed();
}

void name_filter_where(const struct node *dir, unsigned count, const char *name,
		       uint64_t ret[BRANCH_MAX / 64])
{
	struct shard *shard = shard_of(dir->id);
	const struct name_filter *names;
	unsigned i;

	memset(ret, 0xff, sizeof(uint64_t[BRANCH_MAX / 64]));
	/* A branch tells better which name is too long. */
	if (strlen(name) > NAME_MAX)
		return;
	pthread_mutex_lock(&shard->lock);
	names = find_filter(shard, dir->id);
	for (i = 0; names && i < BRANCH_MAX / 64; i++)
		ret[i] = is_whole(names) ? 0 : ~names->known[i];
	if (names)
		name_hash_set_branches(&names->set, name, ret);
	pthread_mutex_unlock(&shard->lock);
	add_checked(count, ret);
}

void name_filter_confirm(const struct node *dir, const char *name,
			 unsigned branch)
{
	if (name_filter_may_have(dir, name, branch))
		return;
	log_warning("a name on branch %u was unknown; the directory is read "
		    "again",
		    branch);
	name_filter_forget(dir->id);
}

void name_filter_forget(uint64_t id)
{
	struct shard *shard = shard_of(id);

	pthread_mutex_lock(&shard->lock);
	drop(shard, id);
	pthread_mutex_unlock(&shard->lock);
}

void name_filter_forget_all(void)
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

static void forget_branch(struct name_filter *names, unsigned branch)
{
	names->known[branch / 64] &= ~(UINT64_C(1) << branch % 64);
	names->outdated = names->reading;
	names->whole = 0;
	name_hash_set_take_branch(&names->set, branch);
}

void name_filter_forget_branch(unsigned branch)
{
	struct name_filter *names;
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

/* Names read of a directory, before they are put in. */
struct reading {
	uint64_t *slots;
	size_t count, size, limit;
};

static bool keep_name(struct reading *reading, const char *name,
		      unsigned branch)
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
	reading->slots[reading->count++] = name_hash_slot(name, branch);
	return true;
}

/* Read all names of the directory @fd. False: not all. */
static bool read_names(struct reading *reading, int fd, unsigned branch)
{
	_Alignas(struct dirent_wire) char data[READ_SIZE];
	const struct dirent_wire *entry;
	long at, n = 1;

	while (n > 0) {
		n = syscall(SYS_getdents64, fd, data, sizeof(data));
		for (at = 0; at < n; at += entry->length) {
			entry = (const void *)(data + at);
			if (!keep_name(reading, entry->name, branch))
				return false;
		}
	}
	return n == 0;
}

/* Read the unknown copies of @dir. False: one could not be read. */
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
		fd = unionfs_open_copy(fs, copy,
				       O_RDONLY | O_DIRECTORY | O_NOATIME);
		good = fd >= 0 && read_names(reading, fd, copy->branch);
		if (good)
			ret_read[copy->branch / 64] |= UINT64_C(1)
						       << copy->branch % 64;
	}
	return good;
}

/* Drop notes of copies that are to be read: the reading meets them again. */
static void drop_unknown(struct name_filter *names, const struct node *dir)
{
	const struct copy *copy;

	for (copy = node_first(dir); copy; copy = copy_next(copy))
		if (!is_known_on(names, copy->branch))
			name_hash_set_take_branch(&names->set, copy->branch);
}

/*
 * Is it time to read @dir? Then @known gets the branches that are known
 * already, and names added from now on are noted.
 */
static bool begin_reading(const struct node *dir, uint64_t *known,
			  size_t *ret_limit)
{
	struct shard *shard = shard_of(dir->id);
	const struct copy *copy;
	struct name_filter *names;
	uint64_t changed = node_copies_changed();
	unsigned unknown = 0;
	bool wanted;

	pthread_mutex_lock(&shard->lock);
	names = find_filter(shard, dir->id);
	if (names && is_whole(names)) {
		pthread_mutex_unlock(&shard->lock);
		return false;
	}
	for (copy = node_first(dir); copy; copy = copy_next(copy))
		unknown += !names || !is_known_on(names, copy->branch);
	if (!unknown && names && !branch_any_doubted())
		names->whole = changed;
	if (unknown && !names)
		names = find_or_new(shard, dir->id);
	if (unknown && names)
		names->asked += unknown;
	/* Reading an entry costs about an eighth of asking a copy. */
	wanted = unknown && names && !names->reading && !names->makers &&
		 (names->limit == NAME_FILTER_READ_FIRST ||
		  names->asked > names->limit / 32);
	if (wanted) {
		names->reading = true;
		names->outdated = false;
		*ret_limit = names->limit;
		memcpy(known, names->known, sizeof(names->known));
		drop_unknown(names, dir);
	}
	pthread_mutex_unlock(&shard->lock);
	return wanted;
}

static void end_reading(uint64_t id, const struct reading *reading,
			const uint64_t *read, bool good)
{
	struct shard *shard = shard_of(id);
	struct name_filter *names;
	size_t i;

	pthread_mutex_lock(&shard->lock);
	names = find_filter(shard, id);
	if (names) {
		names->reading = false;
		names->asked = 0;
		if (!good)
			names->limit *= 4;
		good = good && !names->outdated &&
		       name_hash_set_reserve(&names->set, reading->count);
		for (i = 0; good && i < reading->count; i++)
			name_hash_set_put(&names->set, reading->slots[i]);
		for (i = 0; good && i < array_size(names->known); i++)
			names->known[i] |= read[i];
	}
	pthread_mutex_unlock(&shard->lock);
}

void name_filter_learn(struct unionfs *fs, const struct node *dir)
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
