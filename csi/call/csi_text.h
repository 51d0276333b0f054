/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request in words, for the log: what may be seen of it. Of secrets only
 * how many there are; the same for mount flags, which may be sensitive.
 */
#ifndef CSI_TEXT_H
#define CSI_TEXT_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

#define CSI_TEXT_MAX 1024 /* bytes with NUL; longer is cut */

/*
 * "volume_id=\"x\" capacity_range={required_bytes=1}"; fields that are not set
 * are left out, unprintable characters escaped. Returns @buf.
 */
const char *csi_text(char *buf, size_t size, const ProtobufCMessage *in);

#endif
