/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is all that a store knows right? Its memory is counted again; its medium is
 * read as an open would read it, into a store of its own, and compared.
 *
 * Commits go on while it is read: no checkpoint takes the place of the one that
 * is being read, and the log is followed until little of it is left. Only for
 * that, and to compare, the check has the role of the writer, so that the
 * medium stands still. Changes go on in memory, and are in the batch that waits
 * for the next commit. With these the two have to be the same.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/store/raw_store_internal.h"

#define TEXT_MAX   400 /* bytes, of a finding */
#define LEAKED_MAX 64  /* told of one by one */
#define FEW        4u  /* batches that commits may wait for */
#define ROUNDS_MAX 64u /* of following the log, before they have to */

__attribute__((format(printf, 3, 4))) static void tell(
	struct raw_findings *findings, bool repaired, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	findings->n++;
	findings->left += !repaired;
	findings->tell(findings->context, text, repaired);
}

static const char *name_of(const struct raw_findings *findings,
			   const struct raw_object *object, char *buf,
			   size_t size)
{
	(void)snprintf(buf, size, "object %" PRIu32, object->id);
	if (findings->describe)
		findings->describe(object, buf, size);
	return buf;
}

/* ---- memory ---- */

/* Lock held. */
static int check_memory(const struct raw_state *state,
			struct raw_findings *findings, struct error *err)
{
	struct error wrong = {0};
	char name[TEXT_MAX / 2];
	int r = raw_state_verify(state, &wrong);

	if (r == -EBADMSG)
		tell(findings, false, "in memory: %s", error_text(&wrong));
	else if (r < 0)
		return error_set(err, -r, "%s", error_text(&wrong));
	for (uint32_t i = 0; i < state->n_slots; i++) {
		const struct raw_object *object = state->objects[i];

		if (object && object->damaged)
			tell(findings, false,
			     "%s: part of its map is damaged in both copies",
			     name_of(findings, object, name, sizeof(name)));
	}
	if (state->objects_lost)
		tell(findings, false,
		     "%" PRIu64 " extents are damaged of which not even the "
		     "name is known",
		     state->objects_lost);
	return 0;
}

/* ---- the medium ---- */

/* Damage of the medium, which a checkpoint puts right. */
struct damage {
	bool super[RAW_COPIES];
	uint64_t checkpoint, log; /* places where one copy is damaged */
	uint64_t lost_parts, lost_batches; /* where both are */
	bool unreadable;                   /* all of it, for ... */
	struct error why;                  /* ... this */
};

/* The state as the medium has it. */
struct look {
	struct raw_store *loaded; /* owned; NULL: it is unreadable */
	struct raw_report report;
};

static bool any_damage(const struct damage *damage)
{
	return damage->super[0] || damage->super[1] || damage->checkpoint ||
	       damage->log || damage->lost_parts || damage->lost_batches ||
	       damage->unreadable;
}

/* Nobody writes one meanwhile. */
static int check_supers(struct raw_store *store, struct damage *ret,
			struct error *err)
{
	static const uint64_t places[RAW_COPIES] = {0, RAW_SUPER_COPY_OFFSET};
	struct raw_super *super = malloc(sizeof(*super));

	if (!super)
		return error_set(err, ENOMEM, "out of memory");
	for (unsigned i = 0; i < RAW_COPIES; i++)
		ret->super[i] = store_read_super(store->medium, places[i],
						 super, NULL) < 0 ||
				super->generation != store->super.generation;
	free(super);
	return 0;
}

/* Loading looks at the second copy only where the first is damaged. */
static void check_parts(struct raw_store *loaded, struct damage *ret)
{
	struct raw_batch_head head;

	ret->checkpoint = 0;
	for (uint32_t i = 0; i < loaded->super.checkpoint_parts; i++) {
		unsigned bad = 0;

		for (unsigned copy = 0; copy < RAW_COPIES; copy++)
			bad += store_read_part(loaded, copy, i, &head) < 0;
		ret->checkpoint += bad == 1;
	}
}

static void damage_report(const struct damage *damage, bool repaired,
			  struct raw_findings *findings)
{
	for (unsigned i = 0; i < RAW_COPIES; i++) {
		if (damage->super[i])
			tell(findings, repaired,
			     "copy %u of the superblock is damaged or old",
			     i + 1);
	}
	if (damage->checkpoint)
		tell(findings, repaired,
		     "%" PRIu64 " parts of the checkpoint are damaged in one "
		     "of two copies",
		     damage->checkpoint);
	if (damage->log)
		tell(findings, repaired,
		     "%" PRIu64 " batches of the log are damaged in one of "
		     "two copies",
		     damage->log);
	if (damage->lost_parts || damage->lost_batches)
		tell(findings, repaired,
		     "%" PRIu64 " parts of the checkpoint and %" PRIu64
		     " batches of the log are damaged in both copies",
		     damage->lost_parts, damage->lost_batches);
	if (damage->unreadable)
		tell(findings, repaired, "on the medium: %s",
		     error_text(&damage->why));
}

static int replay_pending(void *context, const struct raw_record *record)
{
	struct raw_store *loaded = context;

	return raw_state_replay(&loaded->state, record, NULL);
}

/* The changes that no commit has taken yet. Lock held. */
static int add_pending(const struct raw_store *store, struct raw_store *loaded,
		       struct error *err)
{
	struct raw_batch *copy = &loaded->writing;
	uint8_t *data = copy->data;
	size_t length;
	int r;

	memcpy(data, store->pending.data, store->pending.length);
	*copy = store->pending;
	copy->data = data;
	length = raw_batch_seal(copy, 0, 0);
	r = raw_batch_read(data, length, 0, replay_pending, loaded);
	return r == -ENOMEM ? error_set(err, ENOMEM, "out of memory") : r;
}

/* Which blocks of an entry's cluster are written. */
static struct raw_blocks written_of(const struct raw_state *state,
				    uint32_t entry, uint32_t window)
{
	const uint32_t first = window * RAW_WINDOW;
	const struct raw_bitmap *bitmap = NULL;
	struct raw_blocks blocks = {{0}};

	if (entry == RAW_HOLE || entry & RAW_UNWRITTEN)
		return blocks;
	if (entry & RAW_PARTIAL)
		bitmap = raw_bitmaps_find(&state->alloc.bitmaps,
					  RAW_PHYSICAL(entry));
	if (bitmap)
		(void)raw_bitmap_window(bitmap, window, &blocks);
	for (uint32_t i = 0; !bitmap && i < RAW_WINDOW; i++) {
		if (first + i < state->alloc.bitmaps.blocks)
			blocks.bits[i / 64] |= UINT64_C(1) << i % 64;
	}
	return blocks;
}

static bool same_blocks(const struct raw_state *here, uint32_t a,
			const struct raw_state *there, uint32_t b)
{
	const uint32_t windows = raw_bitmaps_windows(&here->alloc.bitmaps);

	for (uint32_t w = 0; w < windows; w++) {
		struct raw_blocks x = written_of(here, a, w);
		struct raw_blocks y = written_of(there, b, w);

		if (memcmp(&x, &y, sizeof(x)) != 0)
			return false;
	}
	return true;
}

/* The maps are the same: so are the parts of clusters that are written. */
static void compare_written(const struct raw_state *here,
			    const struct raw_state *there, uint32_t id,
			    const char *name, struct raw_findings *findings)
{
	const struct raw_map *a = &raw_state_object(here, id)->map;
	const struct raw_map *b = &raw_state_object(there, id)->map;
	const uint64_t clusters = raw_map_clusters(a);

	if (!here->alloc.bitmaps.n && !there->alloc.bitmaps.n)
		return;
	for (uint64_t i = 0; i < clusters; i++) {
		uint32_t x = raw_map_get(a, i), y = raw_map_get(b, i);

		if (x == RAW_HOLE || !((x | y) & RAW_PARTIAL) ||
		    same_blocks(here, x, there, y))
			continue;
		tell(findings, false,
		     "%s: on the medium other blocks of cluster %" PRIu64
		     " are written",
		     name, i);
		return;
	}
}

static void compare_objects(const struct raw_state *state,
			    const struct raw_state *loaded, uint32_t id,
			    struct raw_findings *findings)
{
	const struct raw_object *here = raw_state_object(state, id);
	const struct raw_object *there = raw_state_object(loaded, id);
	const struct raw_object *either = here ? here : there;
	uint64_t start = 0, count = 0;
	char name[TEXT_MAX / 2];

	if (!either)
		return;
	(void)name_of(findings, either, name, sizeof(name));
	if (!here || !there) {
		tell(findings, false, "%s is only %s", name,
		     here ? "in memory" : "on the medium");
		return;
	}
	if (here->text_length != there->text_length ||
	    memcmp(here->text, there->text, here->text_length) != 0)
		tell(findings, false, "%s: the medium has another record of it",
		     name);
	if (raw_map_clusters(&here->map) != raw_map_clusters(&there->map)) {
		tell(findings, false, "%s: the medium has another length",
		     name);
		return;
	}
	raw_map_difference(&here->map, &there->map, 0, &start, &count);
	if (count)
		tell(findings, false,
		     "%s: on the medium %" PRIu64 " clusters from %" PRIu64
		     " on are mapped otherwise",
		     name, count, start);
	else
		compare_written(state, loaded, id, name, findings);
}

/* Lock held. */
static void raw_check_compare(const struct raw_store *store,
			      const struct raw_store *loaded,
			      struct raw_findings *findings)
{
	const struct raw_state *here = &store->state, *there = &loaded->state;
	uint32_t n = here->n_slots > there->n_slots ? here->n_slots
						    : there->n_slots;

	for (uint32_t id = 1; id <= n; id++)
		compare_objects(here, there, id, findings);
}

/* Lock held. */
static int compare_loaded(struct raw_store *store, struct raw_store *loaded,
			  struct raw_findings *findings, struct error *err)
{
	int r = add_pending(store, loaded, err);

	if (r == -EBADMSG)
		tell(findings, false,
		     "pending changes do not fit the metadata on the medium");
	if (r == 0)
		raw_check_compare(store, loaded, findings);
	return r == -ENOMEM ? r : 0;
}

/* An error is damage, but for want of memory. */
static int take_for_damage(struct look *look, struct damage *damage, int r,
			   struct error *err)
{
	if (r == 0)
		return 0;
	raw_store_close(look->loaded);
	look->loaded = NULL;
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	damage->unreadable = true;
	return 0;
}

/* Lock not held; commits go on. @upto: the log as it is now. */
static int look_begin(struct raw_store *store, uint64_t upto, struct look *look,
		      struct damage *damage, struct error *err)
{
	int r = store_load(store->medium, &store->super, upto, &look->report,
			   &look->loaded, &damage->why);

	if (r == 0)
		check_parts(look->loaded, damage);
	else
		look->loaded = NULL;
	return take_for_damage(look, damage, r, err);
}

/*
 * Lock held, and let go of meanwhile. The log to its end; with the role of the
 * one that writes it when this returns, whatever it returns.
 */
static int look_follow(struct raw_store *store, struct look *look,
		       struct damage *damage, struct error *err)
{
	bool last = false;
	int r = 0;

	for (unsigned i = 0; !last; i++) {
		uint64_t upto;

		store_take_log(store);
		upto = store->log_sequence;
		last = r < 0 || !look->loaded || i == ROUNDS_MAX ||
		       look->loaded->log_sequence + FEW >= upto;
		if (r < 0 || !look->loaded)
			break;
		if (!last)
			store_give_role(store);
		(void)pthread_mutex_unlock(&store->lock);
		r = store_replay_log(look->loaded, upto, &look->report,
				     &damage->why);
		r = take_for_damage(look, damage, r, err);
		(void)pthread_mutex_lock(&store->lock);
	}
	return r;
}

/* Lock held, the role is ours. */
static int look_end(struct raw_store *store, const struct look *look,
		    struct damage *damage, struct raw_findings *findings,
		    struct error *err)
{
	const struct raw_report *report = &look->report;
	const struct raw_store *loaded = look->loaded;

	damage->log = report->log_copies + report->log_once;
	damage->lost_parts = report->lost_parts;
	damage->lost_batches = report->lost_batches;
	/* The last ones: to an open that looks as if there were none. */
	if (loaded->log_sequence < store->log_sequence)
		damage->lost_batches += store->log_sequence -
					loaded->log_sequence;
	/* A store that takes no changes may know less, or more. */
	if (damage->lost_parts || damage->lost_batches || store->broken)
		return 0;
	return compare_loaded(store, look->loaded, findings, err);
}

/*
 * Lock held, and let go of meanwhile; no checkpoint but ours is written. Right
 * data in memory is written over damaged parts, also where both copies are
 * damaged. This returns with the role of the writer.
 */
static int check_medium(struct raw_store *store, bool repair,
			struct raw_findings *findings, struct error *err)
{
	const uint64_t upto = store->log_sequence;
	struct damage damage = {0};
	struct look look = {0};
	struct error why;
	bool repaired = false;
	int r, followed;

	(void)pthread_mutex_unlock(&store->lock);
	r = check_supers(store, &damage, err);
	if (r == 0)
		r = look_begin(store, upto, &look, &damage, err);
	(void)pthread_mutex_lock(&store->lock);
	followed = look_follow(store, &look, &damage, err);
	if (r == 0)
		r = followed;
	if (r == 0 && look.loaded)
		r = look_end(store, &look, &damage, findings, err);
	if (r == 0 && any_damage(&damage)) {
		if (repair && !store->broken && !findings->left)
			repaired = store_checkpoint_locked(store, &why) == 0;
		damage_report(&damage, repaired, findings);
	}
	raw_store_close(look.loaded);
	return r;
}

int raw_store_check(struct raw_store *store, bool repair,
		    struct raw_findings *findings, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&store->lock);
	store_take_role(store);
	if (store->broken && store->cause.code != EROFS) /* raw_store_look() */
		tell(findings, false, "it takes no changes: %s",
		     error_text(&store->cause));
	r = check_memory(&store->state, findings, err);
	if (r == 0) {
		store->ahead = true; /* the checkpoint stays, the log grows */
		store_give_role(store);
		r = check_medium(store, repair, findings, err);
		store->ahead = false;
	}
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}

/* ---- clusters of nobody ---- */

int raw_store_suspect(struct raw_store *store, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&store->lock);
	/* A checkpoint that is being written has clusters, too. */
	store_take_role(store);
	r = raw_alloc_suspect(&store->state.alloc, store->super.checkpoint,
			      store->super.n_checkpoint);
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	return r < 0 ? error_set(err, -r, "out of memory") : 0;
}

int raw_store_leaked(struct raw_store *store, bool repair,
		     struct raw_findings *findings, struct error *err)
{
	struct raw_alloc *alloc = &store->state.alloc;
	uint32_t *found, n, max;

	(void)pthread_mutex_lock(&store->lock);
	max = alloc->taken;
	found = calloc((size_t)max + 1, sizeof(*found));
	n = found ? raw_alloc_suspected(alloc, found, max) : 0;
	for (uint32_t i = 0; repair && i < n; i++)
		raw_alloc_give(alloc, found[i]);
	(void)pthread_mutex_unlock(&store->lock);
	if (!found)
		return error_set(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < n && i < LEAKED_MAX; i++)
		tell(findings, repair,
		     "cluster %" PRIu32 " is used by no object", found[i]);
	if (n > LEAKED_MAX)
		tell(findings, repair,
		     "%" PRIu32 " more clusters are used by no object",
		     n - LEAKED_MAX);
	free(found);
	return 0;
}
