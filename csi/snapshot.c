/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/csi_check.h"

int csi_snapshot_find(struct csi_call *c, const struct csi_id *id,
		      struct snapshot_record **ret)
{
	struct snapshot_record *record = NULL;
	int r = volume_snapshot_get(c->csi->volumes, id->name, &record, c->err);

	if (r < 0)
		return r;
	if (snapshot_record_is_cut(record) &&
	    record->phase != SNAPSHOT_DELETING && !record->temporary_for[0] &&
	    (!id->uid[0] || strcmp(id->uid, record->uid) == 0)) {
		*ret = record;
		return 0;
	}
	snapshot_record_free(record);
	return error_set(c->err, ENOENT, "there is no snapshot '%s'", id->name);
}

void csi_snapshot_refresh(struct csi_call *c, struct snapshot_record **record)
{
	struct snapshot_record *now = NULL;
	struct error unused = {0};

	if ((*record)->phase != SNAPSHOT_COPYING ||
	    volume_snapshot_refresh(c->csi->volumes, (*record)->name, &now,
				    &unused) < 0)
		return;
	snapshot_record_free(*record);
	*record = now;
}

/* What the snapshotter adds, and their labels. */
static const struct {
	const char *key, *label;
} told[] = {
	{"csi.storage.k8s.io/volumesnapshot/name",
	 "csi.union.io/snapshot-name"},
	{"csi.storage.k8s.io/volumesnapshot/namespace",
	 "csi.union.io/snapshot-namespace"},
	{"csi.storage.k8s.io/volumesnapshotcontent/name",
	 "csi.union.io/snapshot-content"},
	{"csi.storage.k8s.io/volumegroupsnapshot/name",
	 "csi.union.io/group-name"},
	{"csi.storage.k8s.io/volumegroupsnapshot/namespace",
	 "csi.union.io/group-namespace"},
	{"csi.storage.k8s.io/volumegroupsnapshotcontent/name",
	 "csi.union.io/group-content"},
};

static int take_told(const struct csi_entry *e, struct labels *ret,
		     struct error *err)
{
	for (size_t i = 0; i < array_size(told); i++) {
		if (strcmp(told[i].key, e->key) != 0)
			continue;
		/* Kubernetes' names may be longer: for people, so left out. */
		if (strlen(e->value) >= LABEL_TEXT_SIZE)
			return 0;
		return labels_set(ret, told[i].label, e->value, err);
	}
	return error_set(err, EINVAL,
			 "parameter '%.64s' is not known; snapshots have none",
			 e->key);
}

int csi_snapshot_labels(ProtobufCMessage *const *parameters, size_t n,
			const char *csi_name, struct labels *ret,
			struct error *err)
{
	int r = labels_set(ret, CSI_LABEL_NAME, csi_name, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = take_told((const struct csi_entry *)parameters[i], ret,
			      err);
	return r;
}

int csi_snapshot_hold(struct csi_call *c, const char *kind, const char *name)
{
	char key[RECORD_NAME_SIZE];
	const char *other;

	/* No name has a ':', and none is longer than 59 bytes. */
	(void)snprintf(key, sizeof(key), "%.1s:%.59s", kind, name);
	other = csi_hold_begin(&c->csi->holds, &c->hold, key, c->method);
	if (other)
		return csi_fail(c, RPC_ABORTED,
				"%s of the %s '%s' is running; repeat when it "
				"has ended",
				other, kind, name);
	c->held = true;
	return 0;
}
