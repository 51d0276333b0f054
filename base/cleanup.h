/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources that free themselves when their scope ends, and the way to hand
 * them over instead.
 *
 *	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
 *	...
 *	*ret_fd = take_fd(&fd);
 */
#ifndef BASE_CLEANUP_H
#define BASE_CLEANUP_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Close @fd if it is one; errno is kept. */
static inline void fd_close(int fd)
{
	int saved = errno;

	if (fd >= 0)
		(void)close(fd); /* nothing useful can be done */
	errno = saved;
}

static inline void cleanup_fd(int *fd)
{
	fd_close(*fd);
}

static inline void cleanup_free(void *p)
{
	int saved = errno;

	free(*(void **)p);
	errno = saved;
}

static inline void cleanup_file(FILE **f)
{
	if (*f)
		(void)fclose(*f); /* read-only users; writers close by hand */
}

/* Hand over a descriptor: the variable no longer owns it. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* Hand over a pointer: the variable no longer owns it. */
#define take_ptr(p)                                  \
	({                                           \
		__typeof__(p) *taken_from_ = &(p);   \
		__typeof__(p) taken_ = *taken_from_; \
		*taken_from_ = NULL;                 \
		taken_;                              \
	})

#define auto_cleanup(function) __attribute__((cleanup(function)))
#define auto_close             auto_cleanup(cleanup_fd)
#define auto_free              auto_cleanup(cleanup_free)
#define auto_fclose            auto_cleanup(cleanup_file)

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr)-offsetof(type, member)))

#define array_size(a) (sizeof(a) / sizeof((a)[0]))

#endif
