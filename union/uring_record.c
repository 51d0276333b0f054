/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring_record.h"

#include <string.h>

enum uring_found uring_found(const struct uring_counts *counts,
			     const struct uring_record *record)
{
	if (counts->published != counts->completed)
		return URING_KERNELS;
	if (!counts->published)
		return URING_NEW;
	if (counts->result < 0)
		return URING_REFUSED;
	return atomic_load_explicit(&record->taken, memory_order_acquire) ==
			       counts->published
		       ? URING_HAS_TAKEN
		       : URING_HAS_REQUEST;
}

void uring_record_take(struct uring_record *record,
		       const struct uring_request *request, uint32_t published)
{
	record->in = request->in;
	record->commit_id = request->commit_id;
	record->op_size = request->op_size;
	record->payload_size = request->payload_size;
	memcpy(record->op, request->op, request->op_size);
	memcpy(record->payload, request->payload,
	       uring_record_saved(request->payload_size));
	atomic_store_explicit(&record->taken, published, memory_order_release);
}

void uring_record_restore(const struct uring_record *record,
			  const char *payload, char *data)
{
	uint32_t saved = uring_record_saved(record->payload_size);

	memcpy(data, &record->in, sizeof(record->in));
	data += sizeof(record->in);
	memcpy(data, record->op, record->op_size);
	data += record->op_size;
	memcpy(data, record->payload, saved);
	memcpy(data + saved, payload + saved, record->payload_size - saved);
}
