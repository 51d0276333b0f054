/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop/iobuf_huge.h"

#define SETTINGS "/sys/kernel/mm/transparent_hugepage/"

/* "": there is none. */
static void setting_read(const char *path, char text[static 64])
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : read(fd, text, 63);

	text[length > 0 ? length : 0] = '\0';
}

/*
 * The kernel's choice stands in brackets. A size may leave it to all sizes
 * (6.8).
 */
static bool kernel_offers(void)
{
	char size[64], all[64], own[64];

	setting_read(SETTINGS "hpage_pmd_size", size);
	if (strtoull(size, NULL, 10) != IOBUF_HUGE)
		return false;
	setting_read(SETTINGS "hugepages-2048kB/enabled", own);
	setting_read(SETTINGS "enabled", all);
	if (own[0] && !strstr(own, "[inherit]"))
		return !strstr(own, "[never]");
	return strstr(all, "[always]") || strstr(all, "[madvise]");
}

bool iobuf_huge_offered(void)
{
	/* More than 1: but memory that asks for them gets them (6.18). */
	return prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) != 1 && kernel_offers();
}

void iobuf_huge_want(void *data, size_t size, bool want)
{
	/* Fails where there are none: neither is needed then. */
	(void)madvise(data, size, want ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void *iobuf_huge_reserve(size_t size, size_t offset)
{
	char *found = mmap(NULL, size + IOBUF_HUGE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *start;
	size_t before;

	if (found == MAP_FAILED)
		return NULL;
	before = -((uintptr_t)found + offset) % IOBUF_HUGE;
	start = found + before;
	(void)munmap(start + size, IOBUF_HUGE - before);
	if (before)
		(void)munmap(found, before);
	return start;
}

void *iobuf_huge_map(size_t size)
{
	void *data = iobuf_huge_reserve(size, 0);

	if (!data)
		return NULL;
	if (mprotect(data, size, PROT_READ | PROT_WRITE) < 0) {
		(void)munmap(data, size);
		return NULL;
	}
	iobuf_huge_want(data, size, true);
	return data;
}

void iobuf_huge_unmap(void *data, size_t size)
{
	(void)munmap(data, size);
}
