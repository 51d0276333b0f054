/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of volume/node/node_client.h. */
#ifndef VOLUME_NODE_CLIENT_INTERNAL_H
#define VOLUME_NODE_CLIENT_INTERNAL_H

#include <stdatomic.h>

#include "base/cleanup.h"
#include "proto/blockd.pb-c.h"
#include "rpc/rpc.h"
#include "volume/node/node_client.h"

#define NODE_SERVICE "/tributary.v1.Blockd/"
/*
 * The time of a call that may have a lot to read or copy. A short call goes
 * first, so that nobody waits that long for a node that is not there.
 */
#define NODE_LONG_MS 3600000

struct node_client {
	struct rpc_client *rpc;
	int timeout_ms;
	char node[RECORD_NAME_SIZE];
	_Atomic int64_t
		quiet_ms; /* since when it gives no answer; 0: it does */
};

/* Make one call; *ret is freed by auto_answer. */
int node_client_call(struct node_client *client, const char *path,
		     const void *request,
		     const ProtobufCMessageDescriptor *type,
		     ProtobufCMessage **ret, struct error *err);
int node_client_call_for(struct node_client *client, int timeout_ms,
			 const char *path, const void *request,
			 const ProtobufCMessageDescriptor *type,
			 ProtobufCMessage **ret, struct error *err);

/* Make a call that a node answers with an extent. @ret NULL: not wanted. */
int node_client_call_extent(struct node_client *client, int timeout_ms,
			    const char *path, const void *request,
			    struct node_extent *ret, struct error *err);

/* Labels of a request. */
struct node_labels {
	Tributary__V1__Label items[LABELS_MAX];
	Tributary__V1__Label *pointers[LABELS_MAX];
};

/* @ret borrows from @labels; NULL: none. Returns how many there are. */
size_t node_labels_fill(struct node_labels *ret, const struct labels *labels);

static inline void cleanup_answer(ProtobufCMessage **answer)
{
	if (*answer)
		protobuf_c_message_free_unpacked(*answer, NULL);
}

#define auto_answer auto_cleanup(cleanup_answer)

/* For a message, which borrows it. */
static inline char *text_or_empty(const char *text)
{
	return text ? (char *)text : "";
}

#endif
