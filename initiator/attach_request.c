/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/attach_request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/uuid_name.h"
#include "initiator/attach_parts.h"

#define DEAD_TIMEOUT_MS 30000

static int check_text(const char *what, const char *text, struct error *err)
{
	if (!text)
		return 0;
	if (!*text || strlen(text) >= RECORD_TEXT_MAX)
		return error_set(err, EINVAL, "%s has 1 to %d bytes", what,
				 RECORD_TEXT_MAX - 1);
	if (!record_text_ok(text))
		return error_set(err, EINVAL,
				 "%s must not hold control characters", what);
	return 0;
}

int attach_request_check(const struct initiator_request *q, struct error *err)
{
	int r = name_check("attachment", q->id, err);

	if (!r)
		r = check_text("a file's path", q->local_path, err);
	if (!r)
		r = check_text("an address", q->address, err);
	if (!r)
		r = check_text("an export's name", q->export_name, err);
	if (!r)
		r = check_text("an iSCSI portal", q->iscsi_portal, err);
	if (!r)
		r = check_text("an iSCSI target", q->iscsi_target, err);
	if (!r)
		r = check_text("a secrets' file", q->chap_file, err);
	if (r < 0)
		return r;
	if (!q->size || q->size > INT64_MAX || q->size % DEVICE_BLOCK_SIZE)
		return error_set(err, EINVAL,
				 "an extent's size is a multiple of %d bytes",
				 DEVICE_BLOCK_SIZE);
	r = attach_parts_check(q, err);
	if (r < 0)
		return r;
	if (q->local_path && q->local_path[0] != '/')
		return error_set(err, EINVAL, "'%s' is not an absolute path",
				 q->local_path);
	return 0;
}

static void copy_text(char *to, const char *from)
{
	(void)snprintf(to, RECORD_TEXT_MAX, "%s", from ? from : "");
}

void attach_request_fill(struct record *r, const struct initiator_request *q,
			 const struct transport *t, const char *why)
{
	char id[sizeof(r->id)];

	memcpy(id, r->id, sizeof(id));
	memset(r, 0, sizeof(*r));
	memcpy(r->id, id, sizeof(id));
	(void)snprintf(r->transport, sizeof(r->transport), "%s", t->name);
	(void)snprintf(r->why, sizeof(r->why), "%s", why);
	if (t->local) {
		copy_text(r->local_path, q->local_path);
	} else if (t->iscsi) {
		copy_text(r->address, q->iscsi_portal);
		copy_text(r->export_name, q->iscsi_target);
		copy_text(r->chap_file, q->chap_file);
		(void)snprintf(r->identity, sizeof(r->identity), "%s",
			       q->identity ? q->identity : "");
	} else {
		copy_text(r->address,
			  q->n_parts ? q->parts[0].address : q->address);
		copy_text(r->export_name, q->n_parts ? q->parts[0].export_name
						     : q->export_name);
	}
	r->size = q->size;
	r->read_only = q->read_only;
	r->connections = q->connections ? q->connections : 1;
	r->dead_timeout_ms = q->dead_timeout_ms ? q->dead_timeout_ms
						: DEAD_TIMEOUT_MS;
	if (boot_id_read(r->boot) < 0)
		r->boot[0] = 0;
}

static bool same_place(const struct record *r, const char *address,
		       const char *name)
{
	return address && name && !strcmp(address, r->address) &&
	       !strcmp(name, r->export_name);
}

bool attach_request_is_same(const struct attachment *a,
			    const struct initiator_request *q)
{
	const struct record *r = &a->record;
	const struct transport *t = transport_find(r->transport);

	if (strcmp(q->transport, "auto") != 0 &&
	    strcmp(q->transport, r->transport) != 0)
		return false;
	if (r->read_only != q->read_only)
		return false;
	if (r->parts && (r->parts > 1 || q->n_parts))
		return attach_parts_same(a, q);
	if (q->n_parts)
		return false;
	if (r->local_path[0])
		return q->local_path && !strcmp(q->local_path, r->local_path);
	if (t && t->iscsi)
		return same_place(r, q->iscsi_portal, q->iscsi_target);
	return same_place(r, q->address, q->export_name);
}
