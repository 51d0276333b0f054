/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any object that a server may send: a finalizer that is dropped is gone, and
 * when a record can be made of the object, the record is JSON, and writing
 * that same record back changes nothing.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "volume/record/json_scan.h"
#include "volume/store/kube/kube_object.h"

static const struct kube_resource resource = {
	.kind = RECORD_KIND_VOLUME,
	.plural = "volumesplits",
	.finalizer = "union.io/extents",
};

static void check_record(struct json_object *object,
			 const struct store_object *record)
{
	struct kube_change change;
	struct store_object again;

	assert(strlen(record->json) == record->length);
	if (kube_object_change(object, &resource, record->name, record->json,
			       &change, NULL) < 0)
		return;
	assert(!change.status);
	assert(kube_object_record(object, &again, NULL) == 0);
	if (!change.main)
		assert(strcmp(again.json, record->json) == 0);
	store_object_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_object *object = NULL;
	struct store_object record;

	if (json_scan_parse((const char *)data, size, HTTP_BODY_MAX, &object,
			    NULL) < 0)
		return 0;
	(void)kube_object_deleting(object);
	kube_object_drop_finalizer(object, resource.finalizer);
	assert(!kube_object_has_finalizer(object, resource.finalizer));
	if (kube_object_record(object, &record, NULL) == 0) {
		check_record(object, &record);
		store_object_done(&record);
	}
	json_object_put(object);
	return 0;
}
