/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/csi_error.h"

/* No volume can have it: too long (VOLUME_NAME_MAX), yet a name. */
#define PROBE_NAME \
	"probe-probe-probe-probe-probe-probe-probe-probe-probe-probe-pr"

static const char *const mode_names[] = {
	[CSI_MODE_ALL] = "all",
	[CSI_MODE_CONTROLLER] = "controller",
	[CSI_MODE_NODE] = "node",
};

int csi_mode_parse(const char *text, enum csi_mode *ret, struct error *err)
{
	for (size_t i = 0; i < array_size(mode_names); i++) {
		if (strcmp(text, mode_names[i]) == 0) {
			*ret = (enum csi_mode)i;
			return 0;
		}
	}
	return error_set(err, EINVAL,
			 "mode '%s': it is controller, node or all", text);
}

const char *csi_mode_name(enum csi_mode mode)
{
	return mode_names[mode];
}

/* ---- failures ---- */

int csi_fail(struct csi_call *c, enum rpc_code code, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)error_set(c->err, rpc_code_to_errno(code), "%s", text);
	(void)rpc_fail(c->rpc, code, "%s", text);
	return -(int)code; /* for the log; rpc.h has the code itself */
}

int csi_fail_errno(struct csi_call *c, int error)
{
	char text[ERROR_TEXT_MAX];

	(void)snprintf(text, sizeof(text), "%s", error_text(c->err));
	return csi_fail(c, csi_code(c->method, error), "%s", text);
}

/* ---- one operation on a volume ---- */

int csi_lock(struct csi_call *c, const char *name)
{
	const char *other = volume_lock_take(&c->csi->locks, &c->lock, name,
					     c->method);

	if (name != c->id.name)
		(void)snprintf(c->id.name, sizeof(c->id.name), "%s", name);
	if (other)
		return csi_fail(c, RPC_ABORTED,
				"%s of volume '%s' is running; repeat when it "
				"has ended",
				other, name);
	c->locked = true;
	return 0;
}

static int parse_id(struct csi_call *c, const char *volume_id)
{
	if (csi_id_parse(volume_id, &c->id) == 0 ||
	    (c->takes_inline && csi_inline_id_parse(volume_id, &c->id) == 0))
		return 0;
	return csi_fail(c, RPC_NOT_FOUND,
			"there is no such volume: the id is not one of this "
			"driver (NAME@UID)");
}

int csi_begin(struct csi_call *c, const char *volume_id)
{
	int r = parse_id(c, volume_id);

	return r < 0 ? r : csi_lock(c, c->id.name);
}

int csi_lock_existing(struct csi_call *c)
{
	struct volume_record *record = NULL;
	bool ours;
	int r = csi_lock(c, c->id.name);

	if (r < 0)
		return r;
	r = volume_get(c->csi->volumes, c->id.name, &record, c->err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return csi_fail_errno(c, r);
	ours = csi_id_matches(&c->id, record);
	volume_record_free(record);
	return ours;
}

int csi_find(struct csi_call *c, const char *volume_id,
	     struct volume_record **ret)
{
	int r = parse_id(c, volume_id);

	return r < 0 ? r : csi_record(c, ret);
}

int csi_record(struct csi_call *c, struct volume_record **ret)
{
	struct volume_record *record = NULL;
	int r = volume_get(c->csi->volumes, c->id.name, &record, c->err);

	if (r == -ENOENT)
		return csi_fail(c, RPC_NOT_FOUND, "there is no volume '%s'",
				c->id.name);
	if (r < 0)
		return csi_fail_errno(c, r);
	if (!csi_id_matches(&c->id, record)) {
		volume_record_free(record);
		return csi_fail(c, RPC_NOT_FOUND,
				"volume '%s'%s%s is not there; there is "
				"another of that name",
				c->id.name, c->id.uid[0] ? " of uid " : "",
				c->id.uid);
	}
	*ret = record;
	return 0;
}

/* ---- records ---- */

/* Check the store: a volume that cannot be there costs the least. */
int csi_check_store(struct csi *csi, struct error *err)
{
	struct volume_record *record = NULL;
	int r = volume_get(csi->volumes, PROBE_NAME, &record, err);

	volume_record_free(record);
	return r == -ENOENT ? 0 : r;
}
