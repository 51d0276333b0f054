/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's text is clean afterwards: UTF-8 by the C library's own judgement,
 * nothing that moves a cursor, within its size. Clean text is kept. An errno
 * that it names has that name.
 */
#include <assert.h>
#include <locale.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include "rpc/rpc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_clean(const char *text, size_t length)
{
	mbstate_t state = {0};

	for (size_t i = 0; i < length;) {
		wchar_t c;
		size_t n = mbrtowc(&c, text + i, length - i, &state);

		assert(n > 0 && n <= 4);
		assert(c >= 0x20 && c != 0x7f && (c < 0x80 || c >= 0xa0));
		i += n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *locale;
	char buf[128], again[128];
	size_t room, n;
	int e;

	if (!locale)
		locale = setlocale(LC_ALL, "C.UTF-8");
	assert(locale);
	if (!size)
		return 0;
	room = 1 + data[0] % sizeof(buf);
	data++;
	size--;
	n = strlen(rpc_text_clean(buf, room, (const char *)data, size));
	assert(n < room);
	check_clean(buf, n);
	assert(strcmp(rpc_text_clean(again, room, buf, n), buf) == 0);
	e = rpc_errno_parse((const char *)data, size);
	if (e) {
		assert(strlen(strerrorname_np(e)) == size);
		assert(memcmp(strerrorname_np(e), data, size) == 0);
	}
	return 0;
}
