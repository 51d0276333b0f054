/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of transport_fuse.c and trib-nbd to each other over a SOCK_SEQPACKET
 * socket:
 *
 *	trib-nbd: "incarnation N TEXT"  of part N, if its server states one
 *	trib-nbd: "ready"           connected, the export is right
 *	attacher: "go"              your pid is in the record
 *	trib-nbd: "mounted"         serving
 *	trib-nbd: "error N TEXT"    in place of either: errno and words
 *
 * An attacher that dies before "go" leaves a trib-nbd that ends by itself and
 * has mounted nothing; after "go", the record names its pid.
 */
#ifndef INITIATOR_NBD_PROGRAM_H
#define INITIATOR_NBD_PROGRAM_H

#define NBD_PROGRAM_INCARNATION "incarnation"
#define NBD_PROGRAM_READY       "ready"
#define NBD_PROGRAM_GO          "go"
#define NBD_PROGRAM_MOUNTED     "mounted"
#define NBD_PROGRAM_ERROR       "error"
#define NBD_PROGRAM_MESSAGE_MAX 600 /* bytes with NUL */

/* The names in the file system of trib-nbd. */
#define NBD_PROGRAM_EXTENT "extent"
/*
 * Also any name that begins with this, though none is listed. A loop device
 * that opens the data under a name of its own is told by that name from then
 * on.
 */
#define NBD_PROGRAM_ALIAS "extent@"
#define NBD_PROGRAM_STATE "state"

#endif
