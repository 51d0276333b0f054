/* SPDX-License-Identifier: Apache-2.0 */
/* A new user waits for requests that earlier users had received before. */
#include <errno.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "target/export/export_table_internal.h"

/* Time for received requests to be taken up; ours. */
#define CATCH_UP_MS 1000

uint64_t export_table_round(const struct export_table *table)
{
	return atomic_load(&table->round);
}

/*
 * Tell whether nothing of @other's from before @user came can reach the device.
 */
static bool is_settled(const struct export_user *other,
		       const struct export_user *user)
{
	uint64_t oldest = atomic_load(&other->oldest);

	return !other->ask || (other->caught_up >= user->round &&
			       (oldest == 0 || oldest >= other->caught_at));
}

int export_table_settle(struct export_table *table, struct export_user *user)
{
	int r = 0;

	pthread_mutex_lock(&table->lock);
	if (!user->round) {
		user->round = atomic_fetch_add(&table->round, 1) + 1;
		user->waits_ms = clock_ms();
	}
	for (struct export_user *other = user->entry->users; other;
	     other = other->next) {
		if (other == user || is_settled(other, user))
			continue;
		r = -EAGAIN;
		if (other->asked || other->caught_up >= user->round)
			continue;
		other->asked = true;
		other->ask(other);
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

/*
 * Tell whether another user has waited for @user for too long. The lock is
 * held.
 */
static bool holds_up(const struct export_user *user)
{
	const int64_t before_ms = clock_ms() - CATCH_UP_MS;

	for (struct export_user *other = user->entry ? user->entry->users
						     : NULL;
	     other; other = other->next)
		if (other != user && other->round > user->caught_up &&
		    other->waits_ms < before_ms)
			return true;
	return false;
}

bool export_table_answer(struct export_table *table, struct export_user *user,
			 uint64_t round)
{
	bool ok;

	pthread_mutex_lock(&table->lock);
	user->asked = false;
	if (round) {
		user->caught_up = round;
		/*
		 * Requests that the user began on the way are of before, too.
		 */
		user->caught_at = atomic_fetch_add(&table->round, 1) + 1;
	}
	ok = !holds_up(user);
	pthread_mutex_unlock(&table->lock);
	return ok;
}

bool export_table_is_asked(struct export_table *table,
			   const struct export_user *user)
{
	bool asked;

	pthread_mutex_lock(&table->lock);
	asked = user->asked;
	pthread_mutex_unlock(&table->lock);
	return asked;
}
