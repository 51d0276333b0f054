/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that Kubernetes itself puts into the maps of CSI. The sidecars and the
 * kubelet own the prefix "csi.storage.k8s.io/" and add keys from release to
 * release. These keys tell of a claim, a snapshot or a pod. No key is required,
 * and an unknown key is no error.
 */
#ifndef CSI_KUBERNETES_KEY_H
#define CSI_KUBERNETES_KEY_H

#include <stdbool.h>

#include "csi/call/csi_check.h"
#include "volume/volume.h"

#define KUBERNETES_KEY_PREFIX    "csi.storage.k8s.io/"
#define KUBERNETES_KEY_EPHEMERAL KUBERNETES_KEY_PREFIX "ephemeral"

/* The object that a map is of. Only keys about that object become labels. */
enum kubernetes_object {
	KUBERNETES_CLAIM,
	KUBERNETES_SNAPSHOT, /* or a group of them */
	KUBERNETES_POD,
};

/* Does @key ask for a file system, in any of the ways a class may write it? */
bool kubernetes_key_is_fs_type(const char *key);

/*
 * Take an entry with the prefix. Keys about an @object go to @labels, NULL:
 * nowhere. Returns 1: taken; 0: another key; or the error of labels_set().
 */
int kubernetes_key_take(const struct csi_entry *entry,
			enum kubernetes_object object, struct labels *labels,
			struct error *err);

#endif
