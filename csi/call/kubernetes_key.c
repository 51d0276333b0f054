/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/kubernetes_key.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

#define PREFIX_LENGTH (sizeof(KUBERNETES_KEY_PREFIX) - 1)

/* Keys that are kept as labels, by the part after the prefix. */
static const struct {
	enum kubernetes_object object;
	const char *key, *label;
} kept[] = {
	{KUBERNETES_CLAIM, "pvc/name", "csi.union.io/pvc-name"},
	{KUBERNETES_CLAIM, "pvc/namespace", "csi.union.io/pvc-namespace"},
	{KUBERNETES_CLAIM, "pv/name", "csi.union.io/pv-name"},
	{KUBERNETES_SNAPSHOT, "volumesnapshot/name",
	 "csi.union.io/snapshot-name"},
	{KUBERNETES_SNAPSHOT, "volumesnapshot/namespace",
	 "csi.union.io/snapshot-namespace"},
	{KUBERNETES_SNAPSHOT, "volumesnapshotcontent/name",
	 "csi.union.io/snapshot-content"},
	{KUBERNETES_SNAPSHOT, "volumegroupsnapshot/name",
	 "csi.union.io/group-name"},
	{KUBERNETES_SNAPSHOT, "volumegroupsnapshot/namespace",
	 "csi.union.io/group-namespace"},
	{KUBERNETES_SNAPSHOT, "volumegroupsnapshotcontent/name",
	 "csi.union.io/group-content"},
	{KUBERNETES_POD, "pod.name", "csi.union.io/pod-name"},
	{KUBERNETES_POD, "pod.namespace", "csi.union.io/pod-namespace"},
	{KUBERNETES_POD, "pod.uid", "csi.union.io/pod-uid"},
};

/* The provisioner takes the old spelling in any case of letters. */
bool kubernetes_key_is_fs_type(const char *key)
{
	return strcmp(key, KUBERNETES_KEY_PREFIX "fstype") == 0 ||
	       strcasecmp(key, "fstype") == 0;
}

int kubernetes_key_take(const struct csi_entry *entry,
			enum kubernetes_object object, struct labels *labels,
			struct error *err)
{
	const char *key = entry->key + PREFIX_LENGTH;

	if (strncmp(entry->key, KUBERNETES_KEY_PREFIX, PREFIX_LENGTH) != 0)
		return 0;
	for (size_t i = 0; labels && i < array_size(kept); i++) {
		int r;

		if (kept[i].object != object || strcmp(kept[i].key, key) != 0)
			continue;
		/* Kubernetes' names may be longer: for people, so left out. */
		if (strlen(entry->value) >= LABEL_TEXT_SIZE)
			break;
		r = labels_set(labels, kept[i].label, entry->value, err);
		return r < 0 ? r : 1;
	}
	return 1;
}
