/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a request by its content alone: required fields, sizes, paths,
 * names, numbers, map and topology keys, known values of enums. The generic
 * rules hold for every field of every message; a table has the others.
 *
 * Numbers are of the CSI specification 1.12 ("Size limits", "Required vs.
 * optional fields", and the comments of csi.proto).
 */
#ifndef CSI_CHECK_H
#define CSI_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#include "base/error.h"
#include "rpc/rpc.h"

#define CSI_STRING_MAX   128  /* bytes, unless the field says otherwise */
#define CSI_MAP_MAX      4096 /* bytes of all keys and values of a map */
#define CSI_NODE_ID_MAX  256  /* bytes */
#define CSI_PATH_MAX     4095 /* bytes; PATH_MAX less the NUL */
#define CSI_FLAGS_MAX    4096 /* bytes of all mount flags */
#define CSI_TOPOLOGY_MAX 63   /* bytes of a prefix, a name, a value */

/*
 * @in        one of the request messages of csi.proto
 * @ret_code  on failure: INVALID_ARGUMENT, or the field's own code
 *
 * 0 or -EINVAL; the text names the field, never a secret.
 */
int csi_check(const ProtobufCMessage *in, enum rpc_code *ret_code,
	      struct error *err);

/* A field whose content must never be shown or kept: a map "secrets". */
bool csi_field_is_secret(const ProtobufCFieldDescriptor *field);

/* A map<string, string>; its entries are struct csi_entry pointers. */
bool csi_field_is_map(const ProtobufCFieldDescriptor *field);

/* The compiler gives each map a type of its own; all look like this. */
struct csi_entry {
	ProtobufCMessage base;
	char *key;
	char *value;
};

/* Valid UTF-8 (RFC 3629). */
bool csi_utf8_is_valid(const char *text);

#endif
