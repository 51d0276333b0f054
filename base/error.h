/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An error that a person reads: a code for the program and a text for them.
 *
 * Functions return 0 or a negative errno. Where the cause is worth words
 * (config, open, attach) they also take `struct error *err` last; NULL means
 * that the caller does not want the words.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>

#define ERROR_TEXT_MAX 512 /* bytes with the final NUL; longer is cut */

struct error {
	int code; /* positive errno; 0 when nothing was set */
	char msg[ERROR_TEXT_MAX];
};

/*
 * Set @err and return -@code in one statement.
 *
 * @err   may be NULL
 * @code  positive errno; 0 is taken as EIO, so that a caller who fails
 *        always returns an error
 */
int error_set(struct error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Put context in front of the text already there ("attach volume x: "). Returns
 * @r, whatever @err has.
 *
 * @err  may be NULL; an unset one gets @r's code
 * @r    negative errno; anything else is taken as -EIO
 */
int error_prefix(struct error *err, int r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__
/* For an analyzer that sees one file at a time: both return less than 0. */
#define ERROR_IS_NEGATIVE(call)                  \
	({                                       \
		int error_r_ = (call);           \
		if (error_r_ >= 0)               \
			__builtin_unreachable(); \
		error_r_;                        \
	})
#define error_set(...)    ERROR_IS_NEGATIVE(error_set(__VA_ARGS__))
#define error_prefix(...) ERROR_IS_NEGATIVE(error_prefix(__VA_ARGS__))
#endif

/* The text, or the name of the errno when none was set; never NULL. */
const char *error_text(const struct error *err);

#endif
