/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain NBD client for the tests of the whole server: blocking, one request
 * at a time. Replies are simple, or the test's to take apart. Any error fails
 * the test.
 */
#ifndef TARGET_TARGET_TEST_KIT_H
#define TARGET_TARGET_TEST_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* @address: "unix:PATH" or "tcp:127.0.0.1:PORT". Returns the socket. */
int client_dial(const char *address);

void client_put(int fd, const void *data, size_t length);
void client_get(int fd, void *data, size_t length);

/* The server closes, or has closed. */
bool client_closed(int fd);

/* Properties of an export that the server told. */
struct client_export {
	uint64_t size;  /* bytes */
	uint16_t flags; /* NBD_TRANSMIT_... */
};

/* NBD_OPT_EXPORT_NAME; false: the server closed. @ret may be NULL. */
bool client_begin(int fd, const char *name, struct client_export *ret);

/* With structured replies; NBD_OPT_EXPORT_NAME, too. */
bool client_begin_structured(int fd, const char *name);

/* Send a request; its payload, if any, is put by the caller. */
void client_ask(int fd, uint16_t type, uint64_t cookie, uint64_t offset,
		uint32_t length);

/* The error of the next reply, which must be for @cookie. */
uint32_t client_answer(int fd, uint64_t cookie);

#endif
