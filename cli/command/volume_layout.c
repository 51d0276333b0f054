/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/volume_layout.h"

#include <errno.h>
#include <stdio.h>

#include "base/size.h"

int volume_layout_fill(const struct cli_options *o, struct volume_spec *spec,
		       struct error *err)
{
	if (o->stripe_width > VOLUME_SPLITS_MAX)
		return error_set(err, EINVAL,
				 "a stripe of more than %d extents",
				 VOLUME_SPLITS_MAX);
	spec->stripe_width = (unsigned)o->stripe_width;
	spec->stripe_unit = o->stripe_unit;
	return 0;
}

void volume_layout_print(const struct volume_spec *spec)
{
	char unit[SIZE_TEXT_MAX];

	if (spec->fs_type[0])
		(void)printf("%s", spec->fs_type);
	if (!volume_spec_is_device(spec)) {
		(void)printf(", policy %s", spec->policy);
		return;
	}
	(void)printf("%sa block device", spec->fs_type[0] ? " on " : "");
	if (volume_spec_stripe(spec))
		(void)printf(", striped over %u extents in units of %s",
			     spec->stripe_width,
			     size_format(unit, spec->stripe_unit));
}
