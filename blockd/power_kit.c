/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/power_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FLUSH UINT64_MAX

/* ---- the medium ---- */

static struct power *power_of(struct raw_medium *medium)
{
	return (struct power *)medium; /* its first member */
}

static int power_read(struct raw_medium *medium, void *data, size_t length,
		      uint64_t offset)
{
	assert_true(offset + length <= medium->size);
	memcpy(data, power_of(medium)->bytes + offset, length);
	return 0;
}

static void record(struct power *power, uint64_t offset, const void *data)
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
		memcpy(power->bytes + offset + at, block, RAW_BLOCK);
		touch(power, offset + at);
		record(power, offset + at, block);
	}
	return 0;
}

static int power_flush(struct raw_medium *medium)
{
	struct power *power = power_of(medium);

	if (power->flushes_lost && ++power->flushes % power->flushes_lost == 0)
		return 0;
	record(power, FLUSH, NULL);
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

/* Of those from @since on any may be there. */
static void tear(struct failures *failures, size_t since, size_t at)
{
	unsigned chance = below(failures, 5); /* none, some, all */

	for (size_t i = since; i < at; i++) {
		const struct power_event *event = &failures->power->events[i];

		if (below(failures, 4) >= chance)
			continue;
		put(failures->after.bytes, event);
		touch(&failures->after, event->offset);
	}
}

static void mend(struct failures *failures)
{
	struct power *after = &failures->after;

	for (size_t i = 0; i < after->n_touched; i++)
		memcpy(after->bytes + after->touched[i],
		       failures->flushed + after->touched[i], RAW_BLOCK);
	after->n_touched = 0;
}

/* They were flushed. */
static void settle(struct failures *failures, size_t since, size_t at)
{
	for (size_t i = since; i < at; i++) {
		put(failures->flushed, &failures->power->events[i]);
		put(failures->after.bytes, &failures->power->events[i]);
	}
}

void power_fail_everywhere(struct power *power, unsigned seed,
			   bool (*check)(void *context, struct power *after,
					 size_t at),
			   void *context)
{
	struct failures failures = {.power = power, .random = seed};
	size_t since = 0;
	bool more = true;

	power_init(&failures.after, power->room, power->room);
	failures.after.touching = true;
	failures.flushed = malloc(power->room);
	assert_non_null(failures.flushed);
	rewind_to_start(&failures);
	for (size_t at = 0; more && at < power->n; at++) {
		tear(&failures, since, at);
		more = check(context, &failures.after, at);
		mend(&failures);
		if (power->events[at].offset != FLUSH)
			continue;
		settle(&failures, since, at);
		since = at + 1;
	}
	free(failures.flushed);
	power_done(&failures.after);
}
