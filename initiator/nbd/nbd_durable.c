/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_durable.h"

#include "base/wire/nbd_wire.h"

void nbd_durable_count(struct nbd_durable *durable, uint16_t type,
		       uint16_t flags, uint64_t mark)
{
	bool writes = type == NBD_CMD_WRITE || type == NBD_CMD_WRITE_ZEROES;

	if (writes && !(flags & NBD_CMD_FLAG_FUA))
		durable->acknowledged++;
	if (type != NBD_CMD_FLUSH)
		return;
	durable->covered = true;
	if (mark > durable->flushed)
		durable->flushed = mark;
}

bool nbd_durable_is_dirty(const struct nbd_durable *durable)
{
	return durable->acknowledged != durable->flushed;
}

bool nbd_durable_has(const struct nbd_durable *durable, uint64_t mark)
{
	return durable->covered && durable->flushed >= mark;
}
