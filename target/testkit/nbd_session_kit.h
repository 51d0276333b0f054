/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the NBD session: a session with bytes for it, and a server. The
 * server has "disk", says "more" is there, too, and keeps "secret" and "broken"
 * from its peers.
 */
#ifndef TARGET_NBD_SESSION_KIT_H
#define TARGET_NBD_SESSION_KIT_H

#include "target/nbd/nbd_session.h"

#define NBD_KIT_FIXED (NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES)

struct nbd_kit {
	struct nbd_session session;
	struct nbd_event event;
	uint8_t in[300000];
	size_t length;  /* bytes of @in */
	size_t replies; /* where the next reply starts in session.out */
	/* Of the disk, and how often it was opened. */
	uint64_t size; /* bytes */
	uint16_t device_flags;
	uint32_t block_size;
	unsigned opened, kept;
};

/* cmocka's: *@state is a struct nbd_kit that has said its greeting. */
int nbd_kit_setup(void **state);
int nbd_kit_teardown(void **state);

/* Begin another session, which gets the bytes that were put and not fed. */
void nbd_kit_again(struct nbd_kit *f);

/* More bytes for it. */
void nbd_kit_put(struct nbd_kit *f, const void *data, size_t length);

/* Feed the bytes that were put, until another event than MORE comes. */
enum nbd_event_type nbd_kit_feed(struct nbd_kit *f);

/* ---- the handshake: put, not fed ---- */

void nbd_kit_client_flags(struct nbd_kit *f, uint32_t flags);
void nbd_kit_option(struct nbd_kit *f, uint32_t number, const void *data,
		    size_t length);
/* With the name of an export, and @rest behind it. */
void nbd_kit_option_named(struct nbd_kit *f, uint32_t number, const char *name,
			  const char *rest, size_t rest_length);
#define nbd_kit_go(f, name) nbd_kit_option_named(f, NBD_OPT_GO, name, "\0\0", 2)
#define nbd_kit_info(f, name) \
	nbd_kit_option_named(f, NBD_OPT_INFO, name, "\0\0", 2)
/* base:allocation */
void nbd_kit_select_allocation(struct nbd_kit *f, const char *name);

/* The next reply in the output: its type; its data in @ret_data. */
uint32_t nbd_kit_reply_next(struct nbd_kit *f, const uint8_t **ret_data,
			    uint32_t *ret_length);
/* Check that there is one more reply, of that type. */
void nbd_kit_replies_are(struct nbd_kit *f, uint32_t type);

/* ---- requests ---- */

/* Past the handshake. */
void nbd_kit_begin(struct nbd_kit *f, bool structured, bool allocation);

void nbd_kit_request(struct nbd_kit *f, uint16_t type, uint16_t flags,
		     uint64_t offset, uint32_t length);

/* Return the verdict on the last request: 0 for go on, else the NBD error. */
uint32_t nbd_kit_judge(struct nbd_kit *f);

/* Put one request and return the verdict on it. */
uint32_t nbd_kit_verdict(struct nbd_kit *f, uint16_t type, uint16_t flags,
			 uint64_t offset, uint32_t length);

#endif
