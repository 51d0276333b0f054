/* SPDX-License-Identifier: Apache-2.0 */
#include "union/ops/dot_union.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/config/branch_spec.h"
#include "union/live/control_status.h"
#include "union/live/settings.h"

#define VALUE_MAX 64 /* bytes, of a setting that can be set */

bool dot_union_is(const struct node *parent, const char *name)
{
	return parent->id == NODE_ROOT_ID &&
	       strcmp(name, BRANCH_CONTROL_FILE) == 0;
}

void dot_union_stat(const struct unionfs *fs, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino = fs->numbers.narrow ? UINT32_MAX : DOT_UNION_ID,
		.st_mode = S_IFREG | 0644,
		.st_nlink = 1,
	};
}

/* List the branches as one could mount them. */
static char *get_branches(struct unionfs *fs)
{
	unsigned i, n = 0, count = fs->branches.count;
	char words[BRANCH_SPEC_WORDS_MAX];
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (i = 0; i < count; i++) {
		const struct branch *branch = fs->branches.items[i];
		const char *c;

		if (branch->flags & BRANCH_GONE)
			continue;
		if (n++)
			(void)fputc(':', out);
		for (c = branch->path; *c; c++) {
			if (strchr(":=\\*?[", *c))
				(void)fputc('\\', out);
			(void)fputc(*c, out);
		}
		(void)fprintf(out, "=%s",
			      branch_spec_format(words, branch->flags,
						 branch->min_free));
	}
	/* Only memory can be short. */
	return fclose(out) == 0 ? text : NULL;
}

static char *number_text(unsigned long long number)
{
	char *text;

	return asprintf(&text, "%llu", number) < 0 ? NULL : text;
}

static char *flag_text(bool flag)
{
	return strdup(flag ? "true" : "false");
}

static char *get_min_free(struct unionfs *fs)
{
	return number_text(atomic_load(&fs->min_free));
}
static char *get_mountpoint(struct unionfs *fs)
{
	return strdup(fs->mountpoint);
}
static char *get_control(struct unionfs *fs)
{
	return strdup(fs->control_path ? fs->control_path : "");
}
static char *get_passthrough(struct unionfs *fs)
{
	return flag_text(fs->passthrough);
}
static char *get_shared(struct unionfs *fs)
{
	return flag_text(fs->shared);
}
static char *get_pid(struct unionfs *fs)
{
	(void)fs;
	return number_text((unsigned long long)getpid());
}
static char *get_version(struct unionfs *fs)
{
	(void)fs;
	return strdup(TRIBUTARY_VERSION);
}
static char *get_stats(struct unionfs *fs)
{
	return control_stats(fs);
}

static const struct {
	const char *name;
	char *(*get)(struct unionfs *fs);
} settings[] = {
	{"branches", get_branches},       {"control", get_control},
	{"minfreespace", get_min_free},   {"mountpoint", get_mountpoint},
	{"passthrough", get_passthrough}, {"pid", get_pid},
	{"shared", get_shared},           {"stats", get_stats},
	{"version", get_version},
};

static char *category_text(const struct unionfs *fs, unsigned category)
{
	const struct policy *policy = policy_of_category(&fs->policies,
							 category);

	return strdup(policy ? policy->name : "mixed");
}

/* Get a policy's name for "category.X" and "func.X"; NULL: no such setting. */
static char *policy_text(const struct unionfs *fs, const char *name)
{
	const char *category;
	unsigned i;

	if (strncmp(name, "category.", 9) == 0)
		for (i = 0; (category = policy_category_name(i)); i++)
			if (strcmp(category, name + 9) == 0)
				return category_text(fs, i);
	if (strncmp(name, "func.", 5) == 0)
		for (i = 0; i < POLICY_FUNCTIONS; i++)
			if (strcmp(policy_function_name(i), name + 5) == 0)
				return strdup(
					policy_of(&fs->policies, i)->name);
	return NULL;
}

ssize_t dot_union_get(struct unionfs *fs, const char *name, char **ret)
{
	char *text = NULL;
	size_t i;

	if (strncmp(name, DOT_UNION_PREFIX, strlen(DOT_UNION_PREFIX)) != 0)
		return -ENODATA;
	name += strlen(DOT_UNION_PREFIX);
	for (i = 0; i < array_size(settings) && !text; i++)
		if (strcmp(settings[i].name, name) == 0)
			text = settings[i].get(fs);
	if (!text)
		text = policy_text(fs, name);
	if (!text)
		return -ENODATA;
	*ret = text;
	return (ssize_t)strlen(text);
}

ssize_t dot_union_list(char **ret)
{
	char *text = NULL;
	size_t i, size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	for (i = 0; i < array_size(settings); i++)
		(void)fprintf(out, "%s%s%c", DOT_UNION_PREFIX, settings[i].name,
			      0);
	for (i = 0; policy_category_name((unsigned)i); i++)
		(void)fprintf(out, "%scategory.%s%c", DOT_UNION_PREFIX,
			      policy_category_name((unsigned)i), 0);
	for (i = 0; i < POLICY_FUNCTIONS; i++)
		(void)fprintf(out, "%sfunc.%s%c", DOT_UNION_PREFIX,
			      policy_function_name(i), 0);
	if (fclose(out) != 0)
		return -ENOMEM;
	*ret = text;
	return (ssize_t)size;
}

/* Is it a setting that can only be read? */
static bool is_fixed(const char *name)
{
	size_t i;

	for (i = 0; i < array_size(settings); i++)
		if (strcmp(settings[i].name, name) == 0)
			return true;
	return false;
}

int dot_union_set(struct unionfs *fs, const char *name, const char *value,
		  size_t size)
{
	char text[VALUE_MAX];
	struct setting setting = {.value = text};
	struct error err = {0};
	int r;

	if (strncmp(name, DOT_UNION_PREFIX, strlen(DOT_UNION_PREFIX)) != 0)
		return -EPERM;
	name += strlen(DOT_UNION_PREFIX);
	if (size >= sizeof(text) || memchr(value, '\0', size))
		return -EINVAL;
	memcpy(text, value, size);
	text[size] = '\0';
	setting.name = name;
	r = settings_change(fs, &setting, 1, &err);
	if (r == -ENOENT)
		return is_fixed(name) ? -EOPNOTSUPP : -ENODATA;
	if (r < 0)
		log_warning("'%s': '%s' was not set: %s", fs->mountpoint, name,
			    error_text(&err));
	return r < 0 ? -EINVAL : 0;
}
