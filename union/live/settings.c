/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/settings.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/size.h"
#include "union/view/state_note.h"
#include "union/view/unionfs.h"

static int apply_setting(const struct setting *setting,
			 struct policy_set *policies,
			 _Atomic uint64_t *min_free, struct error *err)
{
	uint64_t size;
	int r;

	if (strcmp(setting->name, "minfreespace") == 0) {
		r = size_parse(setting->value, &size, err);
		if (r == 0)
			atomic_store(min_free, size);
		return r;
	}
	r = policy_set_apply(policies, setting->name, setting->value, err);
	return r == -ENOENT
		       ? error_set(err, ENOENT,
				   "'%s' cannot be set; it is policy, "
				   "category.NAME, func.NAME or minfreespace",
				   setting->name)
		       : r;
}

int settings_check(const struct setting *settings, size_t count,
		   struct error *err)
{
	_Atomic uint64_t min_free = 0;
	struct policy_set policies;
	size_t i;
	int r = 0;

	policy_set_init(&policies);
	for (i = 0; i < count && r == 0; i++)
		r = apply_setting(&settings[i], &policies, &min_free, err);
	return r;
}

int settings_change(struct unionfs *fs, const struct setting *settings,
		    size_t count, struct error *err)
{
	size_t i;
	int r = settings_check(settings, count, err);

	for (i = 0; i < count && r == 0; i++)
		r = apply_setting(&settings[i], &fs->policies, &fs->min_free,
				  err);
	if (r < 0)
		return r;
	state_note_settings(fs);
	for (i = 0; i < count; i++)
		log_info("'%s': %s is '%s' now", fs->mountpoint,
			 settings[i].name, settings[i].value);
	return 0;
}
