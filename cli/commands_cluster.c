/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of a cluster, and their certificates. */
#include "cli/command/command_group.h"
#include "cli/pki/pki.h"

#define CA_ROW                                 \
	ROW("ca", 0, OPTION_STRING, ca, "DIR", \
	    "directory of the authority (/etc/tributary/ca)")
#define DAYS_ROW(text)                                                        \
	{                                                                     \
		"days", 0, OPTION_NUMBER, offsetof(struct cli_options, days), \
			"N", text, NULL, 1, PKI_DAYS_MAX                      \
	}
#define ADDRESS_ROW                                       \
	ROW("address", 0, OPTION_STRING, address, "HOST", \
	    "its address for the other hosts, or a name of it, without a port")
#define HOST_ROWS                                                  \
	ROW("pool", 0, OPTION_LIST, pools, "NAME=DIR",             \
	    "a pool of this directory, which is made if missing"), \
		ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE", \
		    "for placement: zone, rack..."),               \
		ROW("force", 'f', OPTION_FLAG, force, NULL,        \
		    "replace a configuration that is there")

static const struct option_row pki_init_rows[] = {
	CA_ROW,
	ROW("name", 0, OPTION_STRING, name, "NAME",
	    "name of the authority (tributary)"),
	DAYS_ROW("how long it is good for (3650)"),
};

static const struct option_row pki_issue_rows[] = {
	CA_ROW,
	ROW("host", 0, OPTION_LIST, hosts, "HOST",
	    "an address or a DNS name at which it is reached (NAME)"),
	ROW("server", 0, OPTION_FLAG, server, NULL, "only for a server"),
	ROW("client", 0, OPTION_FLAG, client, NULL, "only for a client"),
	DAYS_ROW("how long it is good for (90)"),
	ROW("out", 'o', OPTION_STRING, out, "DIR",
	    "directory of the files (NAME)"),
};

static const struct option_row pki_renew_rows[] = {
	CA_ROW,
	DAYS_ROW("how long it is good for (as long as the old one)"),
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "also with more than a third of its time left"),
};

static const struct option_row cluster_init_rows[] = {
	ADDRESS_ROW,
	HOST_ROWS,
	CA_ROW,
	DAYS_ROW("how long its certificate is good for (90)"),
};

static const struct option_row cluster_invite_rows[] = {
	ADDRESS_ROW,
	CA_ROW,
	DAYS_ROW("how long its certificate is good for (90)"),
};

static const struct option_row cluster_join_rows[] = {HOST_ROWS};

static const struct command commands[] = {
	{.words = "cluster init",
	 .arguments = "",
	 .summary = "make this machine the first host of a cluster",
	 .text = "Makes a certificate authority, a certificate and the files "
		 "of /etc/tributary, and starts\n"
		 "the services. --store names the records, which the hosts "
		 "share: docs/etcd-store.md. A\n"
		 "repeated one renews the certificate.",
	 ROWS(cluster_init_rows),
	 .run = cluster_init_run},
	{.words = "cluster invite",
	 .arguments = "NODE",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_WORD},
	 .summary = "print what a machine needs to join, for `cluster join`",
	 .text = "Run it where the authority is. The invitation has the key of "
		 "the new host in it, and what\n"
		 "opens the store: send it by ssh, keep it nowhere.\n"
		 "\n"
		 "  trib cluster invite b --address 10.0.0.2 | ssh b trib "
		 "cluster join --pool fast=/srv/fast",
	 ROWS(cluster_invite_rows),
	 .run = cluster_invite_run},
	{.words = "cluster join",
	 .arguments = "[FILE]",
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_PATH},
	 .summary = "make this machine a host, by an invitation (standard "
		    "input)",
	 .text = "On a host that has joined already, a new invitation renews "
		 "its certificate. Nothing has\nto be restarted for that.",
	 ROWS(cluster_join_rows),
	 .run = cluster_join_run},
	{.words = "pki init",
	 .arguments = "",
	 .summary = "make a certificate authority",
	 ROWS(pki_init_rows),
	 .run = pki_init_run},
	{.words = "pki issue",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_WORD},
	 .summary = "sign a certificate with a new key",
	 .text = "Writes ca.crt, tls.crt and tls.key. Without --server and "
		 "--client it is good for both.",
	 ROWS(pki_issue_rows),
	 .run = pki_issue_run},
	{.words = "pki renew",
	 .arguments = "[DIR]",
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_PATH},
	 .summary = "replace a certificate that ends soon (this host's)",
	 .text = "For the same names and as long, with a new key. Run it where "
		 "the authority is. With more\n"
		 "than a third of its time left, the certificate stays.",
	 ROWS(pki_renew_rows),
	 .run = pki_renew_run},
	{.words = "pki show",
	 .arguments = "[DIR]",
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_PATH},
	 .summary = "the certificates of a directory (this host's), and when "
		    "they end",
	 .run = pki_show_run},
};
const struct command_group cluster_commands = GROUP(commands);
