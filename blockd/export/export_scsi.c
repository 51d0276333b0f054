/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/export/export_scsi.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blockd/node/node.h"

#define BLOCK_SMALL 512u  /* bytes */
#define BLOCK_LARGE 4096u /* bytes; of raw pools, and past the page cache */

static int hex(char c)
{
	return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* @text: a checked UUID, UUID_TEXT_SIZE */
static void uuid_bytes(const char *text, uint8_t ret[static 16])
{
	for (size_t n = 0; n < 16 && text[0] && text[1]; text++) {
		if (*text == '-')
			continue;
		ret[n++] = (uint8_t)(hex(text[0]) << 4 | hex(text[1]));
		text++;
	}
}

static int join(const char *dir, const char *name, char ret[static PATH_MAX],
		struct error *err)
{
	int n = snprintf(ret, PATH_MAX, "%s/%s", dir, name);

	if (n < 0 || n >= PATH_MAX)
		return error_set(err, ENAMETOOLONG, "'%s/%s' is too long", dir,
				 name);
	return 0;
}

/* @ret_found: there is such a file */
static int secrets_try(const char *dir, const char *name,
		       struct chap_secrets *ret, bool *ret_found,
		       struct error *err)
{
	char path[PATH_MAX];
	int r = join(dir, name, path, err);

	if (r < 0)
		return r;
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	*ret_found = true;
	return chap_secrets_load(path, ret, err);
}

/* Read the secrets of an account that the export names; it has to be there. */
static int secrets_named(const char *dir, const char *account,
			 struct export_scsi *ret, struct error *err)
{
	bool found = false;
	int r = dir ? secrets_try(dir, account, &ret->secrets, &found, err) : 0;

	if (r == 0 && !found)
		r = error_set(err, ENOENT,
			      "there is no account '%s': it would be a file of "
			      "that name in iscsi-secrets (%s)",
			      account, dir ?: "which is not set");
	if (r == 0)
		ret->scsi.secrets = &ret->secrets;
	return r;
}

/* @own: it has a target of its own, and so secrets of its own */
static int secrets_find(const char *dir, const char *name, bool own,
			struct export_scsi *ret, struct error *err)
{
	bool found = false;
	int r = own ? secrets_try(dir, name, &ret->secrets, &found, err) : 0;

	if (r == 0 && !found)
		r = secrets_try(dir, "default", &ret->secrets, &found, err);
	if (r == 0 && found)
		ret->scsi.secrets = &ret->secrets;
	return r;
}

/* As @asked by the extent @name. */
static int secrets_load(const struct export_scsi_options *options,
			const char *name, const struct extent_scsi *asked,
			struct export_scsi *ret, struct error *err)
{
	if (asked->account[0])
		return secrets_named(options->secrets_dir, asked->account, ret,
				     err);
	return options->secrets_dir ? secrets_find(options->secrets_dir, name,
						   !asked->target[0], ret, err)
				    : 0;
}

int export_scsi_check(const struct export_scsi_options *options,
		      const char *name, const struct extent_scsi *asked,
		      struct error *err)
{
	struct export_scsi scsi = {.state_path = ""};
	int r = secrets_load(options, name, asked, &scsi, err);

	export_scsi_done(&scsi);
	return r;
}

/* FNV-1a, 64 bits (Fowler, Noll, Vo), of the incarnation's text. */
static void tag_make(const char *incarnation, char *ret)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *incarnation; incarnation++)
		hash = (hash ^ (uint8_t)*incarnation) * UINT64_C(0x100000001b3);
	(void)snprintf(ret, EXPORT_SCSI_TAG_SIZE, "%016" PRIx64, hash);
}

void export_scsi_name(const struct extent_record *record,
		      const char *incarnation, char *ret)
{
	char tag[EXPORT_SCSI_TAG_SIZE], epoch[24] = "";

	tag_make(incarnation, tag);
	if (record->export.epoch > 0)
		(void)snprintf(epoch, sizeof(epoch), ":%" PRIu64,
			       record->export.epoch);
	(void)snprintf(ret, EXPORT_SCSI_NAME_SIZE,
		       TARGET_ISCSI_PREFIX ":%s%s:%s", record->name, epoch,
		       tag);
}

int export_scsi_make(const struct export_scsi_options *options,
		     const struct extent *extent, uint64_t block_size,
		     const char *incarnation, struct export_scsi *ret,
		     struct error *err)
{
	const struct extent_record *record = &extent->record;
	const struct extent_scsi *asked = &record->export.scsi;
	bool raw = strcmp(extent->pool->pool->record.kind, "raw") == 0;
	bool large = raw || options->direct_io;
	int r;

	*ret = (struct export_scsi){
		.scsi = {.name = asked->target[0] ? asked->target : NULL,
			 .lun = asked->lun,
			 .size = record->size,
			 .block_size = (uint32_t)block_size
					       ?: (large ? BLOCK_LARGE
							 : BLOCK_SMALL),
			 .tag = asked->target[0] ? NULL : ret->tag,
			 .physical_size = BLOCK_LARGE,
			 .thin = true,
			 .low_space = options->low_space,
			 .state_path = ret->state_path},
	};
	uuid_bytes(record->id, ret->scsi.uuid);
	tag_make(incarnation, ret->tag);
	if (mkdir(options->state_dir, 0700) < 0 && errno != EEXIST)
		return error_set(err, errno, "make '%s': %s",
				 options->state_dir, strerror(errno));
	r = join(options->state_dir, record->id, ret->state_path, err);
	return r < 0 ? r : secrets_load(options, record->name, asked, ret, err);
}

void export_scsi_done(struct export_scsi *scsi)
{
	explicit_bzero(&scsi->secrets, sizeof(scsi->secrets));
}

void export_scsi_forget(const struct export_scsi_options *options,
			const struct extent *extent)
{
	char path[PATH_MAX];

	if (join(options->state_dir, extent->record.id, path, NULL) == 0)
		(void)unlink(path); /* most have none */
}
