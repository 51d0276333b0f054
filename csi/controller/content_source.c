/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/controller/content_source.h"

#include <errno.h>
#include <string.h>

#include "csi/controller/snapshot.h"

static void take_spec(struct content_source *content,
		      const struct volume_spec *from)
{
	(void)strcpy(content->spec.layout, from->layout);
	(void)strcpy(content->spec.fs_type, from->fs_type);
	content->spec.stripe_width = from->stripe_width;
	content->spec.stripe_unit = from->stripe_unit;
	content->spec.capacity = from->capacity;
}

static int no_source(struct csi_call *c, const char *what)
{
	return csi_fail(c, RPC_NOT_FOUND,
			"volume_content_source: there is no such %s", what);
}

static int find_snapshot(struct csi_call *c, const struct csi_id *id,
			 struct content_source *ret)
{
	struct snapshot_record *record = NULL;
	int r = csi_snapshot_find(c, id, &record);

	if (r == -ENOENT)
		return no_source(c, "snapshot");
	if (r < 0)
		return csi_fail_errno(c, r);
	(void)strcpy(ret->source.uid, record->uid);
	take_spec(ret, &record->spec);
	snapshot_record_free(record);
	return 0;
}

static int find_volume(struct csi_call *c, const struct csi_id *id,
		       struct content_source *ret)
{
	struct volume_record *record = NULL;
	int r = volume_get(c->csi->volumes, id->name, &record, c->err);
	bool matches = r == 0 && csi_id_matches(id, record);

	if (matches) {
		(void)strcpy(ret->source.uid, record->uid);
		take_spec(ret, &record->spec);
	}
	volume_record_free(record);
	if (r < 0 && r != -ENOENT)
		return csi_fail_errno(c, r);
	return matches ? 0 : no_source(c, "volume");
}

/*
 * Find a volume that is there already: its source need not be there any more.
 */
static int find_made(struct csi_call *c, const char *csi_name,
		     struct content_source *ret)
{
	struct volume_record *record = NULL;
	char name[RECORD_NAME_SIZE];
	int r;

	csi_name_map(csi_name, name);
	r = volume_get(c->csi->volumes, name, &record, c->err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return csi_fail_errno(c, r);
	take_spec(ret, &record->spec);
	volume_record_free(record);
	return 1;
}

int content_source_find(struct csi_call *c,
			const Csi__V1__CreateVolumeRequest *in,
			struct content_source *ret)
{
	const Csi__V1__VolumeContentSource *source = in->volume_content_source;
	bool snapshot = source &&
			source->type_case ==
				CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT;
	struct csi_id id;
	int r;

	*ret = (struct content_source){0};
	if (!source)
		return 0;
	ret->source.kind = snapshot ? VOLUME_SOURCE_SNAPSHOT
				    : VOLUME_SOURCE_VOLUME;
	if (csi_id_parse(snapshot ? source->snapshot->snapshot_id
				  : source->volume->volume_id,
			 &id) < 0)
		return no_source(c, snapshot ? "snapshot" : "volume");
	(void)strcpy(ret->source.name, id.name);
	(void)strcpy(ret->source.uid, id.uid);
	r = find_made(c, in->name, ret);
	if (r != 0)
		return r < 0 ? r : 0;
	return snapshot ? find_snapshot(c, &id, ret) : find_volume(c, &id, ret);
}

const struct volume_spec *content_source_spec(
	const struct content_source *content)
{
	return content->source.kind == VOLUME_SOURCE_NONE ? NULL
							  : &content->spec;
}
