/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/csi_holds.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void csi_holds_init(struct csi_holds *holds)
{
	(void)pthread_mutex_init(&holds->lock, NULL); /* cannot fail here */
	holds->first = NULL;
}

void csi_holds_done(struct csi_holds *holds)
{
	assert(!holds->first);
	(void)pthread_mutex_destroy(&holds->lock);
}

const char *csi_hold_begin(struct csi_holds *holds, struct csi_hold *hold,
			   const char *name, const char *what)
{
	const char *other = NULL;

	pthread_mutex_lock(&holds->lock);
	for (const struct csi_hold *h = holds->first; h && !other; h = h->next)
		if (strcmp(h->name, name) == 0)
			other = h->what;
	if (!other) {
		(void)snprintf(hold->name, sizeof(hold->name), "%s", name);
		hold->what = what;
		hold->next = holds->first;
		holds->first = hold;
	}
	pthread_mutex_unlock(&holds->lock);
	return other;
}

void csi_hold_end(struct csi_holds *holds, struct csi_hold *hold)
{
	struct csi_hold **at = &holds->first;

	pthread_mutex_lock(&holds->lock);
	while (*at != hold)
		at = &(*at)->next;
	*at = hold->next;
	pthread_mutex_unlock(&holds->lock);
}
