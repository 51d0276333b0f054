/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MODE SENSE and MODE SELECT: SPC-4 6.10 to 6.13, 7.5, SBC-3 6.4; thresholds in
 * percent are of SBC-4.
 */
#include <string.h>

#include "target/scsi/scsi_internal.h"

#define DBD       0x08 /* no block descriptors */
#define LLBAA     0x10 /* long ones */
#define PF        0x10
#define SP        0x01
#define WP        0x80 /* device-specific: write protected */
#define DPOFUA    0x10
#define ALL_PAGES 0x3f
#define ALL_SUB   0xff

enum control { CURRENT = 0, CHANGEABLE = 1, DEFAULT = 2, SAVED = 3 };

#define PAGE_MAX 24u /* bytes */

#define SPF 0x40 /* it has a subpage code, and a longer header */

#define LBPERE 0x80 /* SBC-4 6.5.10 */

/* A threshold descriptor, SBC-4 6.5.9.2. */
#define THRESHOLD_ENABLED   0x80
#define THRESHOLD_PERCENT   0x08 /* type 001b; falling */
#define THRESHOLD_AVAILABLE 0x03 /* resource: what is left, in percent */

/* ---- the pages ---- */

static const struct scsi_mode defaults = {.descriptors = false};

static void page_recovery(const struct scsi_unit *unit,
			  const struct scsi_mode *mode, uint8_t *page)
{
	(void)unit;
	page[7] = mode->quiet ? 0 : LBPERE;
}

static void page_caching(const struct scsi_unit *unit,
			 const struct scsi_mode *mode, uint8_t *page)
{
	(void)unit;
	page[2] = mode->write_through ? 0 : 0x04; /* WCE */
}

static void page_control(const struct scsi_unit *unit,
			 const struct scsi_mode *mode, uint8_t *page)
{
	(void)unit;
	page[2] = (uint8_t)(0x02 | (mode->descriptors ? 0x04 : 0)); /* GLTSD */
	page[3] = 0x10; /* commands may be put in any order */
	page[4] = mode->write_protect ? 0x08 : 0;
	page[5] = mode->tell_aborted ? 0x40 : 0;
	scsi_put16(page + 8, 0xffff); /* busy for as long as it takes */
}

static void page_exceptions(const struct scsi_unit *unit,
			    const struct scsi_mode *mode, uint8_t *page)
{
	(void)unit;
	(void)mode;
	page[2] = 0x08; /* DEXCPT */
}

/* SITUA is 0: every initiator is told. */
static void mode_provisioning(const struct scsi_unit *unit,
			      const struct scsi_mode *mode, uint8_t *page)
{
	uint8_t *threshold = page + SCSI_THRESHOLD_AT;

	threshold[0] = (uint8_t)(THRESHOLD_PERCENT |
				 (mode->disarmed ? 0 : THRESHOLD_ENABLED));
	threshold[1] = THRESHOLD_AVAILABLE;
	scsi_put32(threshold + 4, unit->low_space);
}

static void page_recovery_set(const uint8_t *page, struct scsi_mode *mode)
{
	mode->quiet = !(page[7] & LBPERE);
}

static void page_caching_set(const uint8_t *page, struct scsi_mode *mode)
{
	mode->write_through = !(page[2] & 0x04);
}

static void page_control_set(const uint8_t *page, struct scsi_mode *mode)
{
	mode->descriptors = page[2] & 0x04;
	mode->write_protect = page[4] & 0x08;
	mode->tell_aborted = page[5] & 0x40;
}

static void page_provisioning_set(const uint8_t *page, struct scsi_mode *mode)
{
	mode->disarmed = !(page[SCSI_THRESHOLD_AT] & THRESHOLD_ENABLED);
}

/* By code and subpage. */
static const struct mode_page {
	uint8_t code;
	uint8_t sub;    /* 0: none */
	uint8_t length; /* bytes in all */
	uint8_t changeable[PAGE_MAX];
	void (*make)(const struct scsi_unit *unit, const struct scsi_mode *mode,
		     uint8_t *page);
	void (*set)(const uint8_t *page, struct scsi_mode *mode);
} pages[] = {
	{.code = 0x01,
	 .length = 12,
	 .changeable = {[7] = LBPERE},
	 .make = page_recovery,
	 .set = page_recovery_set},
	{.code = 0x08,
	 .length = 20,
	 .changeable = {[2] = 0x04},
	 .make = page_caching,
	 .set = page_caching_set},
	{.code = 0x0a,
	 .length = 12,
	 .changeable = {[2] = 0x04, [4] = 0x08, [5] = 0x40},
	 .make = page_control,
	 .set = page_control_set},
	{.code = 0x1c, .length = 12, .make = page_exceptions},
	{.code = 0x1c,
	 .sub = 0x02,
	 .length = SCSI_THRESHOLD_AT + 8,
	 .changeable = {[SCSI_THRESHOLD_AT] = THRESHOLD_ENABLED},
	 .make = mode_provisioning,
	 .set = page_provisioning_set},
};

/* Thresholds are of units whose space can run short. */
static bool page_there(const struct scsi_unit *unit,
		       const struct mode_page *page)
{
	return page->sub == 0 || (unit->thin && unit->low_space > 0);
}

static void page_make(const struct scsi_unit *unit,
		      const struct mode_page *page, enum control control,
		      const struct scsi_mode *mode, uint8_t *ret)
{
	memset(ret, 0, page->length);
	switch (control) {
	case CHANGEABLE: memcpy(ret, page->changeable, page->length); break;
	case DEFAULT: page->make(unit, &defaults, ret); break;
	default: page->make(unit, mode, ret);
	}
	ret[0] = page->code;
	if (page->sub == 0) {
		ret[1] = page->length - 2;
		return;
	}
	ret[0] |= SPF;
	ret[1] = page->sub;
	scsi_put16(ret + 2, page->length - 4u);
}

static struct scsi_mode mode_of(struct scsi_unit *unit)
{
	struct scsi_mode mode;

	pthread_mutex_lock(&unit->lock);
	mode = unit->mode;
	pthread_mutex_unlock(&unit->lock);
	return mode;
}

/* ---- the header, and the block descriptor ---- */

struct header {
	unsigned length;     /* bytes of the header itself */
	unsigned descriptor; /* bytes of the block descriptor; 0: none */
	bool is_long;        /* of the descriptor */
};

static void descriptor_make(const struct scsi_unit *unit, bool is_long,
			    uint8_t *ret)
{
	uint64_t blocks = scsi_unit_blocks(unit);

	if (is_long) {
		scsi_put64(ret, blocks);
		scsi_put32(ret + 12, unit->block_size);
		return;
	}
	scsi_put32(ret, blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX);
	scsi_put32(ret + 4, unit->block_size); /* 24 bits */
}

static void header_make(const struct scsi_task *task, const struct header *h,
			unsigned total, uint8_t *ret)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	uint8_t device = DPOFUA;

	if (unit->read_only || atomic_load(&unit->write_protect))
		device |= WP;
	if (h->length == 4) {
		ret[0] = (uint8_t)(total - 1);
		ret[2] = device;
		ret[3] = (uint8_t)h->descriptor;
	} else {
		scsi_put16(ret, total - 2);
		ret[3] = device;
		ret[4] = h->is_long;
		scsi_put16(ret + 6, h->descriptor);
	}
	if (h->descriptor)
		descriptor_make(unit, h->is_long, ret + h->length);
}

/* ---- MODE SENSE ---- */

static bool page_wanted(const struct scsi_unit *unit,
			const struct mode_page *page, unsigned code,
			unsigned sub)
{
	if (!page_there(unit, page))
		return false;
	if (code == ALL_PAGES)
		return sub == ALL_SUB || (sub == 0 && page->sub == 0);
	return code == page->code && (sub == ALL_SUB || sub == page->sub);
}

static void sense_parse(struct scsi_task *task)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	unsigned code = task->cdb[2] & 0x3f;
	unsigned sub = task->cdb[3];
	bool any = false, known = code == ALL_PAGES;

	for (unsigned i = 0; i < array_size(pages); i++) {
		any |= page_wanted(unit, &pages[i], code, sub);
		known |= code == pages[i].code;
	}
	if (task->cdb[2] >> 6 == SAVED)
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_SAVING);
	else if (!any)
		scsi_fail_cdb(task, known ? 3 : 2, known ? SCSI_NO_BIT : 5);
}

static void mode_sense_run(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);
	struct scsi_mode mode = mode_of(unit);
	uint8_t data[8 + 16 + array_size(pages) * PAGE_MAX] = {0};
	const uint8_t *cdb = task->cdb;
	struct header h = {.length = task->command->length == 6 ? 4 : 8};
	unsigned length;

	if (!(cdb[1] & DBD)) {
		h.is_long = h.length == 8 && (cdb[1] & LLBAA);
		h.descriptor = h.is_long ? 16 : 8;
	}
	length = h.length + h.descriptor;
	for (unsigned i = 0; i < array_size(pages); i++) {
		if (!page_wanted(unit, &pages[i], cdb[2] & 0x3f, cdb[3]))
			continue;
		page_make(unit, &pages[i], cdb[2] >> 6, &mode, data + length);
		length += pages[i].length;
	}
	header_make(task, &h, length, data);
	scsi_task_reply(task, data, length);
}

/* ---- MODE SELECT ---- */

static void select_parse(struct scsi_task *task)
{
	if (!(task->cdb[1] & PF) && task->transfer_length)
		scsi_fail_cdb(task, 1, 4);
	else if (task->cdb[1] & SP)
		scsi_fail_cdb(task, 1, 0);
}

static void fail_length(struct scsi_task *task)
{
	scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
}

/* The size of the medium can't be set: it may only be as it is. */
static bool descriptor_check(struct scsi_task *task, const struct header *h)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	const uint8_t *d = task->out + h->length;
	uint64_t blocks = h->is_long ? scsi_be64(d) : scsi_be32(d);
	uint64_t any = h->is_long ? UINT64_MAX : UINT32_MAX;
	uint64_t is = scsi_unit_blocks(unit);
	uint32_t size = h->is_long ? scsi_be32(d + 12) : scsi_be24(d + 5);

	if (blocks && blocks != is && blocks != any)
		scsi_fail_list(task, h->length, SCSI_NO_BIT);
	else if (size != unit->block_size)
		scsi_fail_list(task, h->length + (h->is_long ? 12 : 5),
			       SCSI_NO_BIT);
	return !task->failed;
}

static bool mode_header_check(struct scsi_task *task, struct header *ret)
{
	const uint8_t *list = task->out;

	ret->length = task->command->length == 6 ? 4 : 8;
	if (task->out_length < ret->length) {
		fail_length(task);
		return false;
	}
	ret->is_long = ret->length == 8 && (list[4] & 1);
	ret->descriptor = ret->length == 4 ? list[3] : scsi_be16(list + 6);
	if (ret->descriptor == 0)
		return true;
	if (ret->descriptor != (ret->is_long ? 16 : 8)) {
		scsi_fail_list(task, ret->length == 4 ? 3 : 6, SCSI_NO_BIT);
		return false;
	}
	if (task->out_length < ret->length + ret->descriptor) {
		fail_length(task);
		return false;
	}
	return descriptor_check(task, ret);
}

/*
 * Find the page at byte @at of the list. NULL: none of ours; the task failed.
 */
static const struct mode_page *page_find(struct scsi_task *task, unsigned at)
{
	const uint8_t *new = task->out + at;
	unsigned left = task->out_length - at;
	unsigned header = new[0] & SPF ? 4 : 2;
	unsigned sub = header == 4 && left > 1 ? new[1] : 0;
	bool known = false;

	for (unsigned i = 0; i < array_size(pages); i++) {
		if (!page_there(scsi_task_unit(task), &pages[i]) ||
		    pages[i].code != (new[0] & 0x3f))
			continue;
		known = true;
		if (pages[i].sub == sub && (sub > 0) == (header == 4)) {
			if (left >= pages[i].length)
				return &pages[i];
			fail_length(task);
			return NULL;
		}
	}
	if (left < header)
		fail_length(task);
	else if (known && sub > 0)
		scsi_fail_list(task, at + 1, SCSI_NO_BIT);
	else
		scsi_fail_list(task, at, known ? 6 : 5);
	return NULL;
}

/*
 * Set one page at byte @at of the list. Returns its length; 0: the task failed.
 */
static unsigned page_select(struct scsi_task *task, unsigned at,
			    struct scsi_mode *mode)
{
	const uint8_t *new = task->out + at;
	const struct mode_page *page = page_find(task, at);
	uint8_t now[PAGE_MAX];
	unsigned header;

	if (!page)
		return 0;
	page_make(scsi_task_unit(task), page, CURRENT, mode, now);
	header = page->sub ? 4 : 2;
	for (unsigned i = 1; i < header; i++)
		if (new[i] != now[i]) { /* its length */
			scsi_fail_list(task, at + header / 2, SCSI_NO_BIT);
			return 0;
		}
	for (unsigned i = header; i < page->length; i++)
		if ((new[i] ^ now[i]) & ~page->changeable[i]) {
			scsi_fail_list(task, at + i, SCSI_NO_BIT);
			return 0;
		}
	if (page->set)
		page->set(new, mode);
	return page->length;
}

static bool mode_same(const struct scsi_mode *a, const struct scsi_mode *b)
{
	return a->descriptors == b->descriptors &&
	       a->write_protect == b->write_protect &&
	       a->tell_aborted == b->tell_aborted &&
	       a->write_through == b->write_through && a->quiet == b->quiet &&
	       a->disarmed == b->disarmed;
}

void scsi_mode_set(struct scsi_unit *unit, const struct scsi_mode *mode,
		   const struct scsi_path *by)
{
	if (mode_same(&unit->mode, mode))
		return;
	unit->mode = *mode;
	atomic_store(&unit->descriptors, mode->descriptors);
	atomic_store(&unit->write_protect, mode->write_protect);
	atomic_store(&unit->tell_aborted, mode->tell_aborted);
	atomic_store(&unit->write_through, mode->write_through);
	if (by)
		scsi_attention_raise_all(unit, by, SCSI_UA_MODE_CHANGED);
}

void scsi_mode_reset(struct scsi_unit *unit)
{
	scsi_mode_set(unit, &defaults, NULL);
}

static void select_run(struct scsi_task *task)
{
	struct scsi_unit *unit = scsi_task_unit(task);
	struct scsi_mode mode;
	struct header h;
	unsigned at;

	if (task->transfer_length == 0 || !mode_header_check(task, &h)) {
		scsi_task_complete(task);
		return;
	}
	/* The whole list is looked at before anything of it counts. */
	mode = mode_of(unit);
	at = h.length + h.descriptor;
	while (at < task->out_length && !task->failed)
		at += page_select(task, at, &mode);
	if (!task->failed && task->out_length < task->transfer_length)
		fail_length(task);
	if (!task->failed) {
		pthread_mutex_lock(&unit->lock);
		scsi_mode_set(unit, &mode, task->path);
		pthread_mutex_unlock(&unit->lock);
	}
	scsi_task_complete(task);
}

const struct scsi_command scsi_mode_commands[] = {
	{.opcode = SCSI_MODE_SENSE_6,
	 .action = SCSI_NO_ACTION,
	 .length = 6,
	 .flags = SCSI_C_LIST_IN,
	 .list_at = 4,
	 .list_size = 1,
	 .usage = {[1] = 0x08, 0xff, 0xff, 0xff},
	 .parse = sense_parse,
	 .run = mode_sense_run},
	{.opcode = SCSI_MODE_SENSE_10,
	 .action = SCSI_NO_ACTION,
	 .length = 10,
	 .flags = SCSI_C_LIST_IN,
	 .list_at = 7,
	 .list_size = 2,
	 .usage = {[1] = 0x18, 0xff, 0xff, [7] = 0xff, 0xff},
	 .parse = sense_parse,
	 .run = mode_sense_run},
	{.opcode = SCSI_MODE_SELECT_6,
	 .action = SCSI_NO_ACTION,
	 .length = 6,
	 .flags = SCSI_C_LIST_OUT,
	 .list_at = 4,
	 .list_size = 1,
	 .usage = {[1] = 0x11, [4] = 0xff},
	 .parse = select_parse,
	 .run = select_run},
	{.opcode = SCSI_MODE_SELECT_10,
	 .action = SCSI_NO_ACTION,
	 .length = 10,
	 .flags = SCSI_C_LIST_OUT,
	 .list_at = 7,
	 .list_size = 2,
	 .usage = {[1] = 0x11, [7] = 0xff, 0xff},
	 .parse = select_parse,
	 .run = select_run},
	{.length = 0},
};
