/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch_spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "union/branch.h"

static int parse_flags(const char *text, size_t length, unsigned *ret,
		       struct error *err)
{
	size_t n;

	for (; length; text += n + 1, length -= n < length ? n + 1 : n) {
		n = strcspn(text, ",");
		n = n < length ? n : length;
		if (n == 5 && strncmp(text, "local", n) == 0)
			*ret |= BRANCH_LOCAL;
		else if (n == 2 && strncmp(text, "ro", n) == 0)
			*ret |= BRANCH_RO;
		else
			return error_set(err, EINVAL,
					 "branch flag '%.*s': there are local "
					 "and ro; a '=' or ':' in a path is "
					 "written '\\=' or '\\:'",
					 (int)n, text);
	}
	return 0;
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
	for (; *in && *in != ':' && *in != '='; in++) {
		if (*in == '\\' && in[1])
			in++;
		path[n++] = *in;
	}
	path[n] = '\0';
	ret->path = path;
	if (!n)
		return error_set(err, EINVAL, "empty branch path");
	if (*in == '=') {
		flags = ++in;
		in += strcspn(in, ":");
		r = parse_flags(flags, (size_t)(in - flags), &ret->flags, err);
	}
	*list = *in ? in + 1 : NULL;
	return r;
}
