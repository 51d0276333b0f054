/* SPDX-License-Identifier: Apache-2.0 */
/* What a live union is told, and asked, by its control socket. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "volume/mount/union_process.h"

#define COMMAND_MS 60000 /* an add looks through the new branch's root */
#define WORDS_MAX  5

static int check_control(const char *control, struct error *err)
{
	if (control[0] && access(control, F_OK) == 0)
		return 0;
	return error_set(err, EOPNOTSUPP,
			 "the union that is mounted takes no commands "
			 "(%s%s%s)",
			 control[0] ? "it has no socket '" : "",
			 control[0] ? control
				    : "the run directory's path is too long "
				      "for a socket",
			 control[0] ? "'" : "");
}

/* @words: up to WORDS_MAX, the last is NULL; process_result_done(). */
static int union_command(const char *bin_dir, const char *control,
			 const char *const *words, struct process_result *ret,
			 struct error *err)
{
	char program[PATH_MAX];
	const char *argv[3 + WORDS_MAX + 1] = {union_program(bin_dir, program),
					       "--control", control};
	int r = check_control(control, err);

	for (size_t i = 0; words[i]; i++)
		argv[3 + i] = words[i];
	if (r == 0)
		r = process_run(argv, NULL, COMMAND_MS, -1, ret, err);
	if (r < 0 || ret->exit_code == 0)
		return r;
	return error_set(err, EIO, "the union refused '%s': %.*s", words[0],
			 (int)strcspn(ret->errors, "\n"), ret->errors);
}

static int command_only(const char *bin_dir, const char *control,
			const char *const *words, struct error *err)
{
	struct process_result result = {0};
	int r = union_command(bin_dir, control, words, &result, err);

	process_result_done(&result);
	return r;
}

int union_add(const char *bin_dir, const char *control,
	      const struct union_branch *branch, unsigned *ret_number,
	      struct error *err)
{
	char path[PATH_MAX + 8];
	const char *const words[] = {"add", path, NULL};
	struct process_result result = {0};
	int r;

	(void)snprintf(path, sizeof(path), "%s%s", branch->path,
		       branch->local ? "=local" : "");
	r = union_command(bin_dir, control, words, &result, err);
	if (r == 0 && sscanf(result.out, "{\"id\":%u}", ret_number) != 1)
		r = error_set(err, EIO, "the union says: %.100s", result.out);
	process_result_done(&result);
	return r;
}

int union_drain(const char *bin_dir, const char *control, const char *path,
		uint64_t rate, struct error *err)
{
	char text[24];
	const char *const words[] = {"drain", "--rate", text, path, NULL};

	(void)snprintf(text, sizeof(text), "%" PRIu64, rate);
	return command_only(bin_dir, control, words, err);
}

int union_drain_stop(const char *bin_dir, const char *control, const char *path,
		     struct error *err)
{
	const char *const words[] = {"drain", "--stop", path, NULL};

	return command_only(bin_dir, control, words, err);
}

/* ---- how a branch is ---- */

static const char *status_text(struct json_object *in, const char *key)
{
	struct json_object *value = NULL;

	return json_object_object_get_ex(in, key, &value)
		       ? json_object_get_string(value)
		       : "";
}

static uint64_t status_number(struct json_object *in, const char *key)
{
	struct json_object *value = NULL;

	return json_object_object_get_ex(in, key, &value)
		       ? json_object_get_uint64(value)
		       : 0;
}

static void drained_read(struct json_object *branch, struct union_drained *ret)
{
	const char *mode = status_text(branch, "mode");
	struct json_object *drain = NULL;

	*ret = (struct union_drained){.mode = UNION_BRANCH_USED};
	if (strcmp(mode, "gone") == 0)
		ret->mode = UNION_BRANCH_GONE;
	if (strcmp(mode, "draining") != 0 ||
	    !json_object_object_get_ex(branch, "drain", &drain))
		return;
	ret->mode = UNION_BRANCH_DRAINING;
	ret->files_moved = status_number(drain, "files_moved");
	ret->bytes_moved = status_number(drain, "bytes_moved");
	ret->files_left = status_number(drain, "files_left");
	ret->busy = status_number(drain, "busy");
	ret->failed = status_number(drain, "failed");
	(void)snprintf(ret->error, sizeof(ret->error), "%.127s",
		       status_text(drain, "error"));
}

/* The last branch of that path: an earlier one has left. */
static int drained_find(const char *text, const char *path,
			struct union_drained *ret)
{
	struct json_object *status = json_tokener_parse(text), *list = NULL;
	const char *end = union_path_end(path);
	const size_t length = strlen(end);
	int r = -EPROTO;

	*ret = (struct union_drained){0};
	if (status && json_object_object_get_ex(status, "branches", &list) &&
	    json_object_is_type(list, json_type_array))
		r = 0;
	for (size_t i = 0; r == 0 && i < json_object_array_length(list); i++) {
		struct json_object *one = json_object_array_get_idx(list, i);
		const char *at = status_text(one, "path");

		if (strlen(at) >= length &&
		    strcmp(at + strlen(at) - length, end) == 0)
			drained_read(one, ret);
	}
	json_object_put(status);
	return r;
}

int union_drained(const char *bin_dir, const char *control, const char *path,
		  struct union_drained *ret, struct error *err)
{
	static const char *const words[] = {"status", NULL};
	struct process_result result = {0};
	int r = union_command(bin_dir, control, words, &result, err);

	if (r == 0 && drained_find(result.out, path, ret) < 0)
		r = error_set(err, EIO, "the union says: %.100s", result.out);
	process_result_done(&result);
	return r;
}
