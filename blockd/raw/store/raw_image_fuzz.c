/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool's medium with anything on it. A small pool is made, and the
 * input changes it. Then it is looked at and opened.
 *
 * With any content reads and writes stay inside the medium and in the part of
 * it that they are about. Looking writes nothing. A store that opens counts
 * right and maps only clusters that exist. An open and a checkpoint write only
 * where nobody maps a cluster. A store that takes changes is found again with
 * them.
 *
 * The input is edits of it: blockd/testkit/raw_image_kit.h.
 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/testkit/raw_image_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- what has to hold ---- */

static void check_cluster(const struct raw_store *store, uint32_t entry)
{
	const struct raw_super *super = &store->super;
	const uint64_t cluster = UINT64_C(1) << super->cluster_shift;
	const uint64_t start = super->data_start +
			       ((uint64_t)RAW_PHYSICAL(entry)
				<< super->cluster_shift);

	assert(RAW_PHYSICAL(entry) < super->clusters);
	assert(start + cluster <= raw_image.medium.size);
	for (uint64_t at = start; at < start + cluster; at += RAW_BLOCK)
		assert(!raw_image.written[at / RAW_BLOCK]);
}

static void check_object(const struct raw_store *store,
			 const struct raw_object *object)
{
	uint64_t start = 0, count = 0;

	raw_map_difference(&object->map, NULL, 0, &start, &count);
	while (count) {
		for (uint64_t i = start; i < start + count; i++)
			check_cluster(store, raw_map_get(&object->map, i));
		raw_map_difference(&object->map, NULL, start + count, &start,
				   &count);
	}
}

/* Check that the mapped clusters exist, and that nobody has written to them. */
static void check_state(struct raw_store *store)
{
	const struct raw_state *state = &store->state;
	struct error err;

	assert(state->pool_text);
	if (raw_state_verify(state, &err) < 0) {
		(void)fprintf(stderr, "%s\n", error_text(&err));
		abort();
	}
	for (uint32_t id = 1; id <= state->n_slots; id++) {
		const struct raw_object *object = raw_state_object(state, id);

		if (object)
			check_object(store, object);
	}
}

static void count_finding(void *context, const char *text, bool repaired)
{
	(void)context;
	(void)repaired;
	assert(text[0]);
}

/* Every object reads the same in both. */
static void compare(const struct raw_state *a, const struct raw_state *b)
{
	assert(a->n_objects == b->n_objects);
	for (uint32_t id = 1; id <= a->n_slots; id++) {
		const struct raw_object *x = raw_state_object(a, id);
		const struct raw_object *y = raw_state_object(b, id);
		uint64_t start, count;

		assert(!x == !y);
		if (!x)
			continue;
		assert(x->text_length == y->text_length &&
		       memcmp(x->text, y->text, x->text_length) == 0);
		assert(raw_map_clusters(&x->map) == raw_map_clusters(&y->map));
		raw_map_difference(&x->map, &y->map, 0, &start, &count);
		assert(count == 0);
	}
}

/* Check that the medium has the state that @store has. */
static void find_again(struct raw_store *store)
{
	struct raw_store *again = NULL;
	struct raw_report report;
	struct error err;

	raw_image.may_write = false;
	if (raw_store_look(&raw_image.medium, &again, &report, &err) < 0) {
		assert(raw_image_unreadable());
	} else if (!raw_report_lost(&report)) {
		compare(&store->state, &again->state);
	} else {
		assert(raw_image_unreadable());
	}
	raw_image.may_write = true;
	raw_store_close(again);
}

static void add_one(struct raw_store *store)
{
	static char text[3 * RAW_BLOCK]; /* more than a block of the log */
	struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .clusters = 1,
		 .text = text,
		 .text_length = sizeof(text)},
		{.type = RAW_MAP, .count = 1},
	};
	const uint32_t id = raw_state_new_id(&store->state, 0);
	struct error err;
	uint64_t ticket;

	if (!id || !raw_store_take(store, 1, RAW_HOLE, &records[1].physical))
		return;
	memset(text, 'x', sizeof(text));
	records[0].object = records[1].object = id;
	if (raw_store_change(store, records, 2, &ticket, &err) == 0)
		assert(raw_store_commit(store, ticket, &err) == 0);
}

static void check_all(struct raw_store *store)
{
	struct raw_findings findings = {.tell = count_finding};
	struct error err = {0};

	assert(raw_store_check(store, raw_image.may_write, &findings, &err) ==
		       0 ||
	       err.msg[0]);
}

static void use(struct raw_store *store)
{
	struct error err = {0};

	check_all(store);
	check_state(store);
	if (raw_store_checkpoint(store, &err) < 0)
		return;
	check_state(store);
	add_one(store);
	find_again(store);
}

/* ---- the openers ---- */

static bool known(int r, const struct error *err)
{
	return err->msg[0] &&
	       (r == -ENODATA || r == -EBADMSG || r == -EIO ||
		r == -EPROTONOSUPPORT || r == -ENOSPC || r == -ENOMEM);
}

static int look(void)
{
	struct raw_store *store = NULL;
	struct raw_report report;
	struct error err = {0};
	char *text = NULL;
	size_t length;
	int r;

	if (raw_store_peek(&raw_image.medium, &text, &length, &err) < 0)
		assert(err.msg[0]);
	free(text);
	err = (struct error){0};
	r = raw_store_look(&raw_image.medium, &store, &report, &err);
	if (r == 0) {
		check_state(store);
		check_all(store);
		raw_store_close(store);
	} else {
		assert(known(r, &err));
	}
	return r;
}

/* The layout that accesses have to keep to: the one that will count. */
static void expect_layout(void)
{
	struct raw_super *super = &raw_image.super,
			 *copy = malloc(sizeof(*copy));
	bool first;

	if (!copy)
		abort();
	raw_image.making = true;
	memset(super, 0, sizeof(*super));
	first = store_read_super(&raw_image.medium, 0, super, NULL) == 0;
	if (store_read_super(&raw_image.medium, RAW_SUPER_COPY_OFFSET, copy,
			     NULL) == 0 &&
	    (!first || copy->generation > super->generation))
		*super = *copy;
	raw_image.making = false;
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct raw_store *store = NULL;
	struct raw_report report;
	struct error err = {0};
	int looked, r;

	raw_image_edit(data, size);
	expect_layout();
	memset(raw_image.written, 0, sizeof(raw_image.written));
	looked = look();
	raw_image.may_write = true;
	r = raw_store_open(&raw_image.medium, &store, &report, &err);
	assert(r == 0 ? looked == 0 : known(r, &err));
	if (r == 0) {
		check_state(store);
		if (!raw_store_broken(store, &err))
			use(store);
		raw_store_close(store);
	}
	return 0;
}
