/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any CSI message as text, one field at a time, by its descriptor.
 *
 *	name=x                                    a field
 *	capacity_range.required_bytes=1           of a message in it
 *	volume_capabilities.1.block=              the second of a list; without
 *	                                          a number the first
 *	volume_capability.mount.mount_flags=ro    a list of strings grows
 *	parameters.nodes=host1                    a key of a map, dots and all
 *	!volume_capability                        not set at all
 */
#ifndef TESTS_CSI_MESSAGE_H
#define TESTS_CSI_MESSAGE_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

/* Returned owned, protobuf_c_message_free_unpacked(). Never NULL. */
ProtobufCMessage *message_new(const ProtobufCMessageDescriptor *type);

/* -ENOENT: there is no such field. A message is made where one is missing. */
int message_set(ProtobufCMessage *m, const char *assignment);

/*
 * The field at "volume.volume_id", "entries.2.volume.volume_id", "entries.#"
 * (how many), "volume.volume_context.KEY". Returns @buf: "" when it, or what
 * is around it, is not set; a message that is there is "{}".
 */
const char *message_get(const ProtobufCMessage *m, const char *path, char *buf,
			size_t size);

#endif
