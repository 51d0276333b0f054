/* SPDX-License-Identifier: Apache-2.0 */
#include "union/config/branch_spec.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "union/sys/branch_flags.h"

#define WORD_MAX 32 /* bytes; the longest size is shorter */

static const struct {
	const char *word;
	unsigned flag;
	bool mode; /* there is one mode */
} words[] = {
	{"rw", 0, true},
	{"ro", BRANCH_RO, true},
	{"nc", BRANCH_NC, true},
	{"absent", BRANCH_ABSENT, true},
	{"local", BRANCH_LOCAL, false},
};

static int parse_word(const char *word, bool *mode_seen,
		      struct branch_spec *ret, struct error *err)
{
	struct error ignored = {0};
	size_t i;

	for (i = 0; i < array_size(words); i++) {
		if (strcasecmp(words[i].word, word) != 0)
			continue;
		if (words[i].mode && *mode_seen)
			return error_set(err, EINVAL,
					 "branch flag '%s': a branch has one "
					 "mode",
					 word);
		*mode_seen |= words[i].mode;
		ret->flags |= words[i].flag;
		return 0;
	}
	if (ret->min_free == BRANCH_MIN_FREE_UNION &&
	    size_parse(word, &ret->min_free, &ignored) == 0)
		return 0;
	return error_set(err, EINVAL,
			 "branch flag '%s': there are rw, ro, nc, absent, "
			 "local and one size; a '=' or ':' in a path is "
			 "written '\\=' or '\\:'",
			 word);
}

static int parse_flags(const char *text, size_t length, struct branch_spec *ret,
		       struct error *err)
{
	const char *end = text + length;
	bool mode_seen = false;
	char word[WORD_MAX];
	size_t n;
	int r = 0;

	while (text < end && r == 0) {
		n = strcspn(text, ",");
		if (n > (size_t)(end - text))
			n = (size_t)(end - text);
		(void)snprintf(word, sizeof(word), "%.*s", (int)n, text);
		/* A word that was cut matches none. */
		r = parse_word(word, &mode_seen, ret, err);
		text += n + 1;
	}
	return r;
}

const char *branch_spec_format(char *buf, unsigned flags, uint64_t min_free)
{
	static const char *const units[] = {"", "K", "M", "G", "T"};
	size_t unit = 0;
	int n = snprintf(buf, BRANCH_SPEC_WORDS_MAX, "%s%s",
			 flags & BRANCH_ABSENT ? "absent"
			 : flags & BRANCH_RO   ? "ro"
			 : flags & BRANCH_NC   ? "nc"
					       : "rw",
			 flags & BRANCH_LOCAL ? ",local" : "");

	if (min_free == BRANCH_MIN_FREE_UNION)
		return buf;
	for (; min_free && min_free % KIB == 0 && unit + 1 < array_size(units);
	     unit++)
		min_free /= KIB;
	(void)snprintf(buf + n, BRANCH_SPEC_WORDS_MAX - (size_t)n, ",%llu%s",
		       (unsigned long long)min_free, units[unit]); /* fits */
	return buf;
}

/* Has the path, up to its end, a '*', '?' or '[' without a '\' before it? */
static bool is_pattern(const char *in)
{
	for (; *in && *in != ':' && *in != '='; in++) {
		if (strchr("*?[", *in))
			return true;
		if (*in == '\\' && in[1])
			in++;
	}
	return false;
}

int branch_spec_parse(const char **list, struct branch_spec *ret,
		      struct error *err)
{
	const char *in = *list, *flags;
	char *path = malloc(strlen(in) + 1);
	size_t n = 0;
	int r = 0;

	if (!path)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	ret->pattern = is_pattern(in);
	for (; *in && *in != ':' && *in != '='; in++) {
		if (*in == '\\' && in[1]) {
			in++;
			if (ret->pattern && strchr("*?[]\\", *in))
				path[n++] = '\\';
		}
		path[n++] = *in;
	}
	path[n] = '\0';
	ret->path = path;
	ret->flags = 0;
	ret->min_free = BRANCH_MIN_FREE_UNION;
	if (!n)
		return error_set(err, EINVAL, "empty branch path");
	if (*in == '=') {
		flags = ++in;
		in += strcspn(in, ":");
		r = parse_flags(flags, (size_t)(in - flags), ret, err);
	}
	*list = *in ? in + 1 : NULL;
	return r;
}
