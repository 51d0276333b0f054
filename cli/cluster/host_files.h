/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that make a machine a host of a cluster, all below one directory:
 * trib.conf, blockd.conf, node.env, and its certificate in tls/.
 */
#ifndef CLI_HOST_FILES_H
#define CLI_HOST_FILES_H

#include <stdbool.h>

#include "base/options.h"
#include "cli/pki/pki.h"

#define HOST_CONTROL_PORT 10810 /* as in Kubernetes: docs/kubernetes.md */
#define HOST_NBD_PORT     10809 /* IANA's for NBD */

struct host_settings {
	const char *etc;   /* the directory, absolute: "/etc/tributary" */
	const char *node;  /* its name in the cluster */
	const char *host;  /* its address or DNS name, without a port */
	const char *store; /* as in trib.conf */
	const struct option_list *pools;  /* NAME=DIRECTORY */
	const struct option_list *labels; /* KEY=VALUE */
};

/* -EINVAL: a name, address, store or pool that cannot be. */
int host_settings_check(const struct host_settings *host, struct error *err);

/*
 * Make the directories of the pools, and write the files. A file that is there
 * and says the same stays. Where trib.conf says the same, the machine is a
 * host of this cluster already: then its other files stay as they are, too.
 * *@ret_was tells so. -EEXIST: there is a file of another configuration.
 * @force replaces it.
 */
int host_files_write(const struct host_settings *host, bool force,
		     bool *ret_was, struct error *err);

/* Words for `trib node register`, as in node.env. Returned owned; NULL: no
 * memory. */
char *host_node_options(const struct host_settings *host);

/*
 * Start the services of this machine by systemd, and at each boot. *@ret_has
 * is false where there is no systemd: then nothing is started.
 */
int host_services_start(bool *ret_has, struct error *err);

#endif
