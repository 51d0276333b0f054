/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that are logged in, and sessions that have to leave. */
#include <errno.h>
#include <string.h>

#include "target/iscsi/iscsi_table_internal.h"

#define LOGINS_MAX 4096 /* sessions; ours */

static void revoke(struct iscsi_login_user *user)
{
	if (user->revoked)
		return;
	user->revoked = true;
	user->revoke(user);
}

static struct iscsi_login_user *login_of_port(
	const struct iscsi_table *table, const struct iscsi_login_user *user)
{
	for (struct iscsi_login_user *l = table->logins; l; l = l->next)
		if (l->target == user->target &&
		    memcmp(l->isid, user->isid, sizeof(l->isid)) == 0 &&
		    strcasecmp(l->initiator, user->initiator) == 0)
			return l;
	return NULL;
}

bool iscsi_login_has_other(struct iscsi_table *table,
			   const struct iscsi_login_user *user)
{
	bool found = false;

	pthread_mutex_lock(&table->lock);
	for (struct iscsi_login_user *l = table->logins; l; l = l->next)
		found |= user->target && l->target == user->target &&
			 strcasecmp(l->initiator, user->initiator) == 0;
	pthread_mutex_unlock(&table->lock);
	return found;
}

static bool tsih_taken(const struct iscsi_table *table, uint16_t tsih)
{
	for (struct iscsi_login_user *l = table->logins; l; l = l->next)
		if (l->tsih == tsih)
			return true;
	return tsih == 0;
}

/* @user has a TSIH of its own from here on. */
static void login_insert(struct iscsi_table *table,
			 struct iscsi_login_user *user)
{
	while (tsih_taken(table, ++table->tsih))
		;
	user->tsih = table->tsih;
	user->revoked = false;
	user->next = table->logins;
	user->link = &table->logins;
	if (user->next)
		user->next->link = &user->next;
	table->logins = user;
	table->n_logins++;
}

int iscsi_login_enter(struct iscsi_table *table, struct iscsi_login_user *user)
{
	struct iscsi_login_user *old;
	int r = 0;

	pthread_mutex_lock(&table->lock);
	old = user->target ? login_of_port(table, user) : NULL;
	if (old) {
		revoke(old);
		r = -EAGAIN;
	} else if (table->n_logins >= LOGINS_MAX) {
		r = -EMFILE;
	} else {
		login_insert(table, user);
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

bool iscsi_login_leave(struct iscsi_table *table, struct iscsi_login_user *user)
{
	bool revoked;

	pthread_mutex_lock(&table->lock);
	*user->link = user->next;
	if (user->next)
		user->next->link = user->link;
	table->n_logins--;
	revoked = user->revoked;
	pthread_mutex_unlock(&table->lock);
	return revoked;
}

bool iscsi_login_exists(struct iscsi_table *table, uint16_t tsih)
{
	bool exists;

	pthread_mutex_lock(&table->lock);
	exists = tsih_taken(table, tsih);
	pthread_mutex_unlock(&table->lock);
	return exists;
}

void iscsi_target_revoke_locked(struct iscsi_target *target)
{
	for (struct iscsi_login_user *l = target->table->logins; l; l = l->next)
		if (l->target == target)
			revoke(l);
}

void iscsi_target_revoke(struct iscsi_target *target)
{
	pthread_mutex_lock(&target->table->lock);
	iscsi_target_revoke_locked(target);
	pthread_mutex_unlock(&target->table->lock);
}
