/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/invitation.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "volume/record/json_scan.h"

#define VERSION "union.io/v1alpha1"
#define KIND    "ClusterInvitation"

void invitation_done(struct invitation *invitation)
{
	pki_files_done(&invitation->files);
	for (size_t i = 0; i < invitation->n_store_files; i++) {
		free(invitation->store_files[i].path);
		free(invitation->store_files[i].text);
	}
	free(invitation->store);
	*invitation = (struct invitation){0};
}

/* ---- the store's files ---- */

/* Is it a file below @etc, however it is written? */
static bool path_is_below(const char *path, const char *etc)
{
	size_t length = strlen(etc);

	return strncmp(path, etc, length) == 0 && path[length] == '/' &&
	       path[length + 1] && strlen(path) < PATH_MAX &&
	       !strstr(path, "/../") && !strstr(path, "//") &&
	       path[strlen(path) - 1] != '/' &&
	       strcmp(path + strlen(path) - 3, "/..") != 0;
}

static int file_add(struct invitation *invitation, const char *path,
		    size_t length, const char *etc, struct error *err)
{
	struct invitation_file *file;
	size_t bytes;

	if (invitation->n_store_files == INVITATION_FILES_MAX)
		return error_set(err, E2BIG,
				 "the store names more than %d "
				 "files",
				 INVITATION_FILES_MAX);
	file = &invitation->store_files[invitation->n_store_files++];
	file->path = strndup(path, length);
	if (!file->path)
		return error_set(err, ENOMEM, "out of memory");
	if (!path_is_below(file->path, etc))
		return error_set(err, EINVAL,
				 "the store's file '%s' is not below '%s': "
				 "put it there, so that it can be given to "
				 "other hosts",
				 file->path, etc);
	return file_read(AT_FDCWD, file->path, INVITATION_TEXT_MAX, &file->text,
			 &bytes, err);
}

int invitation_read_files(struct invitation *invitation, const char *etc,
			  struct error *err)
{
	static const char *const words[] = {
		",ca=", ",cert=", ",key=", ",password-file="};
	int r = 0;

	for (size_t i = 0; r == 0 && i < array_size(words); i++) {
		const char *path = strstr(invitation->store, words[i]);

		if (!path)
			continue;
		path += strlen(words[i]);
		r = file_add(invitation, path, strcspn(path, ","), etc, err);
	}
	return r;
}

int invitation_write_files(const struct invitation *invitation,
			   struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < invitation->n_store_files; i++) {
		const struct invitation_file *file =
			&invitation->store_files[i];
		auto_free char *dir = strdup(file->path);

		if (!dir)
			return error_set(err, ENOMEM, "out of memory");
		r = dir_make(dirname(dir), 0755, err);
		if (r == 0)
			r = file_replace(AT_FDCWD, file->path, file->text,
					 strlen(file->text), 0600, err);
	}
	return r;
}

/* ---- the document ---- */

struct json_object *invitation_encode(const struct invitation *invitation)
{
	struct json_object *all = json_object_new_object(), *list;

	json_add_text(all, "apiVersion", VERSION);
	json_add_text(all, "kind", KIND);
	json_add_text(all, "node", invitation->node);
	json_add_text(all, "host", invitation->host);
	json_add_text(all, "store", invitation->store);
	json_add_text(all, "authority", invitation->files.authority);
	json_add_text(all, "certificate", invitation->files.cert);
	json_add_text(all, "key", invitation->files.key);
	list = json_object_new_array();
	for (size_t i = 0; i < invitation->n_store_files; i++) {
		struct json_object *file = json_object_new_object();

		json_add_text(file, "path", invitation->store_files[i].path);
		json_add_text(file, "text", invitation->store_files[i].text);
		json_object_array_add(list, file);
	}
	json_add(all, "storeFiles", list);
	return all;
}

/* A member whose length only the document bounds. */
static char *text_scan(struct json_scan *scan, struct json_object *in,
		       const char *key)
{
	auto_free char *text = malloc(INVITATION_TEXT_MAX);
	char *ret;

	if (!text) {
		json_scan_fail(scan, key, "out of memory");
		return NULL;
	}
	text[0] = '\0';
	json_scan_text(scan, in, key, text, INVITATION_TEXT_MAX, true);
	ret = strdup(text);
	if (!ret)
		json_scan_fail(scan, key, "out of memory");
	return ret;
}

static void files_scan(struct json_scan *scan, struct json_object *list,
		       const char *etc, struct invitation *ret)
{
	size_t n = list ? json_object_array_length(list) : 0;

	for (size_t i = 0; scan->r == 0 && i < n; i++) {
		struct json_object *file = json_object_array_get_idx(list, i);
		struct invitation_file *to = &ret->store_files[i];

		json_scan_at(scan, "storeFiles[%zu]", i);
		ret->n_store_files = i + 1;
		to->path = text_scan(scan, file, "path");
		to->text = text_scan(scan, file, "text");
		if (scan->r == 0 && !path_is_below(to->path, etc))
			json_scan_fail(scan, "path", "not below '%s'", etc);
	}
}

int invitation_decode(const char *text, size_t length, const char *etc,
		      struct invitation *ret, struct error *err)
{
	auto_cleanup(invitation_done) struct invitation invitation = {0};
	struct json_scan scan = {.err = err};
	struct json_object *all;
	int r = json_scan_document(text, length, INVITATION_MAX, VERSION, KIND,
				   &all, err);

	if (r < 0)
		return r;
	json_scan_text(&scan, all, "node", invitation.node,
		       sizeof(invitation.node), true);
	json_scan_text(&scan, all, "host", invitation.host,
		       sizeof(invitation.host), true);
	invitation.store = text_scan(&scan, all, "store");
	invitation.files.authority = text_scan(&scan, all, "authority");
	invitation.files.cert = text_scan(&scan, all, "certificate");
	invitation.files.key = text_scan(&scan, all, "key");
	files_scan(&scan,
		   json_scan_array(&scan, all, "storeFiles",
				   INVITATION_FILES_MAX, true),
		   etc, &invitation);
	json_object_put(all);
	if (scan.r < 0)
		return scan.r;
	*ret = invitation;
	invitation = (struct invitation){0};
	return 0;
}
