/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets to an NBD server, through the handshake. Blocks, within a limit. */
#ifndef BASE_NBD_CONNECT_H
#define BASE_NBD_CONNECT_H

#include <sys/socket.h>

#include "base/error.h"
#include "base/nbd/nbd_client.h"

#define NBD_ADDRESSES_MAX    8   /* of one name; more are not tried */
#define NBD_ADDRESS_TEXT_MAX 256 /* bytes with NUL */

/* A place to connect to, names already resolved. */
struct nbd_address {
	char text[NBD_ADDRESS_TEXT_MAX];
	unsigned count;
	struct {
		struct sockaddr_storage address;
		socklen_t length;
	} list[NBD_ADDRESSES_MAX];
};

/*
 * Resolve "HOST:PORT", "[IPV6]:PORT" or "unix:PATH". -EINVAL: not an address.
 * -EHOSTUNREACH: the name is not known.
 */
int nbd_address_resolve(const char *text, struct nbd_address *ret,
			struct error *err);

struct nbd_connect_options {
	int timeout_ms; /* for all of it */
	/*
	 * Time that the kernel waits for an acknowledgement or an answer to a
	 * keep-alive before it takes a silent peer for dead; ms.
	 */
	unsigned silence_ms;
	int cancel_fd; /* readable: give up with -ECANCELED; -1: none */
};

/*
 * Connect and shake hands.
 *
 * @ret_fd  a blocking socket, ready for requests; NULL: only ask what the
 *          export is (NBD_OPT_INFO), then hang up
 *
 * Errors are those of nbd_handshake_step(), each with the address and the
 * export in its text. -EHOSTUNREACH also means: nobody there, refused, silent,
 * or hung up in the middle.
 */
int nbd_connect(const struct nbd_address *address, const char *export_name,
		const struct nbd_connect_options *options, int *ret_fd,
		struct nbd_export *ret, struct error *err);

/*
 * Let it not block, and drop what it has not sent when its process is killed.
 * The next process sends that again. 0 or a negative errno.
 */
int nbd_socket_adopt(int fd);

/* Close an adopted socket: the kernel still sends what it has. */
void nbd_socket_close(int fd);

/*
 * Close so that nothing still waiting in the kernel is sent. A write that will
 * be sent again must not also arrive later by the old socket.
 */
void nbd_socket_reset(int fd);

#endif
