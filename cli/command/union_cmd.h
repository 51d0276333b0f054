/* SPDX-License-Identifier: Apache-2.0 */
/* A union that is mounted here, asked by its extended attributes. */
#ifndef CLI_UNION_CMD_H
#define CLI_UNION_CMD_H

#include <json-c/json.h>

#include "base/error.h"

/* The same of the union's root, from any path in it. @err says what is wrong.
 */
int union_ask_root(const char *path, const char *name, char **ret,
		   struct error *err);

/* JSON from a union; -EPROTO with @err when it is none. */
int union_json(const char *text, struct json_object **ret, struct error *err);

#endif
