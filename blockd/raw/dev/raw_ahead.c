/* SPDX-License-Identifier: Apache-2.0 */
/* Zeroes are written ahead, before anybody writes. */
#include <errno.h>

#include "blockd/raw/dev/raw_io.h"

#define AT_ONCE_BYTES (UINT64_C(1) << 20)
/* Runs that are looked at: each costs the store's lock once. */
#define LOOKS 256u

static struct raw_look look_at(struct raw_store *store, uint32_t id,
			       uint64_t at, uint64_t end)
{
	const struct raw_state *state = raw_store_lock(store);
	const struct raw_object *object = raw_state_object(state, id);
	struct raw_look look = {.entry = RAW_HOLE, .n = end - at};

	if (object)
		look = raw_alloc_look(&state->alloc, &object->map, at,
				      end - at);
	raw_store_unlock(store);
	return look;
}

static bool may_zero(const struct raw_look *look)
{
	return raw_look_unwritten(look) && !raw_is_partial(look->entry);
}

/* False: a request has one of them. */
static bool claim(struct raw_users *users, struct raw_fill *fill)
{
	bool free_to;

	TAILQ_INIT(&fill->waiting);
	(void)pthread_mutex_lock(&users->lock);
	free_to = !raw_users_find_fill(users, fill->object, fill->cluster,
				       fill->count);
	if (free_to)
		LIST_INSERT_HEAD(&users->fills, fill, in_users);
	(void)pthread_mutex_unlock(&users->lock);
	return free_to;
}

/* -EAGAIN: somebody gave one of them up. */
static int zero(struct raw_users *users, const struct raw_fill *fill,
		const struct raw_look *look, struct error *err)
{
	const struct raw_record map = {
		.type = RAW_MAP,
		.object = fill->object,
		.logical = fill->cluster,
		.physical = RAW_PHYSICAL(look->entry),
		.count = (uint32_t)look->n,
	};
	int r = raw_store_write_zeroes(users->store, map.physical, map.count,
				       err);

	return r < 0 ? r
		     : raw_store_change_if(users->store, &map, 1, look, err);
}

/* Inside. Returns how many clusters were seen to, or an error. */
static int64_t zero_some(struct raw_users *users, struct raw_fill *fill,
			 struct error *err)
{
	struct raw_look look;
	int r = 0;

	if (!claim(users, fill))
		return 1; /* go on behind a request that writes to it */
	/* A request may have been quicker. */
	look = look_at(users->store, fill->object, fill->cluster,
		       fill->cluster + fill->count);
	if (may_zero(&look))
		r = zero(users, fill, &look, err);
	raw_users_fill_end(users, fill);
	if (r == -EAGAIN)
		return 0;
	return r < 0 ? r : (int64_t)look.n;
}

int raw_users_zero_ahead(struct raw_users *users, uint32_t id, uint64_t *at,
			 uint64_t end, struct error *err)
{
	const uint64_t most = AT_ONCE_BYTES >>
			      raw_store_super(users->store)->cluster_shift;
	unsigned phase = raw_users_enter(users);
	struct raw_look look = {.entry = RAW_HOLE};
	int64_t n = 0;

	for (unsigned looks = 0; *at < end && looks < LOOKS; looks++) {
		look = look_at(users->store, id, *at, end);
		if (may_zero(&look))
			break;
		*at += look.n;
	}
	if (*at < end && may_zero(&look)) {
		struct raw_fill fill = {.object = id, .cluster = *at};

		fill.count = look.n < most ? look.n : most ? most : 1;
		n = zero_some(users, &fill, err);
	}
	raw_users_leave(users, phase);
	if (n > 0)
		*at += (uint64_t)n;
	return n < 0 ? (int)n : 0;
}
