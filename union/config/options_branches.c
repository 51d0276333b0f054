/* SPDX-License-Identifier: Apache-2.0 */
#include "union/config/options_branches.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int add_branch(struct union_options *options,
		      const struct branch_spec *spec, const char *path,
		      struct error *err)
{
	struct branch_spec *branch;

	if (options->branch_count == BRANCH_MAX)
		return error_set(err, EINVAL, "more than %d branches",
				 BRANCH_MAX);
	branch = &options->branches[options->branch_count];
	*branch = *spec;
	branch->path = strdup(path);
	if (!branch->path)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	options->branch_count++;
	return 0;
}

/* Add the directories that match, in the order of their bytes. */
static int add_matches(struct union_options *options,
		       const struct branch_spec *spec, struct error *err)
{
	size_t i, before = options->branch_count;
	struct stat st;
	glob_t found;
	int r = 0;

	if (glob(spec->path, 0, NULL, &found) != 0)
		return error_set(err, EINVAL, "branch '%s': nothing matches",
				 spec->path);
	for (i = 0; i < found.gl_pathc && r == 0; i++)
		if (stat(found.gl_pathv[i], &st) == 0 && S_ISDIR(st.st_mode))
			r = add_branch(options, spec, found.gl_pathv[i], err);
	globfree(&found);
	if (r == 0 && options->branch_count == before)
		r = error_set(err, EINVAL, "branch '%s': no directory matches",
			      spec->path);
	return r;
}

int options_branches(struct union_options *options, const char *list,
		     struct error *err)
{
	struct branch_spec spec;
	int r = 0;

	options->branches = calloc(BRANCH_MAX, sizeof(*options->branches));
	if (!options->branches)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	while (list && r == 0) {
		memset(&spec, 0, sizeof(spec));
		r = branch_spec_parse(&list, &spec, err);
		if (r == 0)
			r = spec.pattern ? add_matches(options, &spec, err)
					 : add_branch(options, &spec, spec.path,
						      err);
		free(spec.path);
	}
	return r;
}
