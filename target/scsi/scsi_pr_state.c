/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Persistent reservations in a file, big-endian:
 *
 *	8  "TRIBPR1\n"
 *	4  type of the reservation, 0: none
 *	4  its holder, counted from 1; 0: none, or all registrants
 *	4  registrations: each
 *		8  key
 *		4  bytes of the TransportID, which follows
 *	4  CRC32C of all before
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/wire/crc32c.h"
#include "base/wire/cursor.h"
#include "target/scsi/scsi_pr.h"

static const char magic[8] = "TRIBPR1\n";

size_t scsi_pr_encode(const struct scsi_pr *pr, uint8_t *ret)
{
	uint8_t *at = ret + sizeof(magic);
	uint32_t holder = 0, n = 0;

	memcpy(ret, magic, sizeof(magic));
	for (const struct scsi_registration *r = pr->first; r; r = r->next) {
		n++;
		if (r == pr->holder)
			holder = n;
	}
	scsi_put32(at, pr->type);
	scsi_put32(at + 4, holder);
	scsi_put32(at + 8, n);
	at += 12;
	for (const struct scsi_registration *r = pr->first; r; r = r->next) {
		scsi_put64(at, r->key);
		scsi_put32(at + 8, r->id_length);
		memcpy(at + 12, r->id, r->id_length);
		at += 12 + r->id_length;
	}
	scsi_put32(at, crc32c(0, ret, (size_t)(at - ret)));
	return (size_t)(at + 4 - ret);
}

static int damaged(struct error *err, const char *what)
{
	return error_set(err, EBADMSG, "saved reservations are damaged: %s",
			 what);
}

static int registration_decode(struct scsi_pr *pr, struct cursor *c,
			       struct error *err)
{
	uint64_t key = cursor_be64(c);
	uint32_t length = cursor_be32(c);
	const uint8_t *id = cursor_bytes(c, length);
	int r;

	if (!id || key == 0 || scsi_transport_id_check(id, length) != length ||
	    scsi_pr_find_id(pr, id, length))
		return damaged(err, "a registration");
	r = scsi_pr_add(pr, id, length, key);
	return r < 0 ? error_set(err, -r, "no memory for a registration") : 0;
}

static int holder_set(struct scsi_pr *pr, uint32_t type, uint32_t holder,
		      struct error *err)
{
	struct scsi_registration *r = pr->first;
	bool all = scsi_pr_type_all(type);

	if (type == SCSI_PR_NONE)
		return holder ? damaged(err, "a holder of nothing") : 0;
	if (!scsi_pr_type_ok(type) || pr->count == 0 || all != (holder == 0) ||
	    holder > pr->count)
		return damaged(err, "the reservation");
	for (uint32_t i = 1; i < holder; i++)
		r = r->next;
	pr->type = (uint8_t)type;
	pr->holder = all ? NULL : r;
	return 0;
}

int scsi_pr_decode(struct scsi_pr *pr, const void *data, size_t length,
		   struct error *err)
{
	struct cursor c;
	uint32_t type, holder, n;
	int r = 0;

	if (length < sizeof(magic) + 16 ||
	    memcmp(data, magic, sizeof(magic)) != 0)
		return damaged(err, "no such file of ours");
	if (crc32c(0, data, length - 4) !=
	    scsi_be32((const uint8_t *)data + length - 4))
		return damaged(err, "the checksum");
	c = cursor_make((const uint8_t *)data + sizeof(magic),
			length - sizeof(magic) - 4);
	type = cursor_be32(&c);
	holder = cursor_be32(&c);
	n = cursor_be32(&c);
	if (n > SCSI_PR_MAX)
		return damaged(err, "too many registrations");
	while (n-- > 0 && r == 0)
		r = registration_decode(pr, &c, err);
	if (r == 0 && !cursor_ended(&c))
		r = damaged(err, "its length");
	if (r == 0)
		r = holder_set(pr, type, holder, err);
	if (r < 0)
		scsi_pr_clear(pr);
	return r;
}

int scsi_pr_load(struct scsi_unit *unit, struct error *err)
{
	auto_free char *data = NULL;
	size_t length;
	int r = file_read(AT_FDCWD, unit->state_path, SCSI_PR_STATE_MAX, &data,
			  &length, err);

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = scsi_pr_decode(&unit->pr, data, length, err);
	if (r < 0)
		return error_prefix(err, r, "'%s': ", unit->state_path);
	unit->pr.survives = unit->pr.saved = true;
	return 0;
}

int scsi_pr_save(struct scsi_unit *unit, struct error *err)
{
	auto_free uint8_t *data = malloc(SCSI_PR_STATE_MAX);
	size_t length = 0;
	int r;

	if (!data)
		return error_set(err, ENOMEM, "no memory for reservations");
	pthread_mutex_lock(&unit->saving);
	pthread_mutex_lock(&unit->lock);
	if (unit->pr.survives && unit->pr.count > 0)
		length = scsi_pr_encode(&unit->pr, data);
	unit->pr.saved = true;
	pthread_mutex_unlock(&unit->lock);
	if (length)
		r = file_replace(AT_FDCWD, unit->state_path, data, length, 0600,
				 err);
	else
		r = file_remove(AT_FDCWD, unit->state_path, err);
	pthread_mutex_unlock(&unit->saving);
	return r;
}
