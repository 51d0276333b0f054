/* SPDX-License-Identifier: Apache-2.0 */
/* An export as it was set. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/export/export_table_internal.h"

const char *export_name(const struct export_object *export)
{
	return export->name;
}

bool export_is(const struct export_object *export, const char *name)
{
	size_t length = strlen(name);

	return strncmp(export->name, name, length) == 0 &&
	       (export->name[length] == '\0' || export->name[length] == '@');
}

const char *export_description(const struct export_object *export)
{
	return export->description;
}

bool export_read_only(const struct export_object *export)
{
	return export->read_only;
}

int export_open(struct export_object *export, struct loop *loop,
		struct blockdev **ret, struct error *err)
{
	return export->open(export->context, loop, export->read_only, ret, err);
}

/* ---- making and unmaking ---- */

static void context_release(void (*release)(void *context), void *context)
{
	if (release)
		release(context);
}

/* Drop one reference. A returned export is for export_object_free(). */
struct export_object *export_object_unref(struct export_object *export)
{
	return export && --export->refs == 0 ? export : NULL;
}

/*
 * Free a list of exports. Not under the lock, because release() is the owner's.
 */
void export_object_free(struct export_object *export)
{
	while (export) {
		struct export_object *next = export->next_dead;

		context_release(export->release, export->context);
		free(export);
		export = next;
	}
}

int export_name_check(const char *name, struct error *err)
{
	size_t length = strlen(name);

	if (length == 0 || length > EXPORT_NAME_MAX)
		return error_set(err, EINVAL,
				 "an export's name has 1 to %d bytes",
				 EXPORT_NAME_MAX);
	if (strchr(name, '@'))
		return error_set(err, EINVAL,
				 "an export's name has no '@': the epoch comes "
				 "behind one");
	return 0;
}

/*
 * Fill in the export's properties for one connection; the rest of @spec is
 * borrowed.
 */
static void export_fill(struct export_object *export,
			const struct target_export *spec)
{
	export->refs = 1;
	export->epoch = spec->epoch;
	export->read_only = spec->read_only;
	export->open = spec->open;
	export->release = spec->release;
	export->context = spec->context;
	if (spec->scsi) {
		export->lun = spec->scsi->lun;
		memcpy(export->unit.uuid, spec->scsi->uuid,
		       sizeof(export->unit.uuid));
		export->unit.block_size = spec->scsi->block_size;
		export->unit.physical_size = spec->scsi->physical_size;
		export->unit.removable = spec->scsi->removable;
		export->unit.thin = spec->scsi->thin;
	}
	if (spec->description)
		(void)snprintf(export->description, sizeof(export->description),
			       "%s", spec->description);
	if (spec->epoch > 0)
		(void)snprintf(export->name, sizeof(export->name),
			       "%s@%" PRIu64, spec->name, spec->epoch);
	else
		(void)snprintf(export->name, sizeof(export->name), "%s",
			       spec->name);
}

int export_object_new(const struct target_export *spec,
		      struct export_object **ret, struct error *err)
{
	struct export_object *export;
	size_t base_length;
	int r = export_name_check(spec->name, err);

	if (r < 0)
		return r;
	if (spec->description &&
	    strlen(spec->description) > EXPORT_DESCRIPTION_MAX)
		return error_set(err, EINVAL,
				 "an export's description has at most %d bytes",
				 EXPORT_DESCRIPTION_MAX);
	export = calloc(1, sizeof(*export));
	if (!export)
		return error_set(err, ENOMEM, "no memory for an export");
	r = initiators_parse(spec->initiators, spec->n_initiators,
			     &export->initiators, err);
	if (r == 0 && spec->scsi)
		r = iscsi_name_of_export(spec, export->scsi_target,
					 &base_length, err);
	if (r < 0) {
		free(export);
		return r;
	}
	export_fill(export, spec);
	*ret = export;
	return 0;
}
