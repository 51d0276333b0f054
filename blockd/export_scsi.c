/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/export_scsi.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blockd/node.h"

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
		       struct iscsi_chap_secrets *ret, bool *ret_found,
		       struct error *err)
{
	char path[PATH_MAX];
	int r = join(dir, name, path, err);

	if (r < 0)
		return r;
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	*ret_found = true;
	return iscsi_chap_load(path, ret, err);
}

static int secrets_find(const char *dir, const char *name,
			struct export_scsi *ret, struct error *err)
{
	bool found = false;
	int r = secrets_try(dir, name, &ret->secrets, &found, err);

	if (r == 0 && !found)
		r = secrets_try(dir, "default", &ret->secrets, &found, err);
	if (r == 0 && found)
		ret->scsi.secrets = &ret->secrets;
	return r;
}

int export_scsi_make(const struct export_scsi_options *options,
		     const struct extent *extent, struct export_scsi *ret,
		     struct error *err)
{
	const struct extent_record *record = &extent->record;
	bool raw = strcmp(extent->pool->pool->record.kind, "raw") == 0;
	int r;

	*ret = (struct export_scsi){
		.scsi = {.size = record->size,
			 .block_size = raw || options->direct_io ? BLOCK_LARGE
								 : BLOCK_SMALL,
			 .physical_size = BLOCK_LARGE,
			 .thin = true,
			 .state_path = ret->state_path},
	};
	uuid_bytes(record->id, ret->scsi.uuid);
	if (mkdir(options->state_dir, 0700) < 0 && errno != EEXIST)
		return error_set(err, errno, "make '%s': %s",
				 options->state_dir, strerror(errno));
	r = join(options->state_dir, record->id, ret->state_path, err);
	if (r == 0 && options->secrets_dir)
		r = secrets_find(options->secrets_dir, record->name, ret, err);
	return r;
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
