/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names between CSI and volume.h.
 *
 * A CSI name is any Unicode up to 128 bytes; a volume's name is at most 59 of
 * a-z 0-9 . _ -. A CSI name that is a good volume name is taken as it is
 * ("pvc-1c47..."). Any other name becomes its readable part, '-' and a hash.
 * The record keeps the CSI name as a label, so that two names that meet are
 * told apart.
 *
 * A volume id is "NAME@UID". The volume is found by its name at once, and a
 * volume deleted and made again under its name is another one. "NAME" alone is
 * taken too, for volumes that a person made and refers to.
 *
 * The inline volume of a pod has the id that its kubelet made: "csi-" and 64
 * hexadecimal digits, which is no "NAME@UID". The name of its record comes from
 * this id. So neither kind of id reaches a volume of the other kind.
 */
#ifndef CSI_NAME_H
#define CSI_NAME_H

#include "base/uuid_name.h"
#include "volume/record/volume_record.h"
#include "volume/store/record_place.h"
#include "volume/store/store.h"

#define CSI_LABEL_NAME "csi.union.io/name" /* of a volume's record */
/* Of a pod's inline volume, whose CSI_LABEL_NAME is its id: the pod's node. */
#define CSI_LABEL_INLINE "csi.union.io/inline-node"

#define CSI_ID_SIZE     (RECORD_NAME_SIZE + UUID_TEXT_SIZE) /* with NUL */
#define CSI_INLINE_SIZE 69                                  /* with NUL */
#define CSI_TOKEN_SIZE  (RECORD_NAME_SIZE + RECORD_MARK_SIZE + 8)

/* The volume's name for a CSI name; @ret: RECORD_NAME_SIZE bytes. */
void csi_name_map(const char *csi_name, char *ret);
/* The same for a group of snapshots, whose members are "NAME-INDEX". */
#define CSI_GROUP_NAME_MAX 56 /* VOLUME_NAME_MAX - strlen("-63") */
void csi_group_name_map(const char *csi_name, char *ret);

struct csi_id {
	char name[RECORD_NAME_SIZE];
	char uid[UUID_TEXT_SIZE];        /* "": any */
	char inline_id[CSI_INLINE_SIZE]; /* "": no inline volume's */
};

/* -EINVAL: no id of ours, so there is no such volume. */
int csi_id_parse(const char *text, struct csi_id *ret);
/* The same for the id of an inline volume. */
int csi_inline_id_parse(const char *text, struct csi_id *ret);
/* Returns @buf, CSI_ID_SIZE bytes. */
const char *csi_id_format(char *buf, const char *name, const char *uid);
/* Tell whether @id means this record. */
bool csi_id_matches(const struct csi_id *id,
		    const struct volume_record *record);
/*
 * Tell whether the record is a pod's inline volume. Inline volumes are not the
 * controller's.
 */
bool csi_record_is_inline(const struct volume_record *record);

/*
 * The entries of a page, for max_entries of the request. CSI_PAGE_MAX are under
 * the 4 MiB that a client takes. With the one that tells whether there is a
 * next page, they are a page of the store.
 */
#define CSI_PAGE_MAX (STORE_PAGE - 1)
size_t csi_page_size(int32_t max_entries);
/* Read where a listing goes on; "": at the start. -EINVAL: no token of ours. */
int csi_token_parse(const char *token, struct record_place *ret);
/* Returns @buf, CSI_TOKEN_SIZE bytes. */
const char *csi_token_format(char *buf, const struct record_place *place);

#endif
