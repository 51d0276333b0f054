/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/attach_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"

int attach_parts_of(const struct initiator_request *q, struct parts **ret,
		    struct error *err)
{
	auto_free struct parts *parts = calloc(1, sizeof(*parts));
	struct segments segments;
	int r = 0;

	if (!parts)
		return error_set(err, ENOMEM, "no memory for a list of parts");
	if (q->n_parts > SEGMENTS_PARTS_MAX)
		return error_set(err, EINVAL, "a device has at most %d parts",
				 SEGMENTS_PARTS_MAX);
	parts->stripe = (struct stripe){q->stripe_width, q->stripe_unit};
	parts->n = q->n_parts ? (unsigned)q->n_parts : 1;
	if (!q->n_parts)
		r = parts_set(parts, 0, q->address, q->export_name, q->size,
			      err);
	for (unsigned i = 0; r == 0 && i < q->n_parts; i++)
		r = parts_set(parts, i, q->parts[i].address,
			      q->parts[i].export_name, q->parts[i].size, err);
	if (r == 0)
		r = parts_segments(parts, &segments, err);
	if (r == 0 && segments.size != q->size)
		r = error_set(err, EINVAL,
			      "its parts have %llu bytes together, not %llu",
			      (unsigned long long)segments.size,
			      (unsigned long long)q->size);
	if (r == 0)
		*ret = take_ptr(parts);
	return r;
}

int attach_parts_check(const struct initiator_request *q, struct error *err)
{
	auto_free struct parts *parts = NULL;

	return q->n_parts ? attach_parts_of(q, &parts, err) : 0;
}

void attach_parts_name(const struct attachment *a, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%s" PARTS_SUFFIX, a->record.id);
}

bool attach_parts_same(const struct attachment *a,
		       const struct initiator_request *q)
{
	auto_free struct parts *now = NULL, *asked = NULL;
	char name[128];

	attach_parts_name(a, name, sizeof(name));
	return (q->n_parts || (q->address && q->export_name)) &&
	       attach_parts_of(q, &asked, NULL) == 0 &&
	       parts_load(a->dirfd, name, &now, NULL) == 0 &&
	       parts_check_grown(now, asked, NULL) == 0;
}
