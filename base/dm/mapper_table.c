/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dm/mapper_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"

static const char *const kind_names[] = {
	[MAPPER_LINEAR] = "linear",
	[MAPPER_STRIPED] = "striped",
	[MAPPER_ERROR] = "error",
};

void mapper_table_done(struct mapper_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->segments[i].places);
	free(table->segments);
	*table = (struct mapper_table){.segments = NULL};
}

static bool same_place(const struct mapper_place *a,
		       const struct mapper_place *b)
{
	return a->device == b->device && a->offset == b->offset;
}

/* Does @b go on where @a ends? */
static bool goes_on(const struct mapper_segment *a,
		    const struct mapper_segment *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == MAPPER_ERROR)
		return true;
	return a->kind == MAPPER_LINEAR && a->place.device == b->place.device &&
	       a->place.offset + a->length == b->place.offset;
}

/* Takes segment->places on success. */
static int table_add(struct mapper_table *table,
		     const struct mapper_segment *segment)
{
	uint64_t size, end;
	bool wraps = __builtin_add_overflow(table->size, segment->length,
					    &size) ||
		     __builtin_add_overflow(segment->place.offset,
					    segment->length, &end);

	if (wraps || size > INT64_MAX || end > INT64_MAX || !segment->length ||
	    segment->length % MAPPER_SECTOR ||
	    segment->place.offset % MAPPER_SECTOR)
		return -EINVAL;
	if (table->count &&
	    goes_on(&table->segments[table->count - 1], segment)) {
		table->segments[table->count - 1].length += segment->length;
		table->size = size;
		return 0;
	}
	if (table->count == table->room) {
		size_t room = table->room ? 2 * table->room : 8;
		struct mapper_segment *more = realloc(table->segments,
						      room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		table->segments = more;
		table->room = room;
	}
	table->segments[table->count] = *segment;
	table->segments[table->count++].start = table->size;
	table->size = size;
	return 0;
}

int mapper_table_add_linear(struct mapper_table *table, uint64_t length,
			    dev_t device, uint64_t offset)
{
	struct mapper_segment segment = {
		.kind = MAPPER_LINEAR,
		.length = length,
		.place = {.device = device, .offset = offset},
	};

	return table_add(table, &segment);
}

int mapper_table_add_error(struct mapper_table *table, uint64_t length)
{
	struct mapper_segment segment = {
		.kind = MAPPER_ERROR,
		.length = length,
	};

	return table_add(table, &segment);
}

/* For the table of a device that is not ours. */
static int add_other(struct mapper_table *table, uint64_t length)
{
	struct mapper_segment segment = {
		.kind = MAPPER_OTHER,
		.length = length,
	};

	return table_add(table, &segment);
}

int mapper_table_add_striped(struct mapper_table *table, uint64_t length,
			     uint64_t chunk, const struct mapper_place *places,
			     unsigned stripes)
{
	struct mapper_segment segment = {
		.kind = MAPPER_STRIPED,
		.length = length,
		.chunk = chunk,
		.stripes = stripes,
	};
	auto_free struct mapper_place *copy = NULL;
	uint64_t row;
	int r;

	if (!stripes || stripes > MAPPER_STRIPES_MAX || !chunk ||
	    chunk % MAPPER_SECTOR ||
	    __builtin_mul_overflow(chunk, stripes, &row) || length % row)
		return -EINVAL;
	for (unsigned i = 0; i < stripes; i++)
		if (places[i].offset % MAPPER_SECTOR ||
		    places[i].offset > INT64_MAX - length / stripes)
			return -EINVAL;
	copy = malloc(stripes * sizeof(*places));
	if (!copy)
		return -ENOMEM;
	memcpy(copy, places, stripes * sizeof(*places));
	segment.places = copy;
	r = table_add(table, &segment);
	if (!r)
		copy = NULL;
	return r;
}

const struct mapper_segment *mapper_table_find(const struct mapper_table *table,
					       uint64_t offset)
{
	size_t low = 0, high = table->count;

	if (offset >= table->size)
		return NULL;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (table->segments[middle].start <= offset)
			low = middle;
		else
			high = middle;
	}
	return &table->segments[low];
}

bool mapper_segment_place(const struct mapper_segment *segment, uint64_t offset,
			  struct mapper_place *ret, uint64_t *ret_length)
{
	uint64_t at = offset - segment->start, number, within;

	switch (segment->kind) {
	case MAPPER_LINEAR:
		*ret = segment->place;
		ret->offset += at;
		*ret_length = segment->length - at;
		return true;
	case MAPPER_STRIPED:
		number = at / segment->chunk;
		within = at % segment->chunk;
		*ret = segment->places[number % segment->stripes];
		ret->offset += number / segment->stripes * segment->chunk +
			       within;
		*ret_length = segment->chunk - within;
		return true;
	case MAPPER_ERROR:
	case MAPPER_OTHER: break;
	}
	return false;
}

static bool segment_equal(const struct mapper_segment *a,
			  const struct mapper_segment *b)
{
	if (a->kind != b->kind || a->length != b->length)
		return false;
	if (a->kind == MAPPER_LINEAR)
		return same_place(&a->place, &b->place);
	if (a->kind != MAPPER_STRIPED)
		return a->kind == MAPPER_ERROR;
	if (a->chunk != b->chunk || a->stripes != b->stripes)
		return false;
	for (unsigned i = 0; i < a->stripes; i++)
		if (!same_place(&a->places[i], &b->places[i]))
			return false;
	return true;
}

bool mapper_table_equal(const struct mapper_table *a,
			const struct mapper_table *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (!segment_equal(&a->segments[i], &b->segments[i]))
			return false;
	return true;
}

static bool segment_has_device(const struct mapper_segment *s, dev_t device)
{
	if (s->kind == MAPPER_LINEAR)
		return s->place.device == device;
	for (unsigned i = 0; i < s->stripes; i++)
		if (s->places[i].device == device)
			return true;
	return false;
}

bool mapper_table_has_device(const struct mapper_table *table, dev_t device)
{
	for (size_t i = 0; i < table->count; i++)
		if (segment_has_device(&table->segments[i], device))
			return true;
	return false;
}

bool mapper_table_is_error(const struct mapper_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->segments[i].kind != MAPPER_ERROR)
			return false;
	return table->count > 0;
}

/* ---- text ---- */

static void encode_place(FILE *out, const struct mapper_place *p)
{
	(void)fprintf(out, " %u:%u %" PRIu64, major(p->device),
		      minor(p->device), p->offset / MAPPER_SECTOR);
}

static void encode_segment(FILE *out, const struct mapper_segment *s)
{
	(void)fprintf(out, "%" PRIu64 " %" PRIu64 " %s",
		      s->start / MAPPER_SECTOR, s->length / MAPPER_SECTOR,
		      kind_names[s->kind]);
	if (s->kind == MAPPER_LINEAR)
		encode_place(out, &s->place);
	if (s->kind == MAPPER_STRIPED)
		(void)fprintf(out, " %u %" PRIu64, s->stripes,
			      s->chunk / MAPPER_SECTOR);
	for (unsigned i = 0; i < s->stripes; i++)
		encode_place(out, &s->places[i]);
	(void)fputc('\n', out);
}

char *mapper_table_encode(const struct mapper_table *table)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	for (size_t i = 0; i < table->count; i++)
		if (table->segments[i].kind != MAPPER_OTHER)
			encode_segment(out, &table->segments[i]);
	if (fclose(out)) { /* the only check needed: it keeps the error */
		free(text);
		return NULL;
	}
	return text;
}

/* Take the next word, a number of sectors, as bytes. */
static bool take_sectors(char **at, uint64_t *ret)
{
	const char *word = strsep(at, " ");
	char *end;
	uint64_t n;

	if (!word || *word < '0' || *word > '9')
		return false;
	errno = 0;
	n = strtoull(word, &end, 10);
	return !errno && !*end && n <= INT64_MAX / MAPPER_SECTOR &&
	       !__builtin_mul_overflow(n, MAPPER_SECTOR, ret);
}

/* "7:3 2048" */
static bool take_place(char **at, struct mapper_place *ret)
{
	const char *word = strsep(at, " ");
	unsigned ma, mi;
	int end = 0;

	if (!word || sscanf(word, "%u:%u%n", &ma, &mi, &end) != 2 || word[end])
		return false;
	ret->device = makedev(ma, mi);
	return take_sectors(at, &ret->offset);
}

/* A number of stripes. */
static bool take_stripes(char **at, unsigned *ret)
{
	const char *word = strsep(at, " ");
	unsigned long n;
	char *end;

	if (!word || *word < '0' || *word > '9')
		return false;
	n = strtoul(word, &end, 10);
	*ret = (unsigned)n;
	return !*end && n && n <= MAPPER_STRIPES_MAX;
}

static int decode_striped(struct mapper_table *table, uint64_t length, char *at)
{
	auto_free struct mapper_place *places = NULL;
	unsigned stripes;
	uint64_t chunk;

	if (!take_stripes(&at, &stripes) || !take_sectors(&at, &chunk))
		return -EINVAL;
	places = calloc(stripes, sizeof(*places));
	if (!places)
		return -ENOMEM;
	for (unsigned i = 0; i < stripes; i++)
		if (!take_place(&at, &places[i]))
			return -EINVAL;
	if (at)
		return -EINVAL;
	return mapper_table_add_striped(table, length, chunk, places, stripes);
}

static int decode_line(struct mapper_table *table, char *line)
{
	struct mapper_place place;
	uint64_t start, length;
	const char *kind;

	if (!take_sectors(&line, &start) || !take_sectors(&line, &length) ||
	    start != table->size)
		return -EINVAL;
	kind = strsep(&line, " ");
	if (!kind || !*kind)
		return -EINVAL;
	if (!strcmp(kind, kind_names[MAPPER_ERROR]))
		return mapper_table_add_error(table, length);
	if (!strcmp(kind, kind_names[MAPPER_STRIPED]))
		return decode_striped(table, length, line);
	if (strcmp(kind, kind_names[MAPPER_LINEAR]) != 0)
		return add_other(table, length);
	if (!take_place(&line, &place) || line)
		return -EINVAL;
	return mapper_table_add_linear(table, length, place.device,
				       place.offset);
}

static int decode_lines(struct mapper_table *table, char *text,
			struct error *err)
{
	unsigned number = 0;
	char *line;

	while ((line = strsep(&text, "\n"))) {
		int r;

		number++;
		r = *line ? decode_line(table, line) : 0;
		if (r < 0)
			return error_set(err, -r, "line %u of a table: %s",
					 number, strerror(-r));
	}
	return 0;
}

int mapper_table_decode(const char *text, struct mapper_table *ret,
			struct error *err)
{
	struct mapper_table table = {.count = 0};
	auto_free char *copy = strdup(text);
	int r = copy ? decode_lines(&table, copy, err)
		     : error_set(err, ENOMEM, "no memory for a table");

	if (r < 0) {
		mapper_table_done(&table);
		return r;
	}
	*ret = table;
	return 0;
}
