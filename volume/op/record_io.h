/* SPDX-License-Identifier: Apache-2.0 */
/* Records of any kind in the store of a context. */
#ifndef VOLUME_RECORD_IO_H
#define VOLUME_RECORD_IO_H

#include "volume/op/context.h"

struct record_kind {
	const char *kind; /* of the store: RECORD_KIND_* */
	const char *word; /* for people: "volume" */
};

extern const struct record_kind record_kind_volume;
extern const struct record_kind record_kind_snapshot;
extern const struct record_kind record_kind_group;

/* The document of @name; store_object_done(). -ENOENT. */
int record_io_load(struct volume_context *ctx, const struct record_kind *kind,
		   const char *name, struct store_object *ret,
		   struct error *err);

/*
 * Write a document: created when @version is "", else swapped. @version
 * becomes the new one; RECORD_VERSION_SIZE bytes. Takes @json.
 * -EAGAIN: somebody else changed it.
 */
int record_io_save(struct volume_context *ctx, const struct record_kind *kind,
		   const char *name, char *json, char *version,
		   struct error *err);

/* -EAGAIN as above. Not there: 0. */
int record_io_remove(struct volume_context *ctx, const struct record_kind *kind,
		     const char *name, const char *version, struct error *err);

#endif
