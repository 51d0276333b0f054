/* SPDX-License-Identifier: Apache-2.0 */
/* Dir pools, for blockd/testkit/model_kit.h. */
#include <stdio.h>
#include <stdlib.h>

#include "base/process.h"
#include "blockd/dir/pool_dir.h"
#include "blockd/testkit/model_kit.h"

static void dir_make(struct run *run)
{
	const struct pool_record record = {.name = "test",
					   .kind = POOL_DIR_KIND,
					   .id = POOL_ID,
					   .incarnation = POOL_ID,
					   .overcommit_percent = 100};

	(void)snprintf(run->path, sizeof(run->path), "%.200s/dir-model.XXXXXX",
		       getenv("TMPDIR") ?: "/dev/shm");
	assert_non_null(mkdtemp(run->path));
	MUST(run, pool_dir_format(run->path, &record, &run->err));
}

static int dir_open(struct run *run)
{
	return pool_dir_open(run->path, "test", POOL_ID, &run->pool, &run->err);
}

/* A close writes nothing. */
static void dir_kill(struct run *run)
{
	pool_close(run->pool);
}

static void dir_remove(struct run *run)
{
	const char *const argv[] = {"rm", "-rf", run->path, NULL};
	struct process_result result;

	assert_int_equal(process_run(argv, NULL, 30000, -1, &result, NULL), 0);
	process_result_done(&result);
}

const struct model_kind model_dir = {
	.make = dir_make,
	.open = dir_open,
	.kill = dir_kill,
	.remove = dir_remove,
};
