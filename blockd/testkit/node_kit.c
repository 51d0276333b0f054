/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/node_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"

const char *node_kit_at(struct kit *k, const char *name)
{
	(void)snprintf(k->path, sizeof(k->path), "%s/%s", k->dir, name);
	return k->path;
}

void node_kit_start(struct kit *k)
{
	char state[128];
	struct node_options options = {.state_dir = state, .floor = 1};
	struct error err = {0};

	(void)snprintf(state, sizeof(state), "%s/state", k->dir);
	assert_int_equal(node_new(&options, &k->node, &err), 0);
	assert_int_equal(node_open_known(k->node, &err), 0);
}

void node_kit_restart(struct kit *k)
{
	node_free(k->node);
	k->node = NULL;
	node_kit_start(k);
}

int node_kit_add_pool(struct kit *k, const char *name, const char *dir,
		      struct error *err)
{
	struct node_pool_request request = {
		.name = name,
		.path = node_kit_at(k, dir),
		.capacity = CAPACITY,
		.may_format = true,
	};

	return node_add_pool(k->node, &request, NULL, err);
}

int node_kit_setup(void **state)
{
	struct kit *k = calloc(1, sizeof(*k));

	log_setup("node_test", LOG_LEVEL_ERROR);
	(void)snprintf(k->dir, sizeof(k->dir), "/tmp/trib-node-test.XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	assert_int_equal(mkdir(node_kit_at(k, "a"), 0755), 0);
	node_kit_start(k);
	assert_int_equal(node_kit_add_pool(k, "a", "a", NULL), 0);
	*state = k;
	return 0;
}

int node_kit_teardown(void **state)
{
	struct kit *k = *state;
	const char *argv[] = {"rm", "-rf", "--one-file-system", k->dir, NULL};

	node_free(k->node);
	assert_int_equal(process_must(argv, 30000, NULL), 0);
	free(k);
	return 0;
}

int node_kit_create(struct kit *k, const char *name, uint64_t size,
		    struct error *err)
{
	struct extent_request request = {
		.pool = "a", .name = name, .size = size};
	struct extent *extent;
	int r = extent_create(k->node, &request, &extent, NULL, err);

	if (r == 0)
		extent_unref(extent);
	return r;
}

struct node_pool_info node_kit_info(struct kit *k, const char *name)
{
	struct node_pool_info *list, found;
	size_t n;

	assert_int_equal(node_list_pools(k->node, name, &list, &n, NULL), 0);
	assert_int_equal(n, 1);
	found = list[0];
	free(list);
	return found;
}

struct extent *node_kit_find(struct kit *k, const char *name)
{
	struct extent *extent = NULL;

	(void)extent_find(k->node, name, &extent, NULL);
	return extent;
}

bool node_kit_damaged(struct kit *k, const char *name, const char *why)
{
	struct extent *extent = node_kit_find(k, name);
	bool is;

	assert_non_null(extent);
	is = extent->damage && strstr(extent->damage, why);
	extent_unref(extent);
	return is;
}

void node_kit_put_file(struct kit *k, const char *name, const char *text)
{
	assert_int_equal(file_replace(AT_FDCWD, node_kit_at(k, name), text,
				      strlen(text), 0600, NULL),
			 0);
}
