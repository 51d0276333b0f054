/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"

int parts_set(struct parts *parts, unsigned index, const char *address,
	      const char *export_name, uint64_t size, struct error *err)
{
	struct part *part = &parts->items[index];

	if (!*address || strlen(address) >= sizeof(part->address) ||
	    !*export_name || strlen(export_name) >= sizeof(part->export_name))
		return error_set(err, EINVAL,
				 "part %u: an address has 1 to %zu bytes, an "
				 "export's name 1 to %zu",
				 index, sizeof(part->address) - 1,
				 sizeof(part->export_name) - 1);
	(void)strcpy(part->address, address);
	(void)strcpy(part->export_name, export_name);
	part->size = size;
	part->incarnation[0] = 0;
	return 0;
}

static bool word_ok(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || *text == 0x7f)
			return false;
	return true;
}

int parts_keep_incarnation(struct part *part, const char *description,
			   struct error *err)
{
	if (part->incarnation[0] && strcmp(part->incarnation, description) != 0)
		return error_set(
			err, ESTALE,
			"the server of export '%s' is another "
			"incarnation now: unflushed writes may be lost",
			part->export_name);
	if (strlen(description) < sizeof(part->incarnation) &&
	    word_ok(description))
		(void)strcpy(part->incarnation, description);
	return 0;
}

int parts_segments(const struct parts *parts, struct segments *ret,
		   struct error *err)
{
	uint64_t sizes[SEGMENTS_PARTS_MAX];

	for (unsigned i = 0; i < parts->n; i++)
		sizes[i] = parts->items[i].size;
	return segments_make(&parts->stripe, sizes, parts->n, ret, err);
}

int parts_check_grown(const struct parts *before, const struct parts *now,
		      struct error *err)
{
	if (now->stripe.width != before->stripe.width ||
	    now->stripe.unit != before->stripe.unit || now->n < before->n)
		return error_set(err, EINVAL,
				 "it has fewer parts, or another stripe");
	for (unsigned i = 0; i < before->n; i++) {
		const struct part *a = &before->items[i], *b = &now->items[i];
		bool may_grow = !before->stripe.width && i == before->n - 1;

		if (strcmp(a->address, b->address) != 0 ||
		    strcmp(a->export_name, b->export_name) != 0)
			return error_set(err, EINVAL,
					 "part %u is '%s' of %s, not '%s' of "
					 "%s",
					 i, a->export_name, a->address,
					 b->export_name, b->address);
		if (b->size < a->size || (b->size > a->size && !may_grow))
			return error_set(err, EINVAL,
					 "part %u has %" PRIu64 " bytes, and "
					 "not %" PRIu64,
					 i, a->size, b->size);
	}
	return 0;
}

int parts_take_place(const struct parts *before, struct parts *now,
		     struct error *err)
{
	auto_free struct parts *moved = malloc(sizeof(*moved));
	int r;

	if (!moved)
		return error_set(err, ENOMEM, "no memory for a list of parts");
	*moved = *before;
	for (unsigned i = 0; i < before->n && i < now->n; i++)
		(void)strcpy(moved->items[i].address, now->items[i].address);
	r = parts_check_grown(moved, now, err);
	for (unsigned i = 0; r == 0 && i < before->n; i++)
		(void)strcpy(now->items[i].incarnation,
			     before->items[i].incarnation);
	return r;
}

char *parts_encode(const struct parts *parts)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	(void)fprintf(out, "version=1\nstripe=%u %" PRIu64 "\n",
		      parts->stripe.width, parts->stripe.unit);
	for (unsigned i = 0; i < parts->n; i++)
		(void)fprintf(out, "part=%" PRIu64 " %s %s%s%s\n",
			      parts->items[i].size, parts->items[i].address,
			      parts->items[i].export_name,
			      *parts->items[i].incarnation ? " " : "",
			      parts->items[i].incarnation);
	if (fclose(out)) { /* the only check needed: it keeps the error */
		free(text);
		return NULL;
	}
	return text;
}

/* One number of decimal digits, and the space or the end behind it. */
static bool take_number(char **at, uint64_t max, uint64_t *ret)
{
	char *word = strsep(at, " ");
	uint64_t n = 0;

	if (!word || !*word)
		return false;
	for (; *word; word++) {
		if (*word < '0' || *word > '9' ||
		    __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*word - '0'), &n))
			return false;
	}
	*ret = n;
	return n <= max;
}

static int parts_decode_line(char *line, struct parts *parts)
{
	char *at = strchr(line, '='), *address, *export_name, *incarnation;
	uint64_t number;

	if (!at)
		return -EINVAL;
	*at++ = 0;
	if (strcmp(line, "stripe") == 0) {
		if (!take_number(&at, SEGMENTS_WIDTH_MAX, &number) ||
		    !take_number(&at, SEGMENTS_UNIT_MAX, &parts->stripe.unit))
			return -EINVAL;
		parts->stripe.width = (unsigned)number;
		return at ? -EINVAL : 0;
	}
	if (strcmp(line, "part") != 0 || parts->n == SEGMENTS_PARTS_MAX ||
	    !take_number(&at, INT64_MAX, &number))
		return -EINVAL;
	address = strsep(&at, " ");
	export_name = strsep(&at, " ");
	incarnation = strsep(&at, " ");
	if (!address || !export_name || at ||
	    parts_set(parts, parts->n, address, export_name, number, NULL) < 0)
		return -EINVAL;
	if (incarnation &&
	    (!*incarnation || strlen(incarnation) >= PARTS_WORD_SIZE))
		return -EINVAL;
	if (incarnation)
		(void)strcpy(parts->items[parts->n].incarnation, incarnation);
	parts->n++;
	return 0;
}

int parts_decode(const char *text, size_t length, struct parts *ret,
		 struct error *err)
{
	auto_free char *copy = NULL;
	struct segments segments;
	unsigned number = 0;
	char *next, *line;

	memset(ret, 0, sizeof(*ret));
	if (length > PARTS_FILE_MAX || memchr(text, 0, length))
		return error_set(err, EINVAL, "the list of parts is not text");
	copy = strndup(text, length);
	if (!copy)
		return error_set(err, ENOMEM, "no memory for a list of parts");
	next = copy;
	while ((line = strsep(&next, "\n"))) {
		if (number++ ? *line && parts_decode_line(line, ret) < 0
			     : strcmp(line, "version=1") != 0)
			return error_set(err, EINVAL,
					 "line %u of the list of parts is "
					 "damaged",
					 number);
	}
	return parts_segments(ret, &segments, err);
}

int parts_load(int dirfd, const char *path, struct parts **ret,
	       struct error *err)
{
	auto_free struct parts *parts = malloc(sizeof(*parts));
	auto_free char *text = NULL;
	size_t length;
	int r;

	if (!parts)
		return error_set(err, ENOMEM, "no memory for a list of parts");
	r = file_read(dirfd, path, PARTS_FILE_MAX, &text, &length, err);
	if (r == 0)
		r = parts_decode(text, length, parts, err);
	if (r < 0)
		return error_prefix(err, r, "%s: ", path);
	*ret = take_ptr(parts);
	return 0;
}

int parts_save(int dirfd, const char *path, const struct parts *parts,
	       struct error *err)
{
	auto_free char *text = NULL;

	for (unsigned i = 0; i < parts->n; i++) {
		if (!word_ok(parts->items[i].address) ||
		    !word_ok(parts->items[i].export_name))
			return error_set(err, EINVAL,
					 "part %u, '%s' of '%s', has a space",
					 i, parts->items[i].export_name,
					 parts->items[i].address);
	}
	text = parts_encode(parts);

	if (!text)
		return error_set(err, ENOMEM, "no memory for a list of parts");
	return file_replace(dirfd, path, text, strlen(text), 0600, err);
}
