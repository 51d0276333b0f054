/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/csi_name.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define HASH_DIGITS   26 /* of 5 bits: 128 bits */
#define READABLE_MAX  (VOLUME_NAME_MAX - HASH_DIGITS - 1)
#define TOKEN_PREFIX  "after:"
#define ID_SEPARATOR  '@'    /* which no name has */
#define INLINE_PREFIX "csi-" /* Kubernetes, makeVolumeHandle() */
#define INLINE_DIGITS 64

_Static_assert(READABLE_MAX == 32, "the readable part of a name");

static int volume_name_check(const char *name)
{
	if (strlen(name) > VOLUME_NAME_MAX)
		return -EINVAL;
	return name_check("volume", name, NULL);
}

/* FNV-1a of 128 bits (draft-eastlake-fnv, section 5). */
static unsigned __int128 hash(const char *text)
{
	const unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
	unsigned __int128 h = ((unsigned __int128)0x6c62272e07bb0142u << 64) |
			      0x62b821756295c58du;

	for (; *text; text++) {
		h ^= (unsigned char)*text;
		h *= prime;
	}
	return h;
}

static void hash_format(unsigned __int128 h, char *ret)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";

	for (int i = HASH_DIGITS - 1; i >= 0; i--) {
		ret[i] = digits[(unsigned)h & 31];
		h >>= 5;
	}
	ret[HASH_DIGITS] = '\0';
}

/* Letters and digits, each run of others one '-'; none at the ends. */
static size_t readable(const char *text, char *ret, size_t max)
{
	size_t n = 0;

	for (; *text && n < max; text++) {
		unsigned char c = (unsigned char)*text;

		if (isascii(c) && isalnum(c))
			ret[n++] = (char)tolower(c);
		else if (n > 0 && ret[n - 1] != '-')
			ret[n++] = '-';
	}
	while (n > 0 && ret[n - 1] == '-')
		n--;
	ret[n] = '\0';
	return n;
}

/* @max: bytes of the name */
static void map(const char *csi_name, size_t max, char *ret)
{
	char digits[HASH_DIGITS + 1], words[READABLE_MAX + 1];

	if (volume_name_check(csi_name) == 0 && strlen(csi_name) <= max) {
		(void)strcpy(ret, csi_name);
		return;
	}
	hash_format(hash(csi_name), digits);
	(void)snprintf(ret, RECORD_NAME_SIZE, "%s-%s",
		       readable(csi_name, words, max - HASH_DIGITS - 1)
			       ? words
			       : "volume",
		       digits);
}

void csi_name_map(const char *csi_name, char *ret)
{
	map(csi_name, VOLUME_NAME_MAX, ret);
}

void csi_group_name_map(const char *csi_name, char *ret)
{
	map(csi_name, CSI_GROUP_NAME_MAX, ret);
}

/* ---- ids ---- */

static bool is_uuid(const char *text)
{
	for (int i = 0; i < UUID_TEXT_SIZE - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-'
			 : !text[i] || !strchr("0123456789abcdef", text[i]))
			return false;
	}
	return text[UUID_TEXT_SIZE - 1] == '\0';
}

int csi_id_parse(const char *text, struct csi_id *ret)
{
	const char *at = strchr(text, ID_SEPARATOR);
	size_t length = at ? (size_t)(at - text) : strlen(text);
	struct csi_id id = {0};

	if (length > VOLUME_NAME_MAX || (at && !is_uuid(at + 1)))
		return -EINVAL;
	memcpy(id.name, text, length);
	if (volume_name_check(id.name) < 0)
		return -EINVAL;
	if (at)
		(void)strcpy(id.uid, at + 1);
	*ret = id;
	return 0;
}

int csi_inline_id_parse(const char *text, struct csi_id *ret)
{
	size_t prefix = strlen(INLINE_PREFIX);
	struct csi_id id = {0};

	if (strlen(text) != prefix + INLINE_DIGITS ||
	    strncmp(text, INLINE_PREFIX, prefix) != 0 ||
	    strspn(text + prefix, "0123456789abcdef") != INLINE_DIGITS)
		return -EINVAL;
	(void)strcpy(id.inline_id, text);
	csi_name_map(text, id.name);
	*ret = id;
	return 0;
}

const char *csi_id_format(char *buf, const char *name, const char *uid)
{
	(void)snprintf(buf, CSI_ID_SIZE, "%s%c%s", name, ID_SEPARATOR, uid);
	return buf;
}

bool csi_id_matches(const struct csi_id *id, const struct volume_record *record)
{
	const char *name = labels_get(&record->labels, CSI_LABEL_NAME);

	if (strcmp(id->name, record->name) != 0)
		return false;
	if (id->inline_id[0])
		return csi_record_is_inline(record) && name &&
		       strcmp(id->inline_id, name) == 0;
	return !csi_record_is_inline(record) &&
	       (!id->uid[0] || strcmp(id->uid, record->uid) == 0);
}

bool csi_record_is_inline(const struct volume_record *record)
{
	return labels_get(&record->labels, CSI_LABEL_INLINE);
}

/* ---- tokens ---- */

size_t csi_page_size(int32_t max_entries)
{
	return max_entries > 0 && max_entries < CSI_PAGE_MAX
		       ? (size_t)max_entries
		       : CSI_PAGE_MAX;
}

/* Printable ASCII without a blank. */
static bool is_mark(const char *text)
{
	if (!text[0] || strlen(text) >= RECORD_MARK_SIZE)
		return false;
	for (; *text; text++) {
		if (*text <= ' ' || *text > '~')
			return false;
	}
	return true;
}

/* "after:NAME" or "after:NAME MARK" */
int csi_token_parse(const char *token, struct record_place *ret)
{
	size_t prefix = strlen(TOKEN_PREFIX), length;
	struct record_place place = {0};

	if (!token[0]) {
		*ret = place;
		return 0;
	}
	if (strncmp(token, TOKEN_PREFIX, prefix) != 0)
		return -EINVAL;
	token += prefix;
	length = strcspn(token, " ");
	if (length >= sizeof(place.after))
		return -EINVAL;
	memcpy(place.after, token, length);
	if (volume_name_check(place.after) < 0)
		return -EINVAL;
	if (token[length]) {
		if (!is_mark(token + length + 1))
			return -EINVAL;
		(void)strcpy(place.mark, token + length + 1);
	}
	*ret = place;
	return 0;
}

const char *csi_token_format(char *buf, const struct record_place *place)
{
	(void)snprintf(buf, CSI_TOKEN_SIZE, TOKEN_PREFIX "%s%s%s", place->after,
		       place->mark[0] ? " " : "", place->mark);
	return buf;
}
