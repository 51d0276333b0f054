/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers of etcd's JSON gateway, decoded (etcd API reference, rpc.proto in
 * proto3's JSON: 64-bit numbers are text, bytes are base64, zeros are left
 * out). No I/O.
 */
#ifndef VOLUME_ETCD_ANSWER_H
#define VOLUME_ETCD_ANSWER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define ETCD_KEY_SIZE  512    /* bytes with NUL */
#define ETCD_TEXT_SIZE 300    /* bytes with NUL: etcd's words, quoted */
#define ETCD_ITEMS_MAX 100000 /* of one answer */

struct etcd_item {
	char key[ETCD_KEY_SIZE];
	int64_t mod_revision;
	char *value; /* owned, NUL-terminated; has no other NUL */
	size_t length;
	bool deleted; /* an event: the key is gone */
};

/* What the answers to all our requests can have; the rest is zero. */
struct etcd_answer {
	int64_t revision;        /* of the store, when it answered */
	bool succeeded;          /* a transaction's comparisons were true */
	bool more;               /* a range has more than these */
	struct etcd_item *items; /* owned: of a range, all ranges, events */
	size_t count;
	int64_t lease, ttl_s;
	bool created, canceled; /* a watch */
	int64_t compacted;      /* canceled: the oldest revision that is left */
	char reason[ETCD_TEXT_SIZE]; /* why it was canceled */
};

/* -EPROTO: no such answer. */
int etcd_answer_decode(struct json_object *object, struct etcd_answer *ret,
		       struct error *err);
/*
 * The same of an object of a stream, {"result": ANSWER}; an {"error": ...} is
 * etcd_failure().
 */
int etcd_answer_decode_stream(struct json_object *object,
			      struct etcd_answer *ret, struct error *err);
void etcd_answer_done(struct etcd_answer *answer);

/* The item with that key; NULL: none. */
const struct etcd_item *etcd_answer_item(const struct etcd_answer *answer,
					 const char *key);

/*
 * Return the error that etcd tells by @object (NULL is fine), whose gRPC code
 * is in "code" or "grpc_code".
 *
 * -EKEYEXPIRED: the token; authenticate and ask again. -EACCES: the text says
 * what to grant. -ENOENT: no such lease. -ESTALE: that revision was compacted.
 * -E2BIG. -EHOSTUNREACH: it has no leader, no room, is overloaded or failing.
 * -EPROTO: not an error of etcd's. -EINVAL: any other.
 */
int etcd_failure(struct json_object *object, struct error *err);

#endif
