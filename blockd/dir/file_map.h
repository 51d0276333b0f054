/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The place of a file's data on its medium, by FIEMAP (ioctl_fiemap(2)). The
 * map tells allocated and shared blocks, and whether two files have the same
 * blocks. Files are synced first, so that nothing is in memory only.
 */
#ifndef BLOCKD_FILE_MAP_H
#define BLOCKD_FILE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* A range of bytes; other than 0 ends the listing and is returned. */
typedef int (*file_map_range)(void *context, uint64_t offset, uint64_t length);

/*
 * Visit the ranges with data in the first @size bytes of @fd, from @start on;
 * neighbours joined. Allocated blocks that were never written to hold no data.
 */
int file_map_data(int fd, uint64_t start, uint64_t size, file_map_range visit,
		  void *context, struct error *err);

/*
 * Visit the ranges where the first @size bytes of @fd may differ from @base,
 * from @start on. A difference is never left out. Past the end of @base are
 * zeroes. Nobody writes to either. Blocks whose place the file system does not
 * say, or says in a way that can't be compared (compressed, inline), are a
 * difference.
 */
int file_map_differ(int fd, int base, uint64_t start, uint64_t size,
		    file_map_range visit, void *context, struct error *err);

/*
 * A piece of a file; @shared: other files have the blocks at @place of the
 * medium (in bytes), too. Other than 0 ends the listing and is returned.
 */
typedef int (*file_map_piece)(void *context, uint64_t place, uint64_t length,
			      bool shared);

/*
 * Visit all allocated pieces. Nothing is synced: data in memory only shows as
 * before it was written, or as a piece that is not shared. -EOPNOTSUPP: the
 * file system does not tell, or in a way that does not say how long a piece is
 * on the medium (compressed).
 */
int file_map_pieces(int fd, file_map_piece visit, void *context);

/* Bytes that other files use too; 0 where the file system does not tell. */
uint64_t file_map_shared(int fd);

/*
 * Return the bytes that a write of this range would need of the file system:
 * its holes, and blocks that other files use too. Where that can't be known,
 * all of the range. Nothing is synced.
 */
uint64_t file_map_missing(int fd, uint64_t offset, uint64_t length);

#endif
