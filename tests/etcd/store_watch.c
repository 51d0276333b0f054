/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_watch LOCATION: watch the volumes there, and say each change in a line:
 * "set NAME", "removed NAME", "synced" or "cut".
 */
#include <stdio.h>

#include "volume/op/store_open.h"

static int say(void *context, enum store_change change, const char *name,
	       const struct store_object *object, const char *text)
{
	static const char *const words[] = {[STORE_CHANGE_SET] = "set",
					    [STORE_CHANGE_REMOVED] = "removed",
					    [STORE_CHANGE_SYNCED] = "synced",
					    [STORE_CHANGE_CUT] = "cut"};

	(void)context;
	(void)object;
	(void)text;
	(void)printf("%s%s%s\n", words[change], name ? " " : "",
		     name ? name : "");
	(void)fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	struct error err = {0};
	struct store *store = NULL;
	int r = argc == 2 ? store_open(argv[1], &store, &err) : -1;

	if (r == 0)
		r = store->ops->watch(store, RECORD_KIND_VOLUME, -1, say, NULL,
				      &err);
	(void)fprintf(stderr, "%s\n", error_text(&err));
	store_close(store);
	return r < 0;
}
