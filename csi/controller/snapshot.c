/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/controller/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/csi_check.h"
#include "csi/call/kubernetes_key.h"

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

/*
 * A member of the classes of snapshots, which people write among their
 * parameters, too: the snapshotter acts on it.
 */
#define DELETION_POLICY_KEY "deletionPolicy"

static int labels_take(const struct csi_entry *e, struct labels *ret,
		       struct error *err)
{
	int r = kubernetes_key_take(e, KUBERNETES_SNAPSHOT, ret, err);

	if (r != 0 || strcmp(e->key, DELETION_POLICY_KEY) == 0)
		return r < 0 ? r : 0;
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
		r = labels_take((const struct csi_entry *)parameters[i], ret,
				err);
	return r;
}

int csi_snapshot_lock(struct csi_call *c, const char *kind, const char *name)
{
	char key[RECORD_NAME_SIZE];
	const char *other;

	/* No name has a ':', and none is longer than 59 bytes. */
	(void)snprintf(key, sizeof(key), "%.1s:%.59s", kind, name);
	other = volume_lock_take(&c->csi->locks, &c->lock, key, c->method);
	if (other)
		return csi_fail(c, RPC_ABORTED,
				"%s of the %s '%s' is running; repeat when it "
				"has ended",
				other, kind, name);
	c->locked = true;
	return 0;
}
