/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/attach_top.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "initiator/device/top_device.h"

int attach_top_make(struct attachment *a, struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	int r;

	if (mapper_probe(top_device_mapper, NULL) < 0)
		return 0;
	r = record_save(a->dirfd, &a->record, err);
	if (r == 0)
		r = top_device_linear(&a->record, &table, err);
	return r < 0 ? r : top_device_make(&a->record, a->tag, &table, err);
}

int attach_top_follow(struct attachment *a, struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	int r;

	if (!a->record.top[0])
		return 0;
	r = top_device_linear(&a->record, &table, err);
	return r < 0 ? r : top_device_follow(&a->record, &table, err);
}

/* End the requests below that nobody will answer. */
static int fail_dead(struct attachment *a, struct error *err)
{
	const struct transport *t = transport_find(a->record.transport);
	bool dead = false;

	if (!t || !t->fail || t->check(a, &dead, NULL) == 0 || !dead)
		return 0;
	return t->fail(a, err);
}

int attach_top_remove(struct attachment *a, struct error *err)
{
	struct error why = {.code = 0};
	int r = fail_dead(a, err);

	if (r < 0)
		return r;
	r = top_device_remove(a->tag, &why);
	if (r == -EBUSY || (r < 0 && a->record.top[0]))
		return error_set(err, -r, "%s", error_text(&why));
	a->record.top[0] = 0;
	return 0;
}

int attach_top_cut_off(struct attachment *a, struct error *err)
{
	const struct transport *t = transport_find(a->record.transport);
	int r = t ? t->fail(a, err) : 0;

	return r < 0 ? r : top_device_fence(a->tag, err);
}

int attach_top_fence(struct attachment *a, bool held_elsewhere,
		     struct error *err)
{
	if (held_elsewhere &&
	    (!a->record.top[0] || !device_is_held_elsewhere(a->record.top)))
		return 0;
	if (!a->record.top[0])
		return error_set(err, ENODEV, "%s has no mapper device over it",
				 a->record.device);
	return attach_top_cut_off(a, err);
}

void attach_top_probe(struct initiator_capability *ret)
{
	struct error err = {.code = 0};
	int r = mapper_probe(top_device_mapper, &err);

	ret->transport = "dm";
	ret->usable = !r;
	if (!r)
		(void)snprintf(ret->why, sizeof(ret->why),
			       "over each of them: cut off at once while it "
			       "is in use; one device of several extents");
	else
		(void)snprintf(ret->why, sizeof(ret->why),
			       "%.150s: a device in use can't be cut off",
			       error_text(&err));
}
