/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/extent_labels.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *or_dash(const char *text)
{
	return text[0] ? text : "-";
}

int extent_labels_make(const struct volume_record *record,
		       const struct volume_split *split, struct labels *ret,
		       struct error *err)
{
	const struct volume_spec *spec = &record->spec;
	char place[32], fs[LABEL_TEXT_SIZE], kind[LABEL_TEXT_SIZE];
	char stripe[40] = "";
	int r = labels_set(ret, VOLUME_LABEL_UID, record->uid, err);

	(void)snprintf(place, sizeof(place), "%u/%zu", split->index,
		       record->n_splits);
	(void)snprintf(fs, sizeof(fs), "%s %s", or_dash(spec->fs_type),
		       split->fs_uuid);
	if (volume_spec_stripe(spec))
		(void)snprintf(stripe, sizeof(stripe), "/%u/%" PRIu64,
			       spec->stripe_width, spec->stripe_unit);
	(void)snprintf(kind, sizeof(kind), "%s%s %s %s", or_dash(spec->layout),
		       stripe, or_dash(spec->policy), or_dash(spec->transport));
	if (r == 0)
		r = labels_set(ret, VOLUME_LABEL_NAME, record->name, err);
	if (r == 0)
		r = labels_set(ret, VOLUME_LABEL_SPLIT, place, err);
	if (r == 0)
		r = labels_set(ret, VOLUME_LABEL_FS, fs, err);
	return r < 0 ? r : labels_set(ret, VOLUME_LABEL_SPEC, kind, err);
}

/* The next word of *@at, at most @size - 1 bytes; "-" is none. */
static bool label_word_take(const char **at, char *ret, size_t size)
{
	size_t n = strcspn(*at, " ");

	if (n == 0 || n >= size)
		return false;
	memcpy(ret, *at, n);
	ret[n] = '\0';
	if (strcmp(ret, "-") == 0)
		ret[0] = '\0';
	*at += n;
	*at += **at == ' ';
	return true;
}

/* LAYOUT, or "stripe/WIDTH/UNIT". */
static bool label_layout_take(const char **at, struct extent_labels *ret)
{
	char word[sizeof(ret->layout) + 32];
	unsigned width = 0;
	uint64_t unit = 0;
	char *rest;
	int end = 0;

	if (!label_word_take(at, word, sizeof(word)))
		return false;
	rest = strchr(word, '/');
	if (rest &&
	    (sscanf(rest, "/%3u/%10" SCNu64 "%n", &width, &unit, &end) != 2 ||
	     rest[end]))
		return false;
	if (rest)
		*rest = '\0';
	if (strlen(word) >= sizeof(ret->layout))
		return false;
	(void)strcpy(ret->layout, word);
	ret->stripe_width = width;
	ret->stripe_unit = unit;
	return true;
}

int extent_labels_read(const struct node_extent *extent,
		       struct extent_labels *ret, struct error *err)
{
	const char *place = labels_get(&extent->labels, VOLUME_LABEL_SPLIT);
	const char *fs = labels_get(&extent->labels, VOLUME_LABEL_FS);
	const char *spec = labels_get(&extent->labels, VOLUME_LABEL_SPEC);
	const char *uid = labels_get(&extent->labels, VOLUME_LABEL_UID);
	struct extent_labels found = {0};
	int end = 0;

	if (!place || !fs || !spec)
		return error_set(
			err, EUCLEAN,
			"extent '%s' of node '%s' has no labels of its place in "
			"the volume: an older version made it. Restore the record "
			"from a backup",
			extent->name, extent->node);
	if (!uid || strlen(uid) != UUID_TEXT_SIZE - 1 ||
	    sscanf(place, "%3u/%3u%n", &found.index, &found.count, &end) != 2 ||
	    place[end] || found.index >= found.count ||
	    found.count > VOLUME_SPLITS_MAX ||
	    !label_word_take(&fs, found.fs_type, sizeof(found.fs_type)) ||
	    !label_word_take(&fs, found.fs_uuid, sizeof(found.fs_uuid)) ||
	    *fs || strlen(found.fs_uuid) != UUID_TEXT_SIZE - 1 ||
	    !label_layout_take(&spec, &found) ||
	    !label_word_take(&spec, found.policy, sizeof(found.policy)) ||
	    !label_word_take(&spec, found.transport, sizeof(found.transport)) ||
	    *spec)
		return error_set(err, EUCLEAN,
				 "the labels of extent '%s' on node '%s' make "
				 "no sense",
				 extent->name, extent->node);
	*ret = found;
	return 0;
}
