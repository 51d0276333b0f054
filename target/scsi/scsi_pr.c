/* SPDX-License-Identifier: Apache-2.0 */
#include "target/scsi/scsi_pr.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- types ---- */

bool scsi_pr_type_ok(unsigned type)
{
	return type == SCSI_PR_WRITE || type == SCSI_PR_ACCESS ||
	       (type >= SCSI_PR_WRITE_REGISTRANTS &&
		type <= SCSI_PR_ACCESS_ALL);
}

bool scsi_pr_type_all(unsigned type)
{
	return type == SCSI_PR_WRITE_ALL || type == SCSI_PR_ACCESS_ALL;
}

bool scsi_pr_type_registrants(unsigned type)
{
	return type >= SCSI_PR_WRITE_REGISTRANTS;
}

bool scsi_pr_type_access(unsigned type)
{
	return type == SCSI_PR_ACCESS || type == SCSI_PR_ACCESS_REGISTRANTS ||
	       type == SCSI_PR_ACCESS_ALL;
}

/* ---- registrants ---- */

#define ID_PORT   0x45 /* an iSCSI initiator port; SPC-4 7.6.4.6 */
#define ID_HEADER 4u
#define SEPARATOR ",i,0x"

static_assert(ID_HEADER + SCSI_NAME_MAX + sizeof(SEPARATOR) - 1 + 12 + 1 + 3 <=
		      SCSI_TRANSPORT_ID_MAX,
	      "the longest name fits");

unsigned scsi_transport_id(const char *initiator, const uint8_t isid[6],
			   uint8_t *ret)
{
	char *text = (char *)ret + ID_HEADER;
	unsigned length;

	memset(ret, 0, SCSI_TRANSPORT_ID_MAX);
	length = (unsigned)snprintf(text, SCSI_TRANSPORT_ID_MAX - ID_HEADER,
				    "%.*s" SEPARATOR "%02x%02x%02x%02x%02x%02x",
				    SCSI_NAME_MAX, initiator, isid[0], isid[1],
				    isid[2], isid[3], isid[4], isid[5]);
	length = (length + 1 + 3) & ~3u; /* a NUL, and padded */
	if (length < 20)
		length = 20;
	ret[0] = ID_PORT;
	scsi_put16(ret + 2, length);
	return ID_HEADER + length;
}

unsigned scsi_transport_id_check(const uint8_t *data, size_t length)
{
	unsigned all;
	const char *text = (const char *)data + ID_HEADER;

	if (length < ID_HEADER || data[0] != ID_PORT)
		return 0;
	all = ID_HEADER + scsi_be16(data + 2);
	if (all > length || all > SCSI_TRANSPORT_ID_MAX || all % 4 ||
	    all < ID_HEADER + 20)
		return 0;
	if (strnlen(text, all - ID_HEADER) == all - ID_HEADER ||
	    !strstr(text, SEPARATOR))
		return 0;
	return all;
}

struct scsi_registration *scsi_pr_find_id(const struct scsi_pr *pr,
					  const uint8_t *id, unsigned length)
{
	for (struct scsi_registration *r = pr->first; r; r = r->next)
		if (r->id_length == length && memcmp(r->id, id, length) == 0)
			return r;
	return NULL;
}

struct scsi_registration *scsi_pr_find(const struct scsi_pr *pr,
				       const struct scsi_path *path)
{
	return scsi_pr_find_id(pr, path->nexus->id, path->nexus->id_length);
}

bool scsi_pr_holds(const struct scsi_pr *pr,
		   const struct scsi_registration *registration)
{
	if (!registration || pr->type == SCSI_PR_NONE)
		return false;
	return scsi_pr_type_all(pr->type) || pr->holder == registration;
}

/* ---- coming and going ---- */

int scsi_pr_add(struct scsi_pr *pr, const uint8_t *id, unsigned length,
		uint64_t key)
{
	struct scsi_registration **at = &pr->first;
	struct scsi_registration *r;

	if (pr->count >= SCSI_PR_MAX)
		return -ENOSPC;
	r = calloc(1, sizeof(*r) + length);
	if (!r)
		return -ENOMEM;
	r->key = key;
	r->id_length = length;
	memcpy(r->id, id, length);
	while (*at)
		at = &(*at)->next;
	*at = r;
	pr->count++;
	return 0;
}

void scsi_pr_remove(struct scsi_pr *pr, struct scsi_registration *registration)
{
	struct scsi_registration **at = &pr->first;

	while (*at != registration)
		at = &(*at)->next;
	*at = registration->next;
	pr->count--;
	if (pr->holder == registration) {
		pr->holder = NULL;
		pr->type = SCSI_PR_NONE;
	}
	if (pr->count == 0)
		pr->type = SCSI_PR_NONE;
	free(registration);
}

void scsi_pr_clear(struct scsi_pr *pr)
{
	while (pr->first)
		scsi_pr_remove(pr, pr->first);
}
