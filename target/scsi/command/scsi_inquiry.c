/* SPDX-License-Identifier: Apache-2.0 */
/* INQUIRY, SPC-4 6.6, and its vital product data pages, SPC-4 7.8, SBC-3 6.5 */
#include <stdio.h>
#include <string.h>

#include "target/scsi/command/scsi_copy.h"
#include "target/scsi/command/scsi_primary.h"

#define VENDOR "TRIB    " /* 8 bytes, SPC-4 6.6.2 */

#define NO_UNIT 0x7f /* peripheral qualifier 011b, no type */

#define EVPD 0x01

struct page {
	uint8_t data[1024];
	size_t length; /* bytes */
};

static void add_text(struct page *page, const char *text, size_t length)
{
	size_t n = strnlen(text, length);

	memcpy(page->data + page->length, text, n);
	memset(page->data + page->length + n, ' ', length - n);
	page->length += length;
}

/* ---- standard data ---- */

static void standard_make(const struct scsi_unit *unit, struct page *page)
{
	static const uint16_t standards[] = {
		0x00a0, /* SAM-5 */
		0x0460, /* SPC-4 */
		0x04c0, /* SBC-3 */
		0x0960, /* iSCSI */
	};
	uint8_t *data = page->data;

	data[0] = unit ? SCSI_DISK : NO_UNIT;
	data[1] = unit && unit->removable ? 0x80 : 0;
	data[2] = 0x06;        /* SPC-4 */
	data[3] = 0x10 | 0x02; /* HISUP; the format of this */
	data[4] = 74 - 5;      /* bytes that follow */
	data[5] = 0x10 | 0x08; /* TPGS: implicit; 3PC */
	data[7] = 0x02;        /* CMDQUE */
	page->length = 8;
	add_text(page, VENDOR, 8);
	add_text(page, unit ? unit->product : "tributary", 16);
	add_text(page, TRIBUTARY_VERSION, 4);
	page->length = 58;
	for (unsigned i = 0; i < array_size(standards); i++)
		scsi_put16(data + 58 + 2 * i, standards[i]);
	page->length = 74;
}

/* ---- vital product data ---- */

static void page_serial(const struct scsi_task *task, struct page *page)
{
	const struct scsi_unit *unit = scsi_task_unit(task);

	add_text(page, unit->serial, strlen(unit->serial));
}

enum association { OF_UNIT = 0x00, OF_PORT = 0x10, OF_TARGET = 0x20 };
#define PIV_ISCSI 0x80 /* with a protocol: iSCSI */

/* Add a designation descriptor, SPC-4 7.8.6.1 */
static void designate(struct page *page, unsigned code_set, unsigned kind,
		      const void *data, size_t length)
{
	uint8_t *at = page->data + page->length;
	bool of_unit = (kind & 0x30) == OF_UNIT;

	at[0] = (uint8_t)(code_set | (of_unit ? 0 : 0x50)); /* iSCSI */
	at[1] = (uint8_t)(kind | (of_unit ? 0 : PIV_ISCSI));
	at[2] = 0;
	at[3] = (uint8_t)length;
	memcpy(at + 4, data, length);
	page->length += 4 + length;
}

/* A SCSI name string: NUL-terminated, padded to four bytes. */
static void designate_name(struct page *page, unsigned association,
			   const char *name)
{
	char padded[SCSI_NAME_MAX + 16] = {0};
	size_t length = strlen(name);

	memcpy(padded, name, length);
	designate(page, 3, association | 8, padded, (length + 4) & ~(size_t)3);
}

/*
 * Make a locally assigned name (NAA 3): 60 bits of the unit's UUID. The T10
 * identifier has all of its bits.
 */
void scsi_unit_naa(const struct scsi_unit *unit, uint8_t ret[8])
{
	for (unsigned i = 0; i < 8; i++)
		ret[i] = unit->uuid[i] ^ unit->uuid[i + 8];
	ret[0] = (uint8_t)(0x30 | (ret[0] & 0x0f));
}

static void page_identification(const struct scsi_task *task, struct page *page)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	const char *name = task->nexus->target->name;
	char text[SCSI_NAME_MAX + 16];
	uint8_t naa[8];
	uint8_t port[4] = {0, 0, 0, SCSI_PORT};
	uint8_t group[4] = {0, 0, 0, SCSI_PORT_GROUP};

	scsi_unit_naa(unit, naa);
	designate(page, 1, OF_UNIT | 3, naa, sizeof(naa));
	(void)snprintf(text, sizeof(text), "%s%s", VENDOR, unit->serial);
	designate(page, 2, OF_UNIT | 1, text, strlen(text));
	designate(page, 1, OF_PORT | 4, port, sizeof(port));
	designate(page, 1, OF_PORT | 5, group, sizeof(group));
	(void)snprintf(text, sizeof(text), "%s,t,0x%04x", name,
		       SCSI_PORT_GROUP);
	designate_name(page, OF_PORT, text);
	designate_name(page, OF_TARGET, name);
}

static void page_extended(const struct scsi_task *task, struct page *page)
{
	(void)task;
	page->data[5] = 0x07; /* HEADSUP, ORDSUP, SIMPSUP */
	page->data[6] = 0x01; /* V_SUP: a volatile cache */
	page->length = 64;
}

static void page_limits(const struct scsi_task *task, struct page *page)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	uint32_t most = unit->transfer_max >> unit->block_shift;
	uint32_t best = SCSI_TRANSFER_BEST >> unit->block_shift;
	uint8_t *data = page->data;

	data[4] = unit->thin; /* WSNZ */
	data[5] = SCSI_COMPARE_MAX;
	scsi_put16(data + 6, 1u << unit->physical_exponent);
	scsi_put32(data + 8, most);
	scsi_put32(data + 12, best < most ? best : most);
	if (unit->thin) {
		scsi_put32(data + 20, SCSI_UNMAP_MAX >> unit->block_shift);
		scsi_put32(data + 24, SCSI_UNMAP_RANGES);
		scsi_put32(data + 28, SCSI_UNMAP_GRAIN >> unit->block_shift);
		scsi_put32(data + 32, UINT32_C(0x80000000)); /* UGAVALID, 0 */
	}
	scsi_put64(data + 36, SCSI_SAME_MAX);
	scsi_put32(data + 44, SCSI_ATOMIC_MAX >> unit->block_shift);
	page->length = 64;
}

static void page_characteristics(const struct scsi_task *task,
				 struct page *page)
{
	(void)task;
	scsi_put16(page->data + 4, 1); /* does not rotate */
	page->length = 64;
}

static void vpd_provisioning(const struct scsi_task *task, struct page *page)
{
	const struct scsi_unit *unit = scsi_task_unit(task);

	if (unit->thin) {
		page->data[5] = 0x80 | 0x40 | 0x20 | 0x04;
		/* LBPU, LBPWS, LBPWS10, LBPRZ */
		page->data[6] = 0x02; /* thin */
		page->data[7] = unit->low_space ? SCSI_THRESHOLD_RANGE : 0;
	}
	page->length = 8;
}

static void copy_descriptor(struct page *page, unsigned type, unsigned length)
{
	scsi_put16(page->data + page->length, type);
	scsi_put16(page->data + page->length + 2, length);
	page->length += 4 + length;
}

/* SPC-4 7.8.17 */
static void page_copy(const struct scsi_task *task, struct page *page)
{
	static const uint8_t commands[] = {
		7,
		SCSI_EXTENDED_COPY,
		1,
		0x00,
		SCSI_RECEIVE_COPY_RESULTS,
		2,
		0x00,
		0x03,
	};
	uint8_t *at = page->data + page->length;

	(void)task;
	copy_descriptor(page, 0x0001, 12); /* supported commands */
	memcpy(at + 4, commands, sizeof(commands));
	at = page->data + page->length;
	copy_descriptor(page, 0x0004, 28); /* parameter data */
	scsi_put16(at + 8, SCSI_COPY_ENDS);
	scsi_put16(at + 10, SCSI_COPY_SEGMENTS);
	scsi_put32(at + 12, SCSI_COPY_LIST_MAX);
	at = page->data + page->length;
	copy_descriptor(page, 0x0008, 4); /* supported descriptors */
	at[4] = 3;
	at[5] = SCSI_COPY_BLOCKS_TYPE;
	at[6] = SCSI_COPY_BYTES_TYPE;
	at[7] = SCSI_COPY_END_TYPE;
	copy_descriptor(page, 0x000c, 4); /* supported identifiers: none */
	at = page->data + page->length;
	copy_descriptor(page, 0x8001, 32); /* general copy operations */
	scsi_put32(at + 4, 0xffff);
	scsi_put32(at + 8, 0xff);
	scsi_put32(at + 12, SCSI_COPY_SEGMENT_MAX);
	at[16] = 9;
}

static void page_supported(const struct scsi_task *task, struct page *page);

static const struct {
	uint8_t code;
	void (*make)(const struct scsi_task *task, struct page *page);
} pages[] = {
	{0x00, page_supported},
	{0x80, page_serial},
	{0x83, page_identification},
	{0x86, page_extended},
	{0x8f, page_copy},
	{0xb0, page_limits},
	{0xb1, page_characteristics},
	{0xb2, vpd_provisioning},
};

static void page_supported(const struct scsi_task *task, struct page *page)
{
	(void)task;
	for (unsigned i = 0; i < array_size(pages); i++)
		page->data[page->length++] = pages[i].code;
}

static void vital_run(struct scsi_task *task)
{
	struct page page = {.length = 4};

	for (unsigned i = 0; i < array_size(pages); i++) {
		if (pages[i].code != task->cdb[2])
			continue;
		pages[i].make(task, &page);
		page.data[0] = SCSI_DISK;
		page.data[1] = pages[i].code;
		scsi_put16(page.data + 2, (unsigned)page.length - 4);
		scsi_task_reply(task, page.data, page.length);
		return;
	}
	scsi_fail_cdb(task, 2, SCSI_NO_BIT);
	scsi_task_complete(task);
}

void scsi_inquiry_run(struct scsi_task *task)
{
	struct page page = {.length = 0};

	if (task->cdb[1] & EVPD) {
		if (task->path) {
			vital_run(task);
			return;
		}
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_NO_UNIT);
		scsi_task_complete(task);
		return;
	}
	if (task->cdb[2]) {
		scsi_fail_cdb(task, 2, SCSI_NO_BIT);
		scsi_task_complete(task);
		return;
	}
	standard_make(task->path ? scsi_task_unit(task) : NULL, &page);
	scsi_task_reply(task, page.data, page.length);
}
