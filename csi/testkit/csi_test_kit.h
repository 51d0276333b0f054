/* SPDX-License-Identifier: Apache-2.0 */
/* The driver on a socket and a client to it, for the tests of csi/. */
#ifndef CSI_TEST_KIT_H
#define CSI_TEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs those before it */

#include "csi/service.h"

struct kit {
	char dir[64];
	char address[128]; /* unix, in dir */
	char store[128];
	struct csi csi;
	struct rpc_server *server;
	struct rpc_client *client;
	struct error err; /* of the last call */
};

/* A store in a new directory, the driver as node "host1", and a client. */
void kit_start(struct kit *kit, enum csi_mode mode);
void kit_stop(struct kit *kit);

/*
 * Call "Controller/CreateVolume"; the answer is freed by the caller. @ret
 * NULL: not wanted. Returns the code; kit->err has the text.
 */
enum rpc_code kit_call(struct kit *kit, const char *method, const void *in,
		       void *ret);

/* Make a kit_call() that has to answer @code, with @text in its message. */
void kit_refused(struct kit *kit, const char *method, const void *in,
		 enum rpc_code code, const char *text);

#define kit_free(m) protobuf_c_message_free_unpacked(&(m)->base, NULL)

#endif
