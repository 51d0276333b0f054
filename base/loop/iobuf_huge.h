/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of transparent huge pages, for iobuf*.c only. */
#ifndef BASE_IOBUF_HUGE_H
#define BASE_IOBUF_HUGE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Bytes of a huge page. A disk takes only so many pieces a request; 254 are
 * usual. Pages that are not neighbours in memory are a piece each. So 1 MiB of
 * 4 KiB pages is two requests, and half a huge page is one.
 */
#define IOBUF_HUGE ((size_t)2 << 20)

/*
 * Tell whether the kernel has huge pages for memory that asks, and for this
 * process.
 */
bool iobuf_huge_offered(void);

/* Give @data huge pages from now on, as far as there are any; or never any. */
void iobuf_huge_want(void *data, size_t size, bool want);

/*
 * Map memory that begins at a huge page and wants them; @size is a multiple of
 * IOBUF_HUGE. NULL: no memory. iobuf_huge_unmap() frees it.
 */
void *iobuf_huge_map(size_t size);
void iobuf_huge_unmap(void *data, size_t size);

/*
 * Reserve addresses without memory; the one @offset bytes behind the first
 * begins a huge page. @offset and @size are multiples of a page. NULL: there
 * are none.
 */
void *iobuf_huge_reserve(size_t size, size_t offset);

#endif
