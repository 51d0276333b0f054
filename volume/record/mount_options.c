/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/record/mount_options.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "base/cleanup.h"

/* Whom an option concerns. */
#define BRANCH 1u
#define VIEW   2u /* the union */
#define VOLUME 4u /* what of the volume has to be there */

struct option {
	const char *name;
	unsigned whom;
	unsigned long set, clear; /* MS_*; both 0: data of the file system */
	enum { NO_VALUE, TEXT, NUMBER } value;
	const char *fs_type; /* NULL: any */
};

static const struct option options[] = {
	/* Nothing is asked for by these: "defaults" in a table of mounts. */
	{"defaults", 0, 0, 0, NO_VALUE, NULL},
	{"rw", 0, 0, 0, NO_VALUE, NULL},
	{"degraded", VOLUME, 0, 0, NO_VALUE, NULL},
	{"noexec", BRANCH | VIEW, MS_NOEXEC, 0, NO_VALUE, NULL},
	{"nosuid", BRANCH | VIEW, MS_NOSUID, 0, NO_VALUE, NULL},
	{"nodev", BRANCH | VIEW, MS_NODEV, 0, NO_VALUE, NULL},
	{"sync", BRANCH | VIEW, MS_SYNCHRONOUS, 0, NO_VALUE, NULL},
	{"dirsync", BRANCH | VIEW, MS_DIRSYNC, 0, NO_VALUE, NULL},
	{"noatime", BRANCH | VIEW, MS_NOATIME, MS_RELATIME | MS_STRICTATIME,
	 NO_VALUE, NULL},
	{"nodiratime", BRANCH | VIEW, MS_NODIRATIME, 0, NO_VALUE, NULL},
	{"relatime", BRANCH, MS_RELATIME, MS_NOATIME | MS_STRICTATIME, NO_VALUE,
	 NULL},
	{"strictatime", BRANCH, MS_STRICTATIME, MS_NOATIME | MS_RELATIME,
	 NO_VALUE, NULL},
	{"lazytime", BRANCH, MS_LAZYTIME, 0, NO_VALUE, NULL},
	{"discard", BRANCH, 0, 0, NO_VALUE, NULL},
	{"nodiscard", BRANCH, 0, 0, NO_VALUE, NULL},
	{"commit", BRANCH, 0, 0, NUMBER, "ext4"},
	/* Labels that SELinux gives to every file there. */
	{"context", BRANCH | VIEW, 0, 0, TEXT, NULL},
	{"fscontext", BRANCH | VIEW, 0, 0, TEXT, NULL},
	{"defcontext", BRANCH | VIEW, 0, 0, TEXT, NULL},
	{"rootcontext", BRANCH | VIEW, 0, 0, TEXT, NULL},
};

/* The next word of @*text, which may quote commas; -EINVAL: no end quote. */
static int next_word(const char **text, char *word, size_t size,
		     struct error *err)
{
	const char *at = *text;
	bool quoted = false;

	for (; *at && (quoted || *at != ','); at++)
		quoted ^= *at == '"';
	if (quoted || (size_t)(at - *text) >= size)
		return error_set(err, EINVAL, "the mount option '%.100s' %s",
				 *text,
				 quoted ? "has a quote without its other one"
					: "is too long");
	memcpy(word, *text, (size_t)(at - *text));
	word[at - *text] = '\0';
	*text = *at ? at + 1 : at;
	return 0;
}

static int options_add(char *list, const char *word, struct error *err)
{
	size_t length = strlen(list);

	if (length + strlen(word) + 2 > MOUNT_OPTIONS_MAX)
		return error_set(err, EINVAL, "the mount options are too long");
	(void)snprintf(list + length, MOUNT_OPTIONS_MAX - length, "%s%s",
		       length ? "," : "", word);
	return 0;
}

static bool value_ok(const struct option *option, const char *value)
{
	switch (option->value) {
	case NO_VALUE: return !value;
	case TEXT: return value && *value && !strchr(value, '\\');
	case NUMBER:
		return value && *value && strlen(value) < 8 &&
		       strspn(value, "0123456789") == strlen(value);
	}
	return false;
}

static const struct option *options_find(const char *word, const char *fs_type)
{
	size_t length = strcspn(word, "=");

	for (size_t i = 0; i < array_size(options); i++) {
		const struct option *option = &options[i];

		if (strlen(option->name) != length ||
		    strncmp(option->name, word, length) != 0)
			continue;
		if (option->fs_type && strcmp(option->fs_type, fs_type) != 0)
			return NULL;
		return option;
	}
	return NULL;
}

static int options_take(struct mount_options *ret, const char *word,
			const char *fs_type, struct error *err)
{
	const struct option *option = options_find(word, fs_type);
	const char *value = strchr(word, '=');
	int r = 0;

	if (!option)
		return error_set(err, EINVAL,
				 "the mount option '%.100s' is not taken for a "
				 "volume with %s",
				 word, fs_type);
	if (!value_ok(option, value ? value + 1 : NULL))
		return error_set(
			err, EINVAL, "the mount option '%.100s' %s", word,
			option->value == NO_VALUE ? "takes no value"
			: option->value == TEXT   ? "needs a text"
						  : "needs a whole number");
	ret->degraded = ret->degraded || option->whom & VOLUME;
	ret->flags = (ret->flags & ~option->clear) | option->set;
	if (option->whom & BRANCH && !option->set)
		r = options_add(ret->data, word, err);
	if (r == 0 && option->whom & VIEW)
		r = options_add(ret->view, word, err);
	return r;
}

int mount_options_parse(const char *text, const char *fs_type,
			struct mount_options *ret, struct error *err)
{
	struct mount_options parsed = {0};
	char word[MOUNT_OPTIONS_MAX];
	int r = 0;

	while (r == 0 && text && *text) {
		r = next_word(&text, word, sizeof(word), err);
		if (r == 0 && word[0])
			r = options_take(&parsed, word, fs_type, err);
	}
	if (r == 0)
		*ret = parsed;
	return r;
}
