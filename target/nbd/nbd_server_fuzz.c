/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole NBD server, before a peer that says arbitrary bytes: from the
 * first one, or once it has agreed on an export in one of the ways there are.
 * The first byte says which, and whether by TCP; the second how the rest is
 * cut.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/nbd_wire.h"
#include "target/testkit/server_fuzz_kit.h"

#define HEALTH_EACH 16 /* inputs */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put_option(struct fuzz_bytes *to, uint32_t option, const void *data,
		       size_t length)
{
	fuzz_put_number(to, NBD_OPTION_MAGIC, 8);
	fuzz_put_number(to, option, 4);
	fuzz_put_number(to, length, 4);
	fuzz_put(to, data, length);
}

/* NBD_OPT_GO: a name, and what of it is to be told. */
static void put_go(struct fuzz_bytes *to)
{
	static const uint8_t go[] = {0, 0, 0, 1, 'd', 0, 1, 0, 3};

	put_option(to, NBD_OPT_GO, go, sizeof(go));
}

static void put_meta_context(struct fuzz_bytes *to)
{
	struct fuzz_bytes set = {.length = 0};

	fuzz_put_number(&set, 1, 4);
	fuzz_put(&set, "d", 1);
	fuzz_put_number(&set, 1, 4);
	fuzz_put_number(&set, strlen("base:allocation"), 4);
	fuzz_put(&set, "base:allocation", strlen("base:allocation"));
	put_option(to, NBD_OPT_SET_META_CONTEXT, set.data, set.length);
}

/* @how: 0 says nothing. */
static struct fuzz_bytes begin(unsigned how)
{
	struct fuzz_bytes first = {.length = 0};

	if (how == 0)
		return first;
	/* NBD_FLAG_C_FIXED_NEWSTYLE, NBD_FLAG_C_NO_ZEROES */
	fuzz_put_number(&first, 3, 4);
	switch (how) {
	case 1: put_option(&first, NBD_OPT_EXPORT_NAME, "d", 1); break;
	case 2:
		put_option(&first, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
		put_meta_context(&first);
		put_go(&first);
		break;
	case 3:
		put_option(&first, NBD_OPT_EXTENDED_HEADERS, NULL, 0);
		put_meta_context(&first);
		put_go(&first);
		break;
	case 4: put_option(&first, NBD_OPT_STARTTLS, NULL, 0); break;
	default: break; /* only the flags: options follow */
	}
	return first;
}

/* Somebody with manners is served. */
static void check_health(bool tcp)
{
	struct fuzz_bytes first = begin(1), heard = {.length = 0};
	/* greeting, size and flags, the head of a simple reply and 512 bytes */
	const size_t expected = 18 + 10 + 16 + 512;

	fuzz_put_number(&first, NBD_REQUEST_MAGIC, 4);
	fuzz_put_number(&first, NBD_CMD_READ, 4);
	fuzz_put_number(&first, 7, 8);    /* cookie */
	fuzz_put_number(&first, 4096, 8); /* offset */
	fuzz_put_number(&first, 512, 4);
	fuzz_put_number(&first, NBD_REQUEST_MAGIC, 4);
	fuzz_put_number(&first, NBD_CMD_DISC, 4);
	fuzz_put_number(&first, 8, 8);
	fuzz_put_number(&first, 0, 8);
	fuzz_put_number(&first, 0, 4);
	if (fuzz_exchange(tcp, &first, NULL, 0, 1, &heard) != expected)
		abort();
	assert(heard.data[18 + 10 + 7] == 0); /* its error: none */
}

static void server_start(void)
{
	static const char *const anybody = "any";
	struct target *target = fuzz_server("me:0123456789abcdef\n",
					    target_listen_nbd);
	const struct target_export spec = {.name = "d",
					   .initiators = &anybody,
					   .n_initiators = 1,
					   .open = fuzz_open};

	if (target_export_set(target, &spec, NULL) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool started;
	static unsigned n;
	struct fuzz_bytes first;

	if (size < 2)
		return 0;
	if (!started)
		server_start();
	started = true;
	first = begin((data[0] & FUZZ_BEGINNING) % 6);
	(void)fuzz_exchange(data[0] & FUZZ_BY_TCP, &first, data + 2, size - 2,
			    1 + data[1] * 16u, NULL);
	if (n++ % HEALTH_EACH == 0)
		check_health(n / HEALTH_EACH % 2);
	return 0;
}
