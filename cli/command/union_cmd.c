/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/union_cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "base/wire/fnv.h"
#include "cli/command/command.h"
#include "cli/text/table.h"

#define PREFIX "user.tributary."

/*
 * The value of user.tributary.@name of @path, owned; -ENODATA: none, or
 * @path is on no union; or what getxattr(2) says.
 */
static int union_ask(const char *path, const char *name, char **ret)
{
	auto_free char *value = malloc(XATTR_SIZE_MAX + 1);
	char full[XATTR_NAME_MAX + 1];
	ssize_t n;

	if (!value)
		return -ENOMEM;
	if (snprintf(full, sizeof(full), PREFIX "%s", name) >=
	    (int)sizeof(full))
		return -ENAMETOOLONG;
	n = getxattr(path, full, value, XATTR_SIZE_MAX);
	if (n < 0)
		return errno == EOPNOTSUPP ? -ENODATA : -errno;
	value[n] = '\0';
	*ret = take_ptr(value);
	return 0;
}

static int no_union(const char *path, int r, struct error *err)
{
	if (r == -ENODATA)
		return error_set(err, ENODEV,
				 "'%s' is on no union of trib-union", path);
	return error_set(err, -r, "'%s': %s", path, strerror(-r));
}

int union_ask_root(const char *path, const char *name, char **ret,
		   struct error *err)
{
	auto_free char *at = realpath(path, NULL);
	char *slash;
	int r;

	if (!at)
		return no_union(path, -errno, err);
	while ((r = union_ask(at, name, ret)) == -ENODATA && *at &&
	       (slash = strrchr(at, '/')) && slash != at)
		*slash = '\0';
	return r < 0 ? no_union(path, r, err) : 0;
}

int union_json(const char *text, struct json_object **ret, struct error *err)
{
	*ret = json_tokener_parse(text);
	return *ret ? 0
		    : error_set(
			      err, EPROTO,
			      "the union's answer is no JSON: a newer version?");
}

static const char *text_of(struct json_object *object, const char *key)
{
	const char *text = json_object_get_string(
		json_object_object_get(object, key));

	return text ? text : "";
}

static uint64_t number_of(struct json_object *object, const char *key)
{
	return json_object_get_uint64(json_object_object_get(object, key));
}

static bool flag_of(struct json_object *object, const char *key)
{
	return json_object_get_boolean(json_object_object_get(object, key));
}

/* Add a cell: a branch's failure, or its drain. */
static void note_cell(struct table *table, struct json_object *branch)
{
	struct json_object *drain = json_object_object_get(branch, "drain");
	const char *state = text_of(branch, "state");
	char text[SIZE_TEXT_MAX];

	if (drain)
		table_cell(table, "%" PRIu64 " files, %s to move%s%s",
			   number_of(drain, "files_left"),
			   size_format(text, number_of(drain, "bytes_left")),
			   *text_of(drain, "error") ? ": " : "",
			   text_of(drain, "error"));
	else if (*state && strcmp(state, "ok") != 0)
		table_cell(table, "%s%s%s", state,
			   *text_of(branch, "error") ? ": " : "",
			   text_of(branch, "error"));
	else
		table_cell(table, "%s", "");
}

static void policies_print(struct json_object *status)
{
	struct json_object *policies = json_object_object_get(status,
							      "policies");

	if (!policies) { /* of an older trib-union */
		printf("policy %s\n", text_of(status, "policy"));
		return;
	}
	printf("policies create %s, search %s, action %s\n",
	       text_of(policies, "create"), text_of(policies, "search"),
	       text_of(policies, "action"));
}

static void union_status_print(struct json_object *status)
{
	struct json_object *branches = json_object_object_get(status,
							      "branches");
	struct table *table = table_new("BRANCH>", "PATH", "MODE", "SIZE>",
					"FREE>", "NOTE", NULL);
	char text[SIZE_TEXT_MAX];
	size_t i;

	printf("%s: ", text_of(status, "mountpoint"));
	policies_print(status);
	for (i = 0; i < json_object_array_length(branches); i++) {
		struct json_object *one = json_object_array_get_idx(branches,
								    i);

		table_cell(table, "%" PRIu64, number_of(one, "id"));
		table_cell(table, "%s", text_of(one, "path"));
		table_cell(table, "%s%s", text_of(one, "mode"),
			   flag_of(one, "local") ? ",local" : "");
		table_cell(table, "%s",
			   size_format(text, number_of(one, "size")));
		table_cell(table, "%s",
			   size_format(text, number_of(one, "available")));
		note_cell(table, one);
	}
	table_print(table, stdout);
}

int union_status_run(struct cli *cli, struct error *err)
{
	auto_free char *text = NULL;
	struct json_object *status = NULL;
	int r = union_ask_root(cli_argument(cli, 0), "status", &text, err);

	if (r == 0)
		r = union_json(text, &status, err);
	if (r < 0)
		return r;
	if (cli->options.json) {
		(void)cli_answer(cli, status);
		return 0;
	}
	union_status_print(status);
	json_object_put(status);
	return 0;
}

static void copies_print(struct json_object *answer)
{
	struct json_object *copies = json_object_object_get(answer, "copies");
	size_t i, n = json_object_array_length(copies);
	struct table *table;

	if (!n) {
		(void)puts("It is on no branch.");
		return;
	}
	table = table_new("BRANCH>", "PATH", "TYPE", "SEEN", NULL);
	for (i = 0; i < n; i++) {
		struct json_object *one = json_object_array_get_idx(copies, i);

		table_cell(table, "%" PRIu64, number_of(one, "branch"));
		table_cell(table, "%s", text_of(one, "path"));
		table_cell(table, "%s", text_of(one, "type"));
		table_cell(table, "%s",
			   flag_of(one, "shown") ? "yes" : "hidden");
	}
	table_print(table, stdout);
}

static void next_print(struct json_object *answer)
{
	struct json_object *next = json_object_object_get(answer, "next");
	struct table *table;
	char text[SIZE_TEXT_MAX];
	size_t i;

	printf("\nThe next file goes by policy %s: %s.%s\n",
	       text_of(answer, "policy"), text_of(answer, "help"),
	       flag_of(answer, "by_chance")
		       ? " It is drawn anew each time; this time:"
		       : "");
	table = table_new("TRIED>", "BRANCH>", "PATH", "MODE", "HAS DIRECTORY",
			  "FREE>", "NOTE", NULL);
	for (i = 0; i < json_object_array_length(next); i++) {
		struct json_object *one = json_object_array_get_idx(next, i);

		if (number_of(one, "order"))
			table_cell(table, "%" PRIu64, number_of(one, "order"));
		else
			table_cell(table, "never");
		table_cell(table, "%" PRIu64, number_of(one, "branch"));
		table_cell(table, "%s", text_of(one, "path"));
		table_cell(table, "%s", text_of(one, "words"));
		table_cell(table, "%s",
			   flag_of(one, "has_directory") ? "yes" : "no");
		table_cell(table, "%s",
			   size_format(text, number_of(one, "available")));
		table_cell(table, "%s", text_of(one, "why"));
	}
	table_print(table, stdout);
}

/* The directory of @path, owned, and where in @path its last name begins. */
static char *parent_of(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');

	*ret_name = slash ? slash + 1 : path;
	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/")
			     : strndup(path, (size_t)(slash - path));
}

/* How to ask for a name, whatever its length: union/ops/explain.h. Owned. */
static char *question_of(const char *name)
{
	size_t length = strlen(name);
	char *text;
	int n;

	n = length > XATTR_NAME_MAX - strlen(PREFIX "explain.")
		    ? asprintf(&text, "explain-long.%016" PRIx64,
			       fnv1a(name, length))
		    : asprintf(&text, "explain.%s", name);
	return n < 0 ? NULL : text;
}

/* Explain a file, or an absent name: by its name in its directory. */
static int explain_name(const char *path, struct json_object **ret,
			struct error *err)
{
	auto_free char *dir = NULL, *question = NULL, *copies = NULL;
	auto_free char *next = NULL;
	struct json_object *named = NULL;
	const char *name;
	int r;

	dir = parent_of(path, &name);
	if (strlen(name) > NAME_MAX)
		return no_union(path, -ENAMETOOLONG, err);
	question = dir ? question_of(name) : NULL;
	if (!question)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	r = union_ask(dir, question, &copies);
	if (r == 0)
		r = union_ask(dir, "explain", &next);
	if (r < 0)
		return no_union(path, r, err);
	r = union_json(next, ret, err);
	if (r == 0)
		r = union_json(copies, &named, err);
	if (r < 0)
		return r;
	(void)json_object_object_add(
		*ret, "copies",
		json_object_get(json_object_object_get(named, "copies")));
	json_object_put(named);
	return 0;
}

static int explain(const char *path, struct json_object **ret,
		   struct error *err)
{
	auto_free char *text = NULL;
	struct stat st;
	int r;

	/* A link is what it is, not what it leads to. */
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return explain_name(path, ret, err);
	r = union_ask(path, "explain", &text);
	return r < 0 ? no_union(path, r, err) : union_json(text, ret, err);
}

int union_explain_run(struct cli *cli, struct error *err)
{
	struct json_object *answer = NULL;
	int r = explain(cli_argument(cli, 0), &answer, err);

	if (r < 0) {
		json_object_put(answer);
		return r;
	}
	if (cli->options.json) {
		(void)cli_answer(cli, answer);
		return 0;
	}
	copies_print(answer);
	next_print(answer);
	json_object_put(answer);
	return 0;
}
