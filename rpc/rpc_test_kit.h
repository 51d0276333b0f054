/* SPDX-License-Identifier: Apache-2.0 */
/* A server with a few methods and a client to it, for the tests of rpc/. */
#ifndef RPC_TEST_KIT_H
#define RPC_TEST_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h> /* needs those before it */

#include "proto/blockd.pb-c.h"
#include "rpc/rpc.h"

/* Things that handlers saw; the server's context. */
struct kit_seen {
	atomic_int calls;     /* handlers begun */
	atomic_int ended;     /* handlers ended */
	atomic_int cancelled; /* handlers that saw their call cancelled */
	atomic_int sent;      /* messages of a stream */
};

struct kit {
	char dir[64];
	char address[128]; /* unix, in dir */
	struct kit_seen seen;
	struct rpc_server_options options;
	const char *addresses[1];
	struct rpc_server *server;
	struct rpc_client *client;
	struct error err;
};

/*
 * GetExtent, by its name:
 *	"echo:TEXT"   answers an extent of that name
 *	"error:E:TEXT" fails with errno E and TEXT
 *	"fail:C:TEXT" fails by rpc_fail() with code C
 *	"wait:MS"     waits so long, or until cancelled
 *	"alloc:N"     allocates N bytes for its answer
 *	"long:N"      answers an extent whose message has N bytes
 *
 * ListExtents streams: its pool is the number of extents, or "ever";
 * "stuck" fails after three with ESTALE.
 * DeleteExtent has no handler. CreateExtent takes a message of many pools.
 */
extern const struct rpc_method kit_methods[];
extern const size_t kit_n_methods;

/* Make a directory and an address in it; no server yet. */
void kit_make(struct kit *kit);
/* The same for a test of cmocka, whose state it is. */
int kit_setup(void **state);
int kit_teardown(void **state);
/* Start a server at kit->addresses and a client, as kit->options say. */
void kit_start(struct kit *kit);
void kit_stop(struct kit *kit);
/* Undo everything that is there. */
void kit_done(struct kit *kit);

/* Call GetExtent; @ret may be NULL, freed by the caller. */
int kit_get(struct kit *kit, const char *name, int timeout_ms,
	    Tributary__V1__Extent **ret);

/* Wait until *@value >= @least, for 30 s; true then. */
bool kit_eventually(atomic_int *value, int least);
/*
 * Wait until "echo:x" is -EHOSTUNREACH, with @text, for 30 s: one call may be
 * too early.
 */
bool kit_unreachable(struct kit *kit, const char *text);

#define kit_free(m) protobuf_c_message_free_unpacked(&(m)->base, NULL)

#endif
