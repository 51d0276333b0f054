/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as an invitation: what is read has all it needs, and no file
 * elsewhere. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cli/cluster/invitation.h"

#define ETC "/etc/tributary"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct invitation invitation;

	if (invitation_decode((const char *)data, size, ETC, &invitation,
			      NULL) < 0)
		return 0;
	assert(invitation.store && invitation.files.key &&
	       invitation.files.cert && invitation.files.authority);
	assert(invitation.n_store_files <= INVITATION_FILES_MAX);
	for (size_t i = 0; i < invitation.n_store_files; i++) {
		const char *path = invitation.store_files[i].path;

		assert(strncmp(path, ETC "/", strlen(ETC) + 1) == 0);
		assert(!strstr(path, "/../"));
		assert(invitation.store_files[i].text);
	}
	invitation_done(&invitation);
	return 0;
}
