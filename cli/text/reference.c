/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/reference.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/uuid_name.h"

static int part_copy(const char *what, const char *text, size_t length,
		     char *ret, struct error *err)
{
	if (length >= RECORD_NAME_SIZE)
		return error_set(err, EINVAL, "%s name '%.*s' is too long",
				 what, (int)length, text);
	memcpy(ret, text, length);
	ret[length] = '\0';
	return name_check(what, ret, err);
}

int reference_parse(const char *what, const char *text, const char *own_node,
		    struct reference *ret, struct error *err)
{
	const char *slash = strchr(text, '/');
	struct reference parsed;
	int r;

	if (slash)
		r = part_copy("node", text, (size_t)(slash - text), parsed.node,
			      err);
	else
		r = part_copy("node", own_node, strlen(own_node), parsed.node,
			      err);
	if (r < 0)
		return r;
	text = slash ? slash + 1 : text;
	r = part_copy(what, text, strlen(text), parsed.name, err);
	if (r < 0)
		return r;
	*ret = parsed;
	return 0;
}

int label_parse(const char *text, struct labels *labels, struct error *err)
{
	const char *equals = strchr(text, '=');
	char key[LABEL_TEXT_SIZE];

	if (!equals || equals == text || (size_t)(equals - text) >= sizeof(key))
		return error_set(err, EINVAL,
				 "'%s' is no label; write KEY=VALUE", text);
	(void)snprintf(key, sizeof(key), "%.*s", (int)(equals - text), text);
	return labels_set(labels, key, equals + 1, err);
}
