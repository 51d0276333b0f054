/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/power_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLUSH  UINT64_MAX
#define SECTOR 512u /* bytes that a medium writes whole */

/* ---- the medium ---- */

static struct power *power_of(struct raw_medium *medium)
{
	return (struct power *)medium; /* its first member */
}

static int power_read(struct raw_medium *medium, void *data, size_t length,
		      uint64_t offset)
{
	struct power *power = power_of(medium);

	assert_true(offset + length <= medium->size);
	(void)pthread_mutex_lock(&power->lock);
	memcpy(data, power->bytes + offset, length);
	(void)pthread_mutex_unlock(&power->lock);
	return 0;
}

/* Lock held. */
static void record(struct power *power, uint64_t offset, const void *data,
		   enum power_write how)
{
	struct power_event *event;

	if (!power->recording)
		return;
	if (power->n == power->events_room) {
		power->events_room = power->events_room ? 2 * power->events_room
							: 1024;
		power->events = reallocarray(power->events, power->events_room,
					     sizeof(*power->events));
		assert_non_null(power->events);
	}
	event = &power->events[power->n++];
	*event = (struct power_event){
		.offset = offset,
		.maybe = how == POWER_MAYBE,
		.sure = how == POWER_AT_ONCE,
		.durable = power->answered,
		.newest = power->store ? raw_store_newest(power->store) : 0,
		.promised = power->promised,
	};
	if (data) {
		event->data = malloc(RAW_BLOCK);
		assert_non_null(event->data);
		memcpy(event->data, data, RAW_BLOCK);
	}
}

static void touch(struct power *power, uint64_t offset)
{
	if (!power->touching)
		return;
	if (power->n_touched == power->touched_room) {
		power->touched_room = power->touched_room
					      ? 2 * power->touched_room
					      : 1024;
		power->touched = reallocarray(power->touched,
					      power->touched_room,
					      sizeof(*power->touched));
		assert_non_null(power->touched);
	}
	power->touched[power->n_touched++] = offset;
}

void power_write_block(struct power *power, uint64_t offset, const void *data,
		       enum power_write how)
{
	(void)pthread_mutex_lock(&power->lock);
	memcpy(power->bytes + offset, data, RAW_BLOCK);
	touch(power, offset);
	record(power, offset, data, how);
	(void)pthread_mutex_unlock(&power->lock);
}

size_t power_events(struct power *power)
{
	size_t n;

	(void)pthread_mutex_lock(&power->lock);
	n = power->n;
	(void)pthread_mutex_unlock(&power->lock);
	return n;
}

static int power_write(struct raw_medium *medium, const void *data,
		       size_t length, uint64_t offset)
{
	struct power *power = power_of(medium);

	assert_true(offset + length <= medium->size);
	assert_true(offset % RAW_BLOCK == 0 && length % RAW_BLOCK == 0);
	if (power->fail_writes)
		return power->fail_writes;
	for (size_t at = 0; at < length; at += RAW_BLOCK) {
		const uint8_t *block = (const uint8_t *)data + at;

		if (power->before_write)
			power->before_write(power->context, offset + at);
		power_write_block(power, offset + at, block, POWER_CACHED);
	}
	return 0;
}

static int power_flush(struct raw_medium *medium)
{
	struct power *power = power_of(medium);

	const unsigned flushes = ++power->flushes;

	if (power->flushes_lost && flushes % power->flushes_lost == 0)
		return 0;
	(void)pthread_mutex_lock(&power->lock);
	record(power, FLUSH, NULL, POWER_CACHED);
	(void)pthread_mutex_unlock(&power->lock);
	return 0;
}

static const struct raw_medium_ops power_ops = {
	.read = power_read,
	.write = power_write,
	.flush = power_flush,
};

void power_init(struct power *power, uint64_t size, uint64_t room)
{
	*power = (struct power){
		.medium = {.ops = &power_ops, .size = size},
		.room = room,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	power->bytes = calloc(1, room);
	assert_non_null(power->bytes);
}

void power_done(struct power *power)
{
	for (size_t i = 0; i < power->n; i++)
		free(power->events[i].data);
	free(power->events);
	free(power->touched);
	free(power->start);
	free(power->bytes);
}

void power_record(struct power *power)
{
	power->start = malloc(power->room);
	assert_non_null(power->start);
	memcpy(power->start, power->bytes, power->room);
	power->recording = true;
}

/* ---- the failures ---- */

struct failures {
	struct power *power;
	uint8_t *flushed; /* owned; what is there for sure */
	struct power after;
	unsigned random;
	bool (*check)(void *context, struct power *after, size_t at);
	void *context;
};

static unsigned below(struct failures *failures, unsigned n)
{
	failures->random = failures->random * 1103515245 + 12345;
	return (failures->random >> 8) % n;
}

/* What the medium had when recording began. */
static void rewind_to_start(struct failures *failures)
{
	const struct power *power = failures->power;

	memcpy(failures->flushed, power->start, power->room);
	memcpy(failures->after.bytes, power->start, power->room);
}

static void put(uint8_t *bytes, const struct power_event *event)
{
	memcpy(bytes + event->offset, event->data, RAW_BLOCK);
}

static void put_there(struct failures *failures,
		      const struct power_event *event)
{
	put(failures->after.bytes, event);
	touch(&failures->after, event->offset);
}

/* Of those from @since on any may be there. */
static void leave_some(struct failures *failures, size_t since, size_t at)
{
	unsigned chance = below(failures, 5); /* none, some, all */

	for (size_t i = since; i < at; i++)
		if (failures->power->events[i].sure ||
		    below(failures, 4) < chance)
			put_there(failures, &failures->power->events[i]);
}

/* All are there, but for some sectors of the last one. */
static void leave_prefix(struct failures *failures, size_t since, size_t at)
{
	const struct power_event *last = &failures->power->events[at - 1];
	unsigned sectors = last->sure || below(failures, 2)
				   ? 0xff
				   : below(failures, 0x100);

	for (size_t i = since; i + 1 < at; i++)
		put_there(failures, &failures->power->events[i]);
	touch(&failures->after, last->offset);
	for (unsigned i = 0; i < RAW_BLOCK / SECTOR; i++)
		if (sectors >> i & 1)
			memcpy(failures->after.bytes + last->offset +
				       i * SECTOR,
			       last->data + i * SECTOR, SECTOR);
}

static void leave_none(struct failures *failures, size_t since, size_t at)
{
	for (size_t i = since; i < at; i++)
		if (failures->power->events[i].sure)
			put_there(failures, &failures->power->events[i]);
}

static void mend(struct failures *failures)
{
	struct power *after = &failures->after;

	for (size_t i = 0; i < after->n_touched; i++)
		memcpy(after->bytes + after->touched[i],
		       failures->flushed + after->touched[i], RAW_BLOCK);
	after->n_touched = 0;
}

/* Note that these writes were flushed. */
static void settle(struct failures *failures, size_t since, size_t at)
{
	for (size_t i = since; i < at; i++) {
		if (failures->power->events[i].maybe && below(failures, 2))
			continue;
		put(failures->flushed, &failures->power->events[i]);
		put(failures->after.bytes, &failures->power->events[i]);
	}
}

/* Fail power once more, before the writes of the checker were done. */
static void leave_again(struct failures *failures,
			const struct power_event *events, size_t n)
{
	const size_t end = below(failures, (unsigned)n + 1);
	size_t flushed = end;

	while (flushed > 0 && events[flushed - 1].offset != FLUSH)
		flushed--;
	for (size_t i = 0; i < end; i++)
		if ((i < flushed || below(failures, 2)) &&
		    events[i].offset != FLUSH)
			put_there(failures, &events[i]);
}

static void forget_events(struct power *power)
{
	for (size_t i = 0; i < power->n; i++)
		free(power->events[i].data);
	power->n = 0;
}

/* What @leave leaves of those between, and again while that is recovered. */
static bool look(struct failures *failures,
		 void (*leave)(struct failures *failures, size_t since,
			       size_t at),
		 size_t since, size_t at)
{
	struct power *after = &failures->after;
	const unsigned random = failures->random;
	bool more;

	after->recording = true;
	leave(failures, since, at);
	more = failures->check(failures->context, after, at);
	mend(failures);
	after->recording = false;
	if (more && after->n > 0 && !failures->power->briefly) {
		failures->random = random; /* it leaves the same */
		leave(failures, since, at);
		leave_again(failures, after->events, after->n);
		more = failures->check(failures->context, after, at);
		mend(failures);
	}
	forget_events(after);
	return more;
}

/* Before event @at; those from @since on may be lost. */
static bool fail_at(struct failures *failures, size_t since, size_t at)
{
	const bool flush = failures->power->events[at].offset == FLUSH;

	if (failures->power->briefly)
		return look(failures, leave_some, since, at);
	return look(failures, leave_some, since, at) &&
	       (at == since || look(failures, leave_prefix, since, at)) &&
	       (!flush || look(failures, leave_none, since, at));
}

void power_fail_everywhere(struct power *power, unsigned seed,
			   bool (*check)(void *context, struct power *after,
					 size_t at),
			   void *context)
{
	struct failures failures = {.power = power,
				    .random = seed,
				    .check = check,
				    .context = context};
	size_t since = 0;
	bool more = true;

	power_init(&failures.after, power->room, power->room);
	failures.after.touching = true;
	failures.flushed = malloc(power->room);
	assert_non_null(failures.flushed);
	rewind_to_start(&failures);
	for (size_t at = 0; more && at < power->n; at++) {
		more = fail_at(&failures, since, at);
		if (power->events[at].offset != FLUSH)
			continue;
		settle(&failures, since, at);
		since = at + 1;
	}
	free(failures.flushed);
	power_done(&failures.after);
}
