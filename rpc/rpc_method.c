/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/rpc_internal.h"

struct path {
	const void *data;
	size_t length;
};

static int compare_rows(const void *a, const void *b)
{
	const struct rpc_method *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static int compare_path(const void *key, const void *row)
{
	const struct path *path = key;
	const struct rpc_method *method = row;
	size_t length = strlen(method->path);
	int r = memcmp(path->data, method->path,
		       path->length < length ? path->length : length);

	if (r)
		return r;
	return path->length < length ? -1 : path->length > length;
}

static bool is_message(const ProtobufCMessageDescriptor *type)
{
	return type && type->magic == PROTOBUF_C__MESSAGE_DESCRIPTOR_MAGIC;
}

static int check(const struct rpc_method *m, size_t i, struct error *err)
{
	const char *name;

	if (!m->path)
		return error_set(err, EINVAL, "method %zu has no path", i);
	name = m->path[0] == '/' ? strchr(m->path + 1, '/') : NULL;
	if (!name || name == m->path + 1 || !name[1] || strchr(name + 1, '/'))
		return error_set(err, EINVAL,
				 "method '%s': a path is /SERVICE/METHOD",
				 m->path);
	if (!is_message(m->in) || !is_message(m->out))
		return error_set(err, EINVAL,
				 "method '%s': %s is no message type", m->path,
				 is_message(m->in) ? "out" : "in");
	return 0;
}

int rpc_methods_sort(const struct rpc_method *methods, size_t n,
		     struct rpc_method **ret, struct error *err)
{
	struct rpc_method *sorted;

	if (!n)
		return error_set(err, EINVAL, "a server without methods");
	for (size_t i = 0; i < n; i++) {
		int r = check(&methods[i], i, err);

		if (r < 0)
			return r;
	}
	sorted = gpr_malloc(n * sizeof(*sorted));
	memcpy(sorted, methods, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_rows);
	for (size_t i = 1; i < n; i++) {
		if (strcmp(sorted[i - 1].path, sorted[i].path) == 0) {
			int r = error_set(err, EINVAL,
					  "method '%s' is there twice",
					  sorted[i].path);

			gpr_free(sorted);
			return r;
		}
	}
	*ret = sorted;
	return 0;
}

const struct rpc_method *rpc_methods_find(const struct rpc_method *sorted,
					  size_t n, const void *path,
					  size_t length)
{
	const struct path key = {path, length};

	return bsearch(&key, sorted, n, sizeof(*sorted), compare_path);
}
