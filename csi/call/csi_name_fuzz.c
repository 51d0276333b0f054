/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids and tokens: what is taken is written back as it was. Names: whatever
 * comes in, a good volume name comes out, the same each time.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "csi/call/csi_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	char name[RECORD_NAME_SIZE], again[RECORD_NAME_SIZE];
	char id_text[CSI_ID_SIZE], token[CSI_TOKEN_SIZE];
	struct record_place place;
	struct csi_id id;

	memcpy(text, data, size);
	text[size] = '\0';

	csi_name_map(text, name);
	csi_name_map(text, again);
	assert(name_check("volume", name, NULL) == 0);
	assert(strlen(name) <= VOLUME_NAME_MAX);
	assert(strcmp(name, again) == 0);
	/* A name that is one of ours is mapped to itself. */
	csi_name_map(name, again);
	assert(strcmp(name, again) == 0);

	if (csi_id_parse(text, &id) == 0 && id.uid[0])
		assert(strcmp(csi_id_format(id_text, id.name, id.uid), text) ==
		       0);
	if (csi_inline_id_parse(text, &id) == 0) {
		assert(strcmp(id.inline_id, text) == 0);
		assert(csi_id_parse(text, &id) < 0);
		assert(name_check("volume", id.name, NULL) == 0);
	}
	if (csi_token_parse(text, &place) == 0 && text[0])
		assert(strcmp(csi_token_format(token, &place), text) == 0);
	free(text);
	return 0;
}
