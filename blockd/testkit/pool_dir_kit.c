/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/pool_dir_kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "blockd/dir/pool_dir.h"

/* ---- the pool ---- */

static void on_extent(void *context, const struct pool_found *found)
{
	struct pool_dir_kit *k = context;

	k->found++;
	k->damaged += found->damage != NULL;
}

static void on_note(void *context, const char *text)
{
	struct pool_dir_kit *k = context;

	(void)text;
	k->notes++;
}

int pool_dir_kit_open(struct pool_dir_kit *k, struct error *err)
{
	const struct pool_visitor visitor = {on_extent, on_note, k};

	k->found = k->damaged = k->notes = 0;
	if (pool_dir_open(k->dir, "p", NULL, &k->pool, err) < 0)
		fail_msg("%s", error_text(err));
	return k->pool->ops->load(k->pool, &visitor, err);
}

static void open_pool(struct pool_dir_kit *k)
{
	struct error err = {0};

	if (pool_dir_kit_open(k, &err) < 0)
		fail_msg("%s", error_text(&err));
}

void pool_dir_kit_reopen(struct pool_dir_kit *k)
{
	pool_close(k->pool);
	open_pool(k);
}

int pool_dir_kit_setup(void **state)
{
	struct pool_dir_kit *k = calloc(1, sizeof(*k));
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(k->dir, sizeof(k->dir), "%s/trib-copy-test.XXXXXX",
		       tmp ? tmp : "/dev/shm");
	assert_non_null(mkdtemp(k->dir));
	k->record = (struct pool_record){
		.name = "p",
		.kind = "dir",
		.overcommit_percent = 100,
		.created_s = 1,
	};
	(void)uuid_make(k->record.id);
	(void)uuid_make(k->record.incarnation);
	assert_int_equal(pool_dir_format(k->dir, &k->record, NULL), 0);
	open_pool(k);
	*state = k;
	return 0;
}

int pool_dir_kit_teardown(void **state)
{
	struct pool_dir_kit *k = *state;
	const char *const argv[] = {"rm", "-rf", k->dir, NULL};
	struct process_result result;

	pool_close(k->pool);
	(void)process_run(argv, NULL, 10000, -1, &result, NULL);
	process_result_done(&result);
	free(k);
	return 0;
}

struct extent_record pool_dir_kit_record_of(const struct pool_dir_kit *k,
					    const char *name, uint64_t size)
{
	struct extent_record record = {
		.size = size,
		.created_s = 1,
		.state = EXTENT_OK,
		.blank = true,
	};

	(void)snprintf(record.name, sizeof(record.name), "%s", name);
	(void)uuid_make(record.id);
	memcpy(record.pool_id, k->record.id, sizeof(record.pool_id));
	return record;
}

void pool_dir_kit_create(struct pool_dir_kit *k, const char *name,
			 uint64_t size)
{
	struct extent_record record = pool_dir_kit_record_of(k, name, size);

	assert_int_equal(k->pool->ops->create(k->pool, &record, NULL), 0);
}

int pool_dir_kit_copy_to(struct pool_dir_kit *k, const char *from,
			 const char *to, uint64_t size, struct error *err)
{
	struct extent_record record = pool_dir_kit_record_of(k, to, size);
	const struct pool_copy copy = {from, &record};

	return k->pool->ops->copy(k->pool, &copy, 1, NULL, NULL, err);
}

int pool_dir_kit_revert_to(struct pool_dir_kit *k, const char *name,
			   const char *from, uint64_t size)
{
	struct extent_record record = pool_dir_kit_record_of(k, name, size);

	return k->pool->ops->revert(k->pool, &record, from, NULL);
}

/* ---- its files ---- */

int pool_dir_kit_data_open(struct pool_dir_kit *k, const char *name)
{
	auto_free char *path = k->pool->ops->path(k->pool, name);

	return open(path, O_RDWR | O_CLOEXEC);
}

void pool_dir_kit_put(struct pool_dir_kit *k, const char *name, char c,
		      uint64_t offset, uint64_t length)
{
	auto_close int fd = pool_dir_kit_data_open(k, name);
	char *data = malloc(length);
	ssize_t done;

	assert_non_null(data);
	memset(data, c, length);
	done = c ? pwrite(fd, data, length, (off_t)offset)
		 : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			     (off_t)offset, (off_t)length);
	free(data);
	assert_int_equal(done, c ? length : 0);
}

char *pool_dir_kit_content(struct pool_dir_kit *k, const char *name,
			   uint64_t size)
{
	auto_close int fd = pool_dir_kit_data_open(k, name);
	char *data = malloc(size);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, size);
	assert_int_equal(pread(fd, data, size, 0), size);
	return data;
}

void pool_dir_kit_same_content(struct pool_dir_kit *k, const char *a,
			       const char *b)
{
	auto_free char *x = pool_dir_kit_content(k, a, SIZE),
		       *y = pool_dir_kit_content(k, b, SIZE);

	assert_memory_equal(x, y, SIZE);
}

unsigned pool_dir_kit_files(const struct pool_dir_kit *k)
{
	char path[300];
	unsigned n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/extents", k->dir);
	dir = opendir(path);
	assert_non_null(dir);
	for (const struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] != '.';
	(void)closedir(dir);
	return n;
}

bool pool_dir_kit_reflinks(const struct pool_dir_kit *k)
{
	return k->pool->ops->copy_method(k->pool) == POOL_COPY_REFLINK;
}

uint64_t pool_dir_kit_allocated(struct pool_dir_kit *k, const char *name)
{
	struct extent_usage usage = {0};

	assert_int_equal(k->pool->ops->usage(k->pool, name, &usage, NULL), 0);
	return usage.allocated;
}

int pool_dir_kit_copy_three(struct pool_dir_kit *k, pool_copied copied,
			    struct error *err)
{
	struct extent_record records[3] = {
		pool_dir_kit_record_of(k, "a1", SIZE),
		pool_dir_kit_record_of(k, "b1", SIZE),
		pool_dir_kit_record_of(k, "c1", SIZE),
	};
	const struct pool_copy copies[3] = {
		{"a", &records[0]},
		{"b", &records[1]},
		{"c", &records[2]},
	};

	return k->pool->ops->copy(k->pool, copies, 3, copied, k, err);
}

void pool_dir_kit_create_three(struct pool_dir_kit *k)
{
	const char *const names[] = {"a", "b", "c"};

	for (size_t i = 0; i < 3; i++) {
		pool_dir_kit_create(k, names[i], SIZE);
		pool_dir_kit_put(k, names[i], names[i][0], i * MIB, MIB);
	}
}
