/* SPDX-License-Identifier: Apache-2.0 */
#include "target/export/iscsi_name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "target/export/export_table.h"

#define NAME_ASCII                   \
	"abcdefghijklmnopqrstuvwxyz" \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ" \
	"0123456789-.:_"

static int form_check(const char *name, struct error *err)
{
	if (iscsi_name_ok(name))
		return 0;
	return error_set(err, EINVAL,
			 "'%s' can't be an iSCSI name: up to %d letters, "
			 "digits, '-', '.' and ':'",
			 name, ISCSI_NAME_MAX);
}

static bool ends_like_an_epoch(const char *name)
{
	const char *colon = strrchr(name, ':');

	return colon && colon[1] &&
	       strspn(colon + 1, "0123456789") == strlen(colon + 1);
}

int iscsi_name_check_target(const char *name, struct error *err)
{
	int r = form_check(name, err);

	if (r == 0 && ends_like_an_epoch(name))
		return error_set(err, EINVAL,
				 "the target name '%s' ends in a number: that "
				 "is where the epoch comes",
				 name);
	return r;
}

int iscsi_name_of_export(const struct target_export *spec,
			 char ret[static ISCSI_NAME_MAX + 1],
			 size_t *ret_base_length, struct error *err)
{
	const char *name = spec->scsi->name;
	char text[ISCSI_NAME_MAX + EXPORT_NAME_MAX + 32];
	int length, r = name ? iscsi_name_check_target(name, err) : 0;

	if (r < 0)
		return r;
	if (name)
		length = snprintf(text, sizeof(text), "%s", name);
	else
		length = snprintf(text, sizeof(text), "%s:%s",
				  TARGET_ISCSI_PREFIX, spec->name);
	if (spec->epoch > 0 && (size_t)length < sizeof(text))
		(void)snprintf(text + length, sizeof(text) - (size_t)length,
			       ":%" PRIu64, spec->epoch);
	r = form_check(text, err);
	if (r < 0)
		return r;
	*ret_base_length = (size_t)length;
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

bool iscsi_name_ok(const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length > ISCSI_NAME_MAX)
		return false;
	for (; *name; name++)
		if (!strchr(NAME_ASCII, *name) && !((uint8_t)*name & 0x80))
			return false;
	return true;
}
