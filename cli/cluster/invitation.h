/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An invitation: one JSON document with all that a machine needs to become a
 * host of a cluster. It has keys and passwords in it.
 */
#ifndef CLI_INVITATION_H
#define CLI_INVITATION_H

#include <json-c/json.h>
#include <stddef.h>

#include "base/uuid_name.h"
#include "cli/pki/pki.h"

#define INVITATION_MAX       (4u << 20) /* bytes of a document */
#define INVITATION_FILES_MAX 4          /* those that a store names */
#define INVITATION_TEXT_MAX  (1u << 20) /* bytes of a file */

/* A file that the store of an invitation names. */
struct invitation_file {
	char *path; /* owned; absolute */
	char *text; /* owned */
};

struct invitation {
	char node[NAME_TEXT_MAX];
	char host[PKI_HOST_SIZE];
	char *store;            /* owned; as in trib.conf */
	struct pki_files files; /* its certificate */
	struct invitation_file store_files[INVITATION_FILES_MAX];
	size_t n_store_files;
};
void invitation_done(struct invitation *invitation);

/*
 * Read the files that @invitation->store names (ca=, cert=, key=,
 * password-file=). -EINVAL: one is not below @etc, so that it would be missing
 * on the other host; -E2BIG.
 */
int invitation_read_files(struct invitation *invitation, const char *etc,
			  struct error *err);

/* Returned owned, json_object_put(); NULL: no memory. */
struct json_object *invitation_encode(const struct invitation *invitation);

/*
 * @ret is set on 0 only; invitation_done() by the caller. -EINVAL: no
 * invitation, or one that names a file outside @etc.
 */
int invitation_decode(const char *text, size_t length, const char *etc,
		      struct invitation *ret, struct error *err);

/* Write its store's files, with mode 0600. */
int invitation_write_files(const struct invitation *invitation,
			   struct error *err);

#endif
