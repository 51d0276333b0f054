/* SPDX-License-Identifier: Apache-2.0 */
/* Times as Kubernetes' own objects have them. */
#ifndef VOLUME_KUBE_TIME_H
#define VOLUME_KUBE_TIME_H

#include <json-c/json.h>
#include <stdint.h>

/* metav1.MicroTime of @seconds since 1970; NULL without memory. */
struct json_object *kube_time_new(int64_t seconds);

/* At "a.b" of @object, in seconds since 1970; 0 when it is none. */
int64_t kube_time_of(struct json_object *object, const char *a, const char *b);

#endif
