/* SPDX-License-Identifier: Apache-2.0 */
#include "base/blockdev/segments.h"

#include <errno.h>

static uint64_t least_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int stripe_check(const struct stripe *stripe, struct error *err)
{
	if (stripe->width == 0 && stripe->unit == 0)
		return 0;
	if (stripe->width < 2 || stripe->width > SEGMENTS_WIDTH_MAX)
		return error_set(err, EINVAL,
				 "a stripe is 2 to %d extents wide, not %u",
				 SEGMENTS_WIDTH_MAX, stripe->width);
	if (stripe->unit < SEGMENTS_UNIT_MIN ||
	    stripe->unit > SEGMENTS_UNIT_MAX ||
	    (stripe->unit & (stripe->unit - 1)))
		return error_set(err, EINVAL,
				 "a stripe's unit is a power of two from 4 KiB "
				 "to 4 MiB, not %llu bytes",
				 (unsigned long long)stripe->unit);
	return 0;
}

/* The parts of a set are of one size. */
static int check_set(const struct stripe *stripe, const uint64_t *sizes,
		     unsigned first, struct error *err)
{
	for (unsigned i = first; i < first + stripe->width; i++) {
		if (sizes[i] != sizes[first])
			return error_set(err, EINVAL,
					 "parts %u and %u of one stripe have "
					 "%llu and %llu bytes",
					 first, i,
					 (unsigned long long)sizes[first],
					 (unsigned long long)sizes[i]);
	}
	if (sizes[first] % stripe->unit)
		return error_set(err, EINVAL,
				 "part %u of a stripe has %llu bytes, not "
				 "whole units of %llu",
				 first, (unsigned long long)sizes[first],
				 (unsigned long long)stripe->unit);
	return 0;
}

static int segment_add(struct segments *s, const struct segment *segment,
		       struct error *err)
{
	if (segment->length > INT64_MAX - s->size)
		return error_set(err, ERANGE,
				 "the parts are too large together");
	s->items[s->n] = *segment;
	s->items[s->n++].start = s->size;
	s->size += segment->length;
	return 0;
}

int segments_make(const struct stripe *stripe, const uint64_t *sizes,
		  size_t n_parts, struct segments *ret, struct error *err)
{
	const unsigned width = stripe->width ? stripe->width : 1;
	struct segments s = {.n_parts = (unsigned)n_parts};
	int r = stripe_check(stripe, err);

	if (r < 0)
		return r;
	if (n_parts == 0 || n_parts > SEGMENTS_PARTS_MAX || n_parts % width)
		return error_set(err, EINVAL,
				 "a device has 1 to %d parts, in sets of %u, "
				 "not %zu",
				 SEGMENTS_PARTS_MAX, width, n_parts);
	for (unsigned i = 0; r == 0 && i < n_parts; i += width) {
		struct segment one = {
			.first = i, .width = width, .unit = stripe->unit};

		if (sizes[i] == 0 ||
		    __builtin_mul_overflow(sizes[i], width, &one.length))
			return error_set(err, sizes[i] ? ERANGE : EINVAL,
					 "part %u has %llu bytes", i,
					 (unsigned long long)sizes[i]);
		if (stripe->width)
			r = check_set(stripe, sizes, i, err);
		if (r == 0)
			r = segment_add(&s, &one, err);
	}
	if (r == 0)
		*ret = s;
	return r;
}

/* The segment that has @offset, which is in the device. */
static const struct segment *segment_at(const struct segments *s,
					uint64_t offset)
{
	size_t low = 0, high = s->n;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (s->items[middle].start <= offset)
			low = middle;
		else
			high = middle;
	}
	return &s->items[low];
}

uint64_t segments_place(const struct segments *s, unsigned part,
			uint64_t offset, uint64_t *ret_run)
{
	const struct segment *segment = s->items;
	uint64_t unit;

	while (part >= segment->first + segment->width)
		segment++;
	if (segment->width == 1) {
		*ret_run = segment->length - offset;
		return segment->start + offset;
	}
	unit = offset / segment->unit * segment->width + part - segment->first;
	*ret_run = segment->unit - offset % segment->unit;
	return segment->start + unit * segment->unit + offset % segment->unit;
}

static bool next_data(const struct segments *s, struct segment_walk *w,
		      struct segment_piece *ret)
{
	const struct segment *segment;
	uint64_t at, unit;

	if (w->done == w->length)
		return false;
	segment = segment_at(s, w->offset + w->done);
	at = w->offset + w->done - segment->start;
	ret->at = w->done;
	ret->length = least_of(w->length - w->done, segment->length - at);
	ret->part = segment->first;
	ret->offset = at;
	if (segment->width > 1) {
		unit = at / segment->unit;
		ret->part += (unsigned)(unit % segment->width);
		ret->offset = unit / segment->width * segment->unit +
			      at % segment->unit;
		ret->length = least_of(ret->length,
				       segment->unit - at % segment->unit);
	}
	ret->length = least_of(ret->length, w->piece_max);
	w->done += ret->length;
	return true;
}

/* How much of a column lies before the byte @at of its striped segment. */
static uint64_t column_before(const struct segment *segment, unsigned column,
			      uint64_t at)
{
	uint64_t unit = at / segment->unit, in_unit = at % segment->unit;
	uint64_t whole = unit / segment->width;

	if (column < unit % segment->width)
		return (whole + 1) * segment->unit;
	return whole * segment->unit +
	       (column == unit % segment->width ? in_unit : 0);
}

static bool next_no_data(const struct segments *s, struct segment_walk *w,
			 struct segment_piece *ret)
{
	const uint64_t end = w->offset + w->length;

	for (; w->segment < s->n; w->segment++, w->column = 0) {
		const struct segment *segment = &s->items[w->segment];
		uint64_t from, to;

		if (segment->start >= end)
			return false;
		if (segment->start + segment->length <= w->offset)
			continue;
		from = w->offset > segment->start ? w->offset - segment->start
						  : 0;
		to = least_of(end - segment->start, segment->length);
		for (; w->column < segment->width; w->column++, w->done = 0) {
			uint64_t first = from, last = to;

			if (segment->width > 1) {
				first = column_before(segment, w->column, from);
				last = column_before(segment, w->column, to);
			}
			if (first + w->done >= last)
				continue;
			ret->part = segment->first + w->column;
			ret->offset = first + w->done;
			ret->length = least_of(last - ret->offset,
					       w->piece_max);
			ret->at = 0;
			w->done += ret->length;
			return true;
		}
	}
	return false;
}

bool segments_next(const struct segments *segments, struct segment_walk *walk,
		   struct segment_piece *ret)
{
	return walk->no_data ? next_no_data(segments, walk, ret)
			     : next_data(segments, walk, ret);
}
