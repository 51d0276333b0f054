/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML (so JSON, too) as a json-c tree, as much as a kubeconfig file needs:
 * one document of mappings, lists and scalars. A plain true or false is a
 * boolean, a plain ~ or null or nothing is NULL, every other scalar a string.
 * Anchors and aliases are refused.
 */
#ifndef VOLUME_KUBE_YAML_H
#define VOLUME_KUBE_YAML_H

#include <json-c/json.h>
#include <stddef.h>

#include "base/error.h"

#define KUBE_YAML_DEPTH_MAX 16 /* levels; a kubeconfig has 5 */

/* Returned owned, json_object_put(). -EINVAL with the line. */
int kube_yaml_parse(const char *text, size_t length, struct json_object **ret,
		    struct error *err);

#endif
