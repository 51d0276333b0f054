/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many nodes in one program, for tests of what depends on how many there are.
 *
 *	fake_cluster STORE DIR NODES VOLUMES
 *
 * The first LIVE nodes, "n0"..., have a control API each, with a pool in memory
 * (csi/testkit/fake_node.h), at a socket in DIR, and a real keeper
 * (node_agent.h). The others have a record, a report of half that room, and
 * heartbeats, but answer nobody: who asks one of them waits in vain. The store
 * gets as many records of volumes "fill-I", each of three splits on three
 * nodes, as if they were there. Prints "ready SECONDS" when all is written,
 * and goes on until it is killed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "base/size.h"
#include "csi/testkit/fake_node.h"
#include "volume/cluster/node_agent.h"
#include "volume/op/context.h"

#define LIVE        8 /* nodes */
#define NODE_ROOM   (1024 * GIB)
#define VOLUMES_MAX 1000000
#define WRITERS     16 /* records and heartbeats written at a time */
#define SPLITS      3
#define LOOK_US     2000

struct member {
	struct fake_node node;
	struct node_record record;
	struct node_agent_request request;
	pthread_t keeper;
	struct cluster *cluster;
	atomic_bool told;
};

struct cluster {
	struct volume_context *ctx;
	const char *dir;
	struct member members[LIVE];
	size_t n_members, n_nodes, n_volumes;
	atomic_bool failed;
};

/* What cannot go on; said once. */
static void cluster_fail(struct cluster *c, const char *text)
{
	if (!atomic_exchange(&c->failed, true))
		(void)fprintf(stderr, "%s\n", text);
}

/* @ret: RECORD_NAME_SIZE bytes */
static char *node_name(char *ret, size_t index)
{
	(void)snprintf(ret, RECORD_NAME_SIZE, "n%zu", index);
	return ret;
}

/* ---- nodes that answer ---- */

static void keeper_told(void *member_, bool problem, const char *text)
{
	struct member *member = member_;

	if (problem) {
		(void)fprintf(stderr, "node %s: %s\n", member->record.name,
			      text);
		return; /* it tries again */
	}
	atomic_store(&member->told, true);
}

static void *keeper_run(void *member_)
{
	struct member *member = member_;
	struct error err = {0};

	if (volume_node_agent_run(member->cluster->ctx, &member->request,
				  &err) < 0)
		cluster_fail(member->cluster, error_text(&err));
	return NULL;
}

static void member_start(struct cluster *c, size_t index)
{
	struct member *member = &c->members[index];
	char name[RECORD_NAME_SIZE];

	fake_node_start(&member->node, c->dir, node_name(name, index),
			NODE_ROOM, c->ctx);
	(void)strcpy(member->record.name, name);
	(void)strcpy(member->record.control_address, member->node.address);
	(void)strcpy(member->record.data_address, "127.0.0.1:10809");
	member->cluster = c;
	member->request = (struct node_agent_request){
		.node = &member->record,
		.stop_fd = -1,
		.told = keeper_told,
		.context = member,
	};
}

static void keepers_run(struct cluster *c)
{
	for (size_t i = 0; i < c->n_members; i++) {
		if (pthread_create(&c->members[i].keeper, NULL, keeper_run,
				   &c->members[i]) != 0)
			abort(); /* a program of tests */
	}
	for (size_t i = 0; i < c->n_members; i++) {
		while (!atomic_load(&c->members[i].told) &&
		       !atomic_load(&c->failed))
			(void)usleep(LOOK_US);
	}
}

/* ---- nodes that do not ---- */

/* The report of a node that answers nobody. */
static struct node_report *silent_report(void)
{
	struct node_pool pool = {.name = "main",
				 .kind = "raw",
				 .state = NODE_POOL_ONLINE,
				 .capacity = NODE_ROOM,
				 .available = NODE_ROOM / 2};
	const struct node_state state = {
		.version = TRIBUTARY_VERSION, .pools = &pool, .n_pools = 1};
	struct node_report *report = node_report_of(&state);

	if (!report)
		abort();
	report->epoch = 1;
	return report;
}

static void node_write(void *cluster_, size_t index)
{
	struct cluster *c = cluster_;
	struct node_record node = {.report = silent_report(),
				   .created_s = clock_wall_s()};
	auto_free char *json = NULL;
	struct error err = {0};
	int r;

	(void)node_name(node.name, c->n_members + index);
	(void)uuid_make(node.uid);
	(void)snprintf(node.control_address, sizeof(node.control_address),
		       "unix:%.100s/%.60s.none", c->dir, node.name);
	(void)strcpy(node.data_address, "127.0.0.1:10809");
	r = node_record_encode(&node, &json, &err);
	if (r == 0)
		r = c->ctx->store->ops->create(c->ctx->store, RECORD_KIND_NODE,
					       node.name, json, NULL, &err);
	if (r < 0)
		cluster_fail(c, error_text(&err));
	node_record_done(&node);
}

static void node_beat(void *cluster_, size_t index)
{
	struct cluster *c = cluster_;
	char name[RECORD_NAME_SIZE];
	struct error err = {0};

	if (c->ctx->store->ops->beat(c->ctx->store,
				     node_name(name, c->n_members + index),
				     &err) < 0)
		(void)fprintf(stderr, "%s: %s\n", name, error_text(&err));
}

/* ---- volumes ---- */

static void split_fill(const struct cluster *c, const char *volume, size_t node,
		       struct volume_split *split)
{
	split->size = GIB;
	split->state = SPLIT_READY;
	(void)node_name(split->node, node % c->n_nodes);
	(void)strcpy(split->pool, "main");
	(void)snprintf(split->extent, sizeof(split->extent), "%.40s-%u", volume,
		       split->index);
	(void)uuid_make(split->extent_id);
	(void)uuid_make(split->fs_uuid);
}

static void volume_fill(const struct cluster *c, size_t index,
			struct volume_record *record)
{
	record->spec.capacity = SPLITS * GIB;
	(void)snprintf(record->name, sizeof(record->name), "fill-%zu", index);
	(void)uuid_make(record->uid);
	record->created_s = clock_wall_s();
	record->phase = VOLUME_READY;
	record->splits = calloc(SPLITS, sizeof(*record->splits));
	if (!record->splits)
		abort();
	record->n_splits = SPLITS;
	for (size_t i = 0; i < SPLITS; i++) {
		record->splits[i].index = (unsigned)i;
		split_fill(c, record->name, index + i, &record->splits[i]);
	}
}

static void volume_write(void *cluster_, size_t index)
{
	struct cluster *c = cluster_;
	struct volume_record *record = volume_record_new();
	struct error err = {0};
	char *json = NULL;
	int r;

	if (!record)
		return;
	volume_fill(c, index, record);
	r = volume_spec_check(&record->spec, &err);
	if (r == 0)
		r = volume_record_encode(record, &json, &err);
	if (r == 0)
		r = c->ctx->store->ops->create(c->ctx->store,
					       RECORD_KIND_VOLUME, record->name,
					       json, NULL, &err);
	if (r < 0)
		cluster_fail(c, error_text(&err));
	free(json);
	volume_record_free(record);
}

/* ---- all ---- */

/* Beat for the silent nodes. */
static void cluster_live(struct cluster *c)
{
	for (;;) {
		int64_t next_ms = clock_ms() + STORE_BEAT_S * 1000, wait_ms;

		parallel_run(c->n_nodes - c->n_members, WRITERS, node_beat, c);
		wait_ms = next_ms - clock_ms();
		if (wait_ms > 0)
			(void)usleep((useconds_t)wait_ms * 1000);
	}
}

static void cluster_make(struct cluster *c)
{
	for (size_t i = 0; i < c->n_members; i++)
		member_start(c, i);
	parallel_run(c->n_volumes, WRITERS, volume_write, c);
	parallel_run(c->n_nodes - c->n_members, WRITERS, node_write, c);
	parallel_run(c->n_nodes - c->n_members, WRITERS, node_beat, c);
	keepers_run(c);
}

/* The words of the command line; false: they are wrong. */
static bool cluster_read(struct cluster *c, int argc, char **argv)
{
	if (argc != 5)
		return false;
	c->dir = argv[2];
	c->n_nodes = strtoul(argv[3], NULL, 10);
	c->n_volumes = strtoul(argv[4], NULL, 10);
	c->n_members = c->n_nodes < LIVE ? c->n_nodes : LIVE;
	return c->n_nodes >= 1 && c->n_nodes <= NODES_MAX &&
	       c->n_volumes <= VOLUMES_MAX;
}

int main(int argc, char **argv)
{
	static struct cluster c; /* larger than a stack should be */
	int64_t start_ms = clock_ms();
	struct volume_config config = {.node = "fake",
				       .call_timeout_ms = 30000};
	struct error err = {0};

	if (!cluster_read(&c, argc, argv)) {
		(void)fprintf(stderr, "see fake_cluster.c\n");
		return 2;
	}
	config.store = argv[1];
	config.run_dir = argv[2];
	if (volume_context_open(&config, &c.ctx, &err) < 0) {
		(void)fprintf(stderr, "%s\n", error_text(&err));
		return 1;
	}
	cluster_make(&c);
	if (atomic_load(&c.failed))
		return 1;
	(void)printf("ready %.1f\n", (double)(clock_ms() - start_ms) / 1e3);
	(void)fflush(stdout);
	cluster_live(&c);
}
