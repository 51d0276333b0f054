/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/kata/kata_record.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define FILE_NAME   "mountInfo.json"
#define DIRECTORY   "kata-containers/shared/direct-volumes"
#define VOLUME_TYPE "directvol" /* the runtime in Rust; the other takes any */
#define BASE64_SIZE (((KATA_PATH_MAX + 2) / 3) * 4 + 1)

/* RFC 4648 5, with padding. */
static void base64url(const char *text, char *ret)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789-_";
	const unsigned char *s = (const unsigned char *)text;
	size_t left = strlen(text);

	for (; left > 0; s += 3, ret += 4) {
		size_t n = left < 3 ? left : 3;
		uint32_t bits = (uint32_t)s[0] << 16 |
				(n > 1 ? (uint32_t)s[1] << 8 : 0) |
				(n > 2 ? s[2] : 0);

		ret[0] = digits[bits >> 18];
		ret[1] = digits[bits >> 12 & 63];
		ret[2] = n > 1 ? digits[bits >> 6 & 63] : '=';
		ret[3] = n > 2 ? digits[bits & 63] : '=';
		left -= n;
	}
	*ret = '\0';
}

int kata_record_dir(const char *run_dir, const char *path, char *ret,
		    struct error *err)
{
	char name[BASE64_SIZE];

	if (strlen(path) > KATA_PATH_MAX)
		return error_set(err, ENAMETOOLONG,
				 "'%.60s...' has more than the %d bytes that "
				 "Kata Containers can find a volume by",
				 path, KATA_PATH_MAX);
	base64url(path, name);
	(void)snprintf(ret, PATH_MAX, "%.3500s/" DIRECTORY "/%s", run_dir,
		       name);
	return 0;
}

static void add_options(struct json_object *object,
			const struct kata_record *record)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < record->n_options; i++)
		(void)json_object_array_add(
			list, json_object_new_string(record->options[i]));
	(void)json_object_object_add(object, "options", list);
}

static void add_group(struct json_object *object,
		      const struct kata_record *record)
{
	struct json_object *metadata = json_object_new_object();
	char number[16];

	if (record->has_group) {
		(void)snprintf(number, sizeof(number), "%u",
			       (unsigned)record->group);
		(void)json_object_object_add(metadata, "fsGroup",
					     json_object_new_string(number));
		(void)json_object_object_add(
			metadata, "fsGroupChangePolicy",
			json_object_new_string("OnRootMismatch"));
	}
	(void)json_object_object_add(object, "metadata", metadata);
}

int kata_record_write(const char *run_dir, const char *path,
		      const struct kata_record *record, struct error *err)
{
	struct json_object *object = json_object_new_object();
	auto_close int fd = -1;
	char dir[PATH_MAX];
	const char *text;
	int r = kata_record_dir(run_dir, path, dir, err);

	(void)json_object_object_add(object, "volume-type",
				     json_object_new_string(VOLUME_TYPE));
	(void)json_object_object_add(object, "device",
				     json_object_new_string(record->device));
	(void)json_object_object_add(object, "fstype",
				     json_object_new_string(record->fs_type));
	add_group(object, record);
	add_options(object, record);
	text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
	if (r == 0)
		r = dir_make(dir, 0700, err);
	if (r == 0) {
		fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? error_set(err, errno, "open '%s': %s", dir,
				       strerror(errno))
		    : text ? file_replace(fd, FILE_NAME, text, strlen(text),
					  0600, err)
			   : error_set(err, ENOMEM, "out of memory");
	}
	json_object_put(object);
	return r;
}

bool kata_record_exists(const char *run_dir, const char *path)
{
	char dir[PATH_MAX];

	return kata_record_dir(run_dir, path, dir, NULL) == 0 &&
	       access(dir, F_OK) == 0;
}

/* Only files: nobody makes directories there. */
static int directory_remove(const char *path, struct error *err)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 &&
		    strcmp(entry->d_name, "..") != 0)
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		(void)closedir(dir);
	if (rmdir(path) == 0 || errno == ENOENT)
		return 0;
	return error_set(err, errno, "remove '%s': %s", path, strerror(errno));
}

int kata_record_remove(const char *run_dir, const char *path, struct error *err)
{
	char dir[PATH_MAX];

	/* One of a longer path was never made. */
	if (kata_record_dir(run_dir, path, dir, NULL) < 0)
		return 0;
	return directory_remove(dir, err);
}

/*
 * Tell whether @name may be a sandbox's id, which becomes part of a path. Ids
 * are of letters, digits, '-', '_' and '.'.
 */
static bool is_sandbox(const char *name)
{
	size_t n = 0;

	for (; name[n]; n++)
		if (!isalnum((unsigned char)name[n]) &&
		    (n == 0 || !strchr("-_.", name[n])))
			return false;
	return n > 0 && n < KATA_SANDBOX_SIZE && strcmp(name, FILE_NAME) != 0;
}

int kata_record_sandbox(const char *run_dir, const char *path, char *ret,
			struct error *err)
{
	struct dirent *entry;
	char dir_path[PATH_MAX];
	DIR *dir;
	int r = kata_record_dir(run_dir, path, dir_path, err);

	if (r < 0)
		return r;
	dir = opendir(dir_path);
	r = -ENOENT;
	while (dir && r < 0 && (entry = readdir(dir)))
		if (is_sandbox(entry->d_name)) {
			(void)strcpy(ret, entry->d_name); /* is_sandbox() */
			r = 0;
		}
	if (dir)
		(void)closedir(dir);
	return r < 0 ? error_set(err, ENOENT, "no guest has the volume yet")
		     : 0;
}
