/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The macros that error.h gives an analyzer. */
#undef error_set
#undef error_prefix

int error_set(struct error *err, int code, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX]; /* an argument may be err->msg itself */
	va_list args;

	if (code <= 0)
		code = EIO;
	if (!err)
		return -code;
	va_start(args, fmt);
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	err->code = code;
	memcpy(err->msg, text, sizeof(err->msg));
	return -code;
}

int error_prefix(struct error *err, int r, const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;
	int length;

	if (r >= 0)
		r = -EIO;
	if (!err)
		return r;
	va_start(args, fmt);
	length = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (length >= 0 && (size_t)length < sizeof(text))
		(void)snprintf(text + length, sizeof(text) - (size_t)length,
			       "%s", error_text(err)); /* cut by design */
	if (length >= 0)
		memcpy(err->msg, text, sizeof(err->msg));
	if (err->code <= 0)
		err->code = -r;
	return r;
}

const char *error_text(const struct error *err)
{
	const char *text = NULL;

	if (err && err->msg[0])
		return err->msg;
	if (err && err->code > 0)
		text = strerrordesc_np(err->code);
	return text ? text : "unknown error";
}
