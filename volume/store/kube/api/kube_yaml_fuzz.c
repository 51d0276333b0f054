/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any kubeconfig: what could be read is read again the same from its JSON,
 * which is YAML too (where libyaml takes it: it refuses some characters and
 * keys over 1 KiB). Not where a string has one of the line breaks that YAML
 * 1.1 (5.4) has and JSON has not: YAML folds them.
 */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "volume/store/kube/api/kube_yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* U+0085, U+2028, U+2029 in UTF-8. */
static bool has_yaml_break(const char *text)
{
	return strstr(text, "\xc2\x85") || strstr(text, "\xe2\x80\xa8") ||
	       strstr(text, "\xe2\x80\xa9");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_object *root = NULL, *again = NULL;
	const char *text;

	if (kube_yaml_parse((const char *)data, size, &root, NULL) < 0)
		return 0;
	text = json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN);
	assert(text);
	if (!has_yaml_break(text) &&
	    kube_yaml_parse(text, strlen(text), &again, NULL) == 0)
		assert(json_object_equal(root, again));
	json_object_put(root);
	json_object_put(again);
	return 0;
}
