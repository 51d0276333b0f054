/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every two calls on one volume at the same time.
 *
 *	pairs_main DIR STORE TIMES [SEED]
 *
 * Each pair of calls begins TIMES times, where in the volume's life is up to
 * chance (SEED), on one driver or on two of one store. Each has to give an
 * answer that may be, and after both the record, the nodes and the mounts say
 * the same; then the usual order brings the volume up and down. Prints TAP.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/csi/kit.h"
#include "volume/volume.h"

/* Answers that are right beside OK and ABORTED. */
#define PRECONDITION (1u << RPC_FAILED_PRECONDITION)
#define NOT_FOUND    (1u << RPC_NOT_FOUND)
#define EXISTS       (1u << RPC_ALREADY_EXISTS)

static const struct operation {
	const char *method;
	unsigned may; /* whatever the other call is */
} operations[] = {
	/* Its name is a volume that is being deleted: ABORTED. */
	{"Controller/CreateVolume", 0},
	{"Controller/DeleteVolume", PRECONDITION},
	{"Controller/ControllerPublishVolume", NOT_FOUND},
	{"Controller/ControllerUnpublishVolume", PRECONDITION},
	{"Controller/ControllerExpandVolume", NOT_FOUND | PRECONDITION},
	{"Controller/ControllerGetVolume", NOT_FOUND},
	{"Controller/ValidateVolumeCapabilities", NOT_FOUND},
	{"Controller/ListVolumes", 0},
	{"Node/NodeStageVolume", NOT_FOUND | PRECONDITION},
	{"Node/NodeUnstageVolume", PRECONDITION},
	{"Node/NodePublishVolume", NOT_FOUND | PRECONDITION},
	{"Node/NodeUnpublishVolume", 0},
	{"Node/NodeGetVolumeStats", NOT_FOUND},
	{"Node/NodeExpandVolume", NOT_FOUND | PRECONDITION},
};
#define N array_size(operations)

struct pair {
	const struct operation *a, *b;
	enum level level;
	int second; /* the host whose driver has the second call */
};

static struct volume_context *views[KIT_HOSTS + 1];

static void open_views(const char *dir, const char *store)
{
	for (int i = 1; i <= KIT_HOSTS; i++) {
		char node[16], run_dir[512];
		struct volume_config config = {
			.store = store, .node = node, .run_dir = run_dir};
		struct error err = {0};

		(void)snprintf(node, sizeof(node), "host%d", i);
		(void)snprintf(run_dir, sizeof(run_dir), "%.400s/host%d/run",
			       dir, i);
		if (volume_context_open(&config, &views[i], &err) < 0) {
			(void)fprintf(stderr, "%s\n", error_text(&err));
			exit(2);
		}
	}
}

/* ---- after both ---- */

static void no_orphans(void)
{
	for (int i = 1; i <= KIT_HOSTS; i++) {
		struct orphan *orphans = NULL;
		struct error err = {0};
		size_t n = 0, silent = 0;

		if (volume_orphans(views[i], &orphans, &n, &silent, &err) < 0)
			kit_fail("orphans: %s", error_text(&err));
		if (n > 0)
			kit_fail("host%d: %zu orphans: %s %s: %s", i, n,
				 orphans[0].node, orphans[0].name,
				 orphans[0].message);
		free(orphans);
		if (silent > 0)
			kit_fail("%zu nodes do not answer", silent);
	}
}

static void one_writer(void)
{
	struct volume_record *record = NULL;
	struct error err = {0};
	int writers = 0;
	int r = volume_get(views[1], value_of("name"), &record, &err);

	if (r == -ENOENT)
		return;
	if (r < 0)
		kit_fail("the record: %s", error_text(&err));
	for (size_t i = 0; i < record->n_attachments; i++)
		writers += !record->attachments[i].read_only;
	volume_record_free(record);
	if (writers > 1)
		kit_fail("%d nodes write", writers);
}

static void is_consistent(void)
{
	no_orphans();
	one_writer();
	holds(mounts_at(target_of(1)) <= 1);
	holds(mounts_at(staging_of(1)) <= 1);
	ok(2, "Controller/ListVolumes");
	holds(answer_number("entries.#") <= 1);
	holds(answer_number("entries.0.status.published_node_ids.#") <= 1);
}

/* ---- a pair ---- */

static void judge(const struct operation *o, const struct kit_answer *got,
		  const struct operation *other)
{
	if (got->code == RPC_OK || got->code == RPC_ABORTED ||
	    (1u << got->code) & o->may)
		return;
	kit_fail("%s beside %s: %s: %s", o->method, other->method,
		 rpc_code_name(got->code), got->text);
}

static struct kit_request request_of(const struct operation *o, int host)
{
	const char *words[] = {o->method, NULL, NULL};

	/* On the second driver a controller's call still means node host1. */
	if (strstr(o->method, "ublishVolume") &&
	    strncmp(o->method, "Controller/", 11) == 0)
		words[1] = "node_id=host1";
	if (strncmp(o->method, "Node/", 5) == 0)
		host = 1;
	return kit_request_make(host, words);
}

static void come_to_rest(void)
{
	char id[256];

	/* The volume may have been deleted: then this is another one. */
	ok(1, "Controller/CreateVolume");
	(void)snprintf(id, sizeof(id), "%s", answer("volume.volume_id"));
	if (strcmp(id, value_of("id")) != 0) {
		ok(1, "Node/NodeUnpublishVolume");
		ok(1, "Node/NodeUnstageVolume");
		kit_let("id", id);
	}
	ok(1, "Controller/ControllerPublishVolume");
	ok(1, "Node/NodeStageVolume");
	ok(1, "Node/NodePublishVolume");
	level_is(PUBLISHED);
	holds(content_write(target_of(1), "well") == 0);
	holds(content_is(target_of(1), "well"));
	is_consistent();
}

static void try(const void *context)
{
	const struct pair *p = context;
	struct kit_request a, b;
	struct kit_answer got[2];

	level_set(p->level);
	a = request_of(p->a, 1);
	b = request_of(p->b, p->second);
	kit_send_both(&a, &b, got);
	judge(p->a, &got[0], p->b);
	judge(p->b, &got[1], p->a);
	for (int i = 0; i < 2; i++)
		kit_answer_done(&got[i]);
	protobuf_c_message_free_unpacked(a.in, NULL);
	protobuf_c_message_free_unpacked(b.in, NULL);
	is_consistent();
	come_to_rest();
}

static void nothing_left(const void *context)
{
	(void)context;
	level_set(NONE);
	no_orphans();
	ok(1, "Controller/ListVolumes");
	same(answer("entries.#"), "0");
}

static void try_pair(const struct operation *a, const struct operation *b)
{
	static const char *const levels[] = {"", "created", "attached",
					     "staged", "published"};
	const struct pair pair = {a, b, (enum level)(CREATED + random() % 4),
				  1 + (int)(random() % 2)};
	char name[256];

	(void)snprintf(name, sizeof(name), "%s beside %s, %s, on %s",
		       strchr(a->method, '/') + 1, strchr(b->method, '/') + 1,
		       levels[pair.level],
		       pair.second == 1 ? "one driver" : "two drivers");
	if (!kit_run(try, &pair, name))
		(void)scrap(true);
}

int main(int argc, char **argv)
{
	unsigned times = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
	unsigned seed = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 1;

	if (argc < 4) {
		(void)fprintf(stderr, "see pairs_main.c\n");
		return 2;
	}
	srandom(seed);
	(void)printf("# seed %u\n", seed);
	kit_open(argv[1]);
	open_views(argv[1], argv[2]);
	kit_let("name", "pair");
	kit_let("id", "");
	kit_let("mode", "1");
	kit_let("size", "67108864");
	kit_let("access", "mount.fs_type=");
	kit_let("extents", "1");
	for (unsigned t = 0; t < times; t++)
		for (size_t i = 0; i < N; i++)
			for (size_t j = i; j < N; j++)
				try_pair(&operations[i], &operations[j]);
	(void)kit_run(nothing_left, NULL, "nothing is left");
	for (int i = 1; i <= KIT_HOSTS; i++)
		volume_context_close(views[i]);
	kit_close();
	return kit_end();
}
