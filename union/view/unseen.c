/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/unseen.h"

#include <fcntl.h>
#include <time.h>

#include "base/cleanup.h"
#include "union/state/request.h"
#include "union/sys/file_in_use.h"

static uint32_t caller_pid(const struct request *request)
{
	return request ? request->pid : 0;
}

/* Note, with the node locked, that the caller gets an answer to keep. */
static void note_told(struct node *node, const struct request *request)
{
	uint32_t *told = &node_file(node)->told, pid = caller_pid(request);

	*told = pid && (!*told || *told == pid) ? pid : NODE_TOLD_MANY;
}

bool unseen_begins(const struct unionfs *fs, const struct request *request,
		   struct node *node, bool read_write)
{
	struct node_file *file = node_file(node);
	bool begins = !node->mapped && read_write;
	bool others = file->told && file->told != caller_pid(request);

	if (begins) {
		node->mapped = true;
		file->told = 0;
	}
	return fs->told_of_writes ? begins && others : file->writers == 1;
}

/* Has a process mapped the file to write, while none has it open so? */
static bool is_mapped(struct unionfs *fs, const struct request *request,
		      struct node *node)
{
	auto_close int fd = unionfs_open(fs, node, O_RDONLY | O_NOFOLLOW);
	bool mapped;

	node_lock(&fs->nodes, node);
	/* A writer is counted before the kernel opens the file. */
	if (fd >= 0 && !node_file(node)->writers && file_is_written(fd) == 0)
		node->mapped = false;
	mapped = node->mapped;
	if (!mapped) {
		node_file(node)->told = 0;
		note_told(node, request);
	}
	node_unlock(&fs->nodes, node);
	return mapped;
}

bool unseen_may_change(struct unionfs *fs, const struct request *request,
		       struct node *node)
{
	bool may, ask;

	node_lock(&fs->nodes, node);
	may = node->mapped || (!fs->told_of_writes && node->passthrough &&
			       node_file(node)->writers);
	if (!may)
		note_told(node, request);
	ask = node->mapped && !node_file(node)->writers;
	node_unlock(&fs->nodes, node);
	return ask ? is_mapped(fs, request, node) : may;
}

/* Make a digest of the attributes that may change. */
static unsigned digest_of(const struct stat *st)
{
	const uint64_t parts[] = {
		(uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec,
		(uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec,
		(uint64_t)st->st_blocks,      (uint64_t)st->st_size,
	};
	uint64_t sum = 0;
	unsigned i;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		sum = (sum ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (unsigned)(sum >> 51); /* 13 bits */
}

static uint16_t now_ms(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_MONOTONIC_COARSE, &t) < 0)
		return 0;
	return (uint16_t)(t.tv_sec * 1000 + t.tv_nsec / 1000000);
}

static double moment(const struct unionfs *fs)
{
	const double moment = UNSEEN_KEEP_MS / 1000.;

	return fs->timeout < moment ? fs->timeout : moment;
}

/*
 * May the answer be kept? With the node locked. A file without writers has a
 * mapping, or that cannot be known.
 */
static bool may_keep(const struct unionfs *fs, const struct node_file *file)
{
	return fs->told_of_writes && file->writers;
}

double unseen_keep(struct unionfs *fs, struct node *node, const struct stat *st)
{
	struct node_file *file = node_file(node);
	unsigned digest = digest_of(st);
	uint16_t now = now_ms();
	bool kept;

	node_lock(&fs->nodes, node);
	/* The kernel asks for a kept answer: the file was read, or mapped. */
	if ((uint16_t)(now - file->said_at) <= UNSEEN_KEEP_MS &&
	    file->said == digest && file->alike < UNSEEN_ALIKE)
		file->alike++;
	else
		file->alike = 0;
	file->said = digest;
	file->said_at = now;
	kept = may_keep(fs, file) && file->alike == UNSEEN_ALIKE;
	node_unlock(&fs->nodes, node);
	return kept ? moment(fs) : 0;
}

double unseen_keep_size(struct unionfs *fs, struct node *node,
			const struct stat *st)
{
	struct node_file *file = node_file(node);
	unsigned digest = digest_of(st);
	uint16_t now = now_ms();
	bool kept;

	node_lock(&fs->nodes, node);
	if (file->said != digest)
		file->alike = 0;
	else if (file->alike < UNSEEN_ALIKE)
		file->alike++;
	file->said = digest;
	kept = may_keep(fs, file) &&
	       (file->alike == UNSEEN_ALIKE ||
		(uint16_t)(now - file->said_at) > UNSEEN_WATCH_MS);
	node_unlock(&fs->nodes, node);
	return kept ? moment(fs) : 0;
}

double unseen_keep_new(const struct unionfs *fs)
{
	return fs->told_of_writes ? moment(fs) : 0;
}
