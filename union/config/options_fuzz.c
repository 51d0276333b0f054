/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of options, as mount(8), an fstab and a remount give it: a list that
 * is refused says why, one that is taken gives settings that have names.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "union/config/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_parse(char *list)
{
	char *argv[] = {(char[]){"trib-union"},      (char[]){"-o"},      list,
			(char[]){"/proc/a:/proc/b"}, (char[]){"/proc/m"}, NULL};
	struct union_options options;
	struct error err = {0};

	if (union_options_parse(5, argv, &options, &err) < 0)
		assert(err.code && *err.msg);
	else if (!options.help && !options.version)
		assert(options.threads <= UNION_THREADS_MAX);
	union_options_done(&options);
}

static void check_change(const struct union_options *now, const char *list)
{
	struct union_change change = {0};
	struct error err = {0};
	size_t i;

	if (union_options_change(now, list, &change, &err) < 0)
		assert(err.code && *err.msg);
	else
		for (i = 0; i < change.count; i++)
			assert(change.settings[i].name &&
			       *change.settings[i].name);
	union_change_done(&change);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *plain[] = {(char[]){"trib-union"}, (char[]){"/proc/a:/proc/b"},
			 (char[]){"/proc/m"}, NULL};
	struct union_options now;
	char *list = malloc(size + 1);

	memcpy(list, data, size);
	list[size] = '\0';
	assert(union_options_parse(3, plain, &now, NULL) == 0);
	check_change(&now, list);
	check_change(NULL, list);
	union_options_done(&now);
	check_parse(list);
	free(list);
	return 0;
}
