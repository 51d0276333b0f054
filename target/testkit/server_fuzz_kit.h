/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole server (target.h) as a fuzz target. Its listener, its loop and its
 * devices are on threads of their own. A peer says the bytes that the fuzzer
 * makes.
 *
 * No peer may break the server or keep it busy. Each connection must end soon
 * after its peer has said the last byte, and a later peer must be served.
 */
#ifndef TARGET_SERVER_FUZZ_KIT_H
#define TARGET_SERVER_FUZZ_KIT_H

#include <stddef.h>
#include <stdint.h>

#include "target/target.h"

struct fuzz_bytes {
	size_t length;
	uint8_t data[2048];
};

/* Append to @to, which has room. */
void fuzz_put(struct fuzz_bytes *to, const void *data, size_t length);
void fuzz_put_number(struct fuzz_bytes *to, uint64_t value, unsigned bytes);

/*
 * Start the server, once, with listeners at a unix socket of its own and at a
 * port of 127.0.0.1. Bytes by TCP are received in another way.
 *
 * @psk  text of a PSK file, which TLS is offered with; NULL: no TLS
 */
struct target *fuzz_server(const char *psk,
			   int (*listen)(struct target *target,
					 const char *address, int *ret_port,
					 struct error *err));

/* For struct target_export: zeroes in memory, 1 MiB, anew for each. */
int fuzz_open(void *context, struct loop *loop, bool read_only,
	      struct blockdev **ret, struct error *err);
#define FUZZ_DEVICE_SIZE (UINT64_C(1) << 20) /* bytes */

/* Bits of an input's first byte: by TCP it goes, and how it begins. */
#define FUZZ_BY_TCP    0x80
#define FUZZ_BEGINNING 0x7f

/*
 * Connect, by TCP or by the unix socket. Say @first, and then @data in pieces
 * of up to @piece bytes. Hang up, and take what comes until the server hangs
 * up.
 *
 * @ret  what came, as far as it has room, from a server that hangs up by
 *       itself; NULL: it does not matter
 *
 * Returns how many bytes came. Aborts when the server does not end the
 * connection.
 */
size_t fuzz_exchange(bool tcp, const struct fuzz_bytes *first,
		     const uint8_t *data, size_t length, size_t piece,
		     struct fuzz_bytes *ret);

#endif
