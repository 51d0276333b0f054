/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/export/lun_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct claim {
	struct claim *next;
	char extent[EXTENT_NAME_SIZE];
	struct extent_scsi scsi; /* without a target: the extent's own */
};

struct lun_table {
	pthread_mutex_t lock; /* guards all of it; no other is taken inside */
	struct claim *list;
};

struct lun_table *lun_table_new(void)
{
	struct lun_table *claims = calloc(1, sizeof(*claims));

	if (claims)
		pthread_mutex_init(&claims->lock, NULL);
	return claims;
}

void lun_table_free(struct lun_table *claims)
{
	if (!claims)
		return;
	while (claims->list) {
		struct claim *claim = claims->list;

		claims->list = claim->next;
		free(claim);
	}
	pthread_mutex_destroy(&claims->lock);
	free(claims);
}

static bool same_target(const struct claim *claim, const char *extent,
			const struct extent_scsi *scsi)
{
	char a[EXTENT_TARGET_SIZE], b[EXTENT_TARGET_SIZE];

	return strcasecmp(extent_scsi_target(&claim->scsi, claim->extent, a),
			  extent_scsi_target(scsi, extent, b)) == 0;
}

/* The lock is held. */
static int lun_table_check(const struct lun_table *claims, const char *extent,
			   const struct extent_scsi *scsi, struct error *err)
{
	char target[EXTENT_TARGET_SIZE];

	for (const struct claim *c = claims->list; c; c = c->next) {
		if (strcmp(c->extent, extent) == 0 ||
		    !same_target(c, extent, scsi))
			continue;
		(void)extent_scsi_target(scsi, extent, target);
		if (c->scsi.lun == scsi->lun)
			return error_set(err, EEXIST,
					 "LUN %u of target '%s' is extent "
					 "'%s': choose another, or withdraw "
					 "that export",
					 scsi->lun, target, c->extent);
		if (strcmp(c->scsi.account, scsi->account) != 0)
			return error_set(err, EINVAL,
					 "target '%s' has the account '%s' by "
					 "extent '%s': all of its LUNs have "
					 "the same",
					 target, c->scsi.account, c->extent);
	}
	return 0;
}

static bool same(const struct claim *claim, const char *extent,
		 const struct extent_scsi *scsi)
{
	return strcmp(claim->extent, extent) == 0 &&
	       extent_scsi_same(&claim->scsi, scsi);
}

static bool lun_table_has(const struct lun_table *claims, const char *extent,
			  const struct extent_scsi *scsi)
{
	for (const struct claim *c = claims->list; c; c = c->next)
		if (same(c, extent, scsi))
			return true;
	return false;
}

int lun_table_take(struct lun_table *claims, const char *extent,
		   const struct extent_scsi *scsi, struct error *err)
{
	struct claim *claim = calloc(1, sizeof(*claim));
	int r;

	if (!claim)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_lock(&claims->lock);
	r = lun_table_check(claims, extent, scsi, err);
	if (r == 0 && !lun_table_has(claims, extent, scsi)) {
		memcpy(claim->extent, extent, strlen(extent) + 1);
		claim->scsi = *scsi;
		claim->next = claims->list;
		claims->list = take_ptr(claim);
	}
	pthread_mutex_unlock(&claims->lock);
	free(claim);
	return r;
}

void lun_table_settle(struct lun_table *claims, const char *extent,
		      const struct extent_scsi *scsi)
{
	struct claim **at = &claims->list;

	pthread_mutex_lock(&claims->lock);
	while (*at) {
		struct claim *claim = *at;

		if (strcmp(claim->extent, extent) != 0 ||
		    (scsi && same(claim, extent, scsi))) {
			at = &claim->next;
			continue;
		}
		*at = claim->next;
		free(claim);
	}
	pthread_mutex_unlock(&claims->lock);
}
