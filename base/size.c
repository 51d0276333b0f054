/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

/* 64 bits hold neither size * 100 nor fraction * unit. */
__extension__ typedef unsigned __int128 u128;

#define PIB             (UINT64_C(1) << 50)
#define EIB             (UINT64_C(1) << 60)
#define FRACTION_DIGITS 18 /* of "1.5"; 10^18 still fits in 64 bits */

static const struct {
	const char *text; /* any case */
	uint64_t bytes;
} units[] = {
	{"", 1},
	{"B", 1},
	{"K", KIB},
	{"KiB", KIB},
	{"Ki", KIB},
	{"M", MIB},
	{"MiB", MIB},
	{"Mi", MIB},
	{"G", GIB},
	{"GiB", GIB},
	{"Gi", GIB},
	{"T", TIB},
	{"TiB", TIB},
	{"Ti", TIB},
	{"P", PIB},
	{"PiB", PIB},
	{"Pi", PIB},
	{"E", EIB},
	{"EiB", EIB},
	{"Ei", EIB},
	{"KB", 1000},
	{"MB", 1000000},
	{"GB", 1000000000},
	{"TB", 1000000000000},
	{"PB", 1000000000000000},
};

static bool unit_find(const char *text, uint64_t *ret_bytes)
{
	size_t i;

	for (i = 0; i < array_size(units); i++) {
		if (strcasecmp(text, units[i].text) == 0) {
			*ret_bytes = units[i].bytes;
			return true;
		}
	}
	return false;
}

static int size_bad(struct error *err, const char *text)
{
	return error_set(err, EINVAL,
			 "'%.64s' is not a size: write bytes, or a number "
			 "and KiB, MiB, GiB or TiB, as in 1.5GiB",
			 text);
}

static int size_large(struct error *err, const char *text)
{
	return error_set(err, EINVAL, "the size '%.64s' is past 8 EiB", text);
}

int size_parse(const char *text, uint64_t *ret_bytes, struct error *err)
{
	uint64_t whole = 0, fraction = 0, scale = 1, unit;
	bool point = false;
	const char *at = text;
	int digits = 0;
	u128 bytes;

	if (!isdigit((unsigned char)*at))
		return size_bad(err, text);
	for (; isdigit((unsigned char)*at); at++) {
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, *at - '0', &whole))
			return size_large(err, text);
	}
	if (*at == '.') {
		point = true;
		for (at++; isdigit((unsigned char)*at); at++, digits++) {
			if (digits >= FRACTION_DIGITS)
				continue; /* below one byte */
			fraction = fraction * 10 + (uint64_t)(*at - '0');
			scale *= 10;
		}
		if (digits == 0)
			return size_bad(err, text);
	}
	if (*at == ' ')
		at++;
	if (!unit_find(at, &unit) || (at != text && at[-1] == ' ' && !*at))
		return size_bad(err, text);
	if (point && unit == 1)
		return error_set(err, EINVAL, "'%.64s' is a fraction of a byte",
				 text);
	bytes = (u128)whole * unit + (u128)fraction * unit / scale;
	if (bytes > INT64_MAX)
		return size_large(err, text);
	*ret_bytes = (uint64_t)bytes;
	return 0;
}

const char *size_format(char *buf, uint64_t bytes)
{
	static const char *const names[] = {"B",   "KiB", "MiB", "GiB",
					    "TiB", "PiB", "EiB"};
	u128 hundredths = (u128)bytes * 100;
	size_t i = 0;

	/* Rounded first, so that 1023.999 KiB becomes 1.00 MiB. */
	while (i + 1 < array_size(names) &&
	       (i == 0 ? bytes >= 1024
		       : (hundredths + (UINT64_C(1) << (10 * i)) / 2) >>
				 (10 * i) >= 102400))
		i++;
	if (i == 0) {
		(void)snprintf(buf, SIZE_TEXT_MAX, "%u B",
			       (unsigned)bytes); /* always fits */
		return buf;
	}
	hundredths = (hundredths + (UINT64_C(1) << (10 * i)) / 2) >> (10 * i);
	(void)snprintf(buf, SIZE_TEXT_MAX, "%u.%02u %s",
		       (unsigned)(hundredths / 100),
		       (unsigned)(hundredths % 100), names[i]);
	return buf;
}

int size_round_up(uint64_t value, uint64_t unit, uint64_t *ret)
{
	uint64_t rest = value % unit;

	if (rest && __builtin_add_overflow(value, unit - rest, &value))
		return -ERANGE;
	*ret = value;
	return 0;
}
