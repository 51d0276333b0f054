/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/cluster/host_files.h"
#include "cli/cluster/invitation.h"
#include "cli/command/command.h"
#include "cli/pki/pki.h"
#include "cli/setup/pki_cmd.h"

#define ETC "/etc/tributary"

/* ---- this machine becomes a host ---- */

static struct host_settings host_of(const struct cli *cli, const char *node,
				    const char *host, const char *store)
{
	return (struct host_settings){
		.etc = ETC,
		.node = node,
		.host = host,
		.store = store,
		.pools = &cli->options.pools,
		.labels = &cli->options.label,
	};
}

/* Check that the store answers; its answer is of no interest yet. */
static int store_check(const struct host_settings *host, struct error *err)
{
	const struct volume_config config = {
		.store = host->store,
		.node = host->node,
	};
	struct volume_context *volumes;
	int r = volume_context_open(&config, &volumes, err);

	if (r < 0)
		return r;
	r = volume_node_known(volumes, host->node, err);
	volume_context_close(volumes);
	return r < 0 ? r : 0;
}

/* Say what is left to do by hand where no systemd starts services. */
static int services_tell(const struct host_settings *host, struct error *err)
{
	auto_free char *options = host_node_options(host);

	if (!options)
		return error_set(err, ENOMEM, "out of memory");
	(void)printf("there is no systemd here; keep these two running:\n"
		     "  blockd\n"
		     "  trib node register --keep %s\n",
		     options);
	return 0;
}

/*
 * A repeated one finishes what an earlier one began. What refuses comes first:
 * a host of another cluster is not changed at all.
 *
 * @invitation  NULL: this is the first host
 */
static int host_make(struct cli *cli, const struct host_settings *host,
		     const struct pki_files *files,
		     const struct invitation *invitation, struct error *err)
{
	bool has_systemd, was;
	int r = host_files_write(host, cli->options.force, &was, err);

	if (r == 0 && invitation)
		r = invitation_write_files(invitation, err);
	if (r == 0)
		r = pki_files_write(ETC "/tls", files, err);
	if (r == 0)
		r = store_check(host, err);
	if (r == 0)
		r = host_services_start(&has_systemd, err);
	if (r < 0)
		return r;
	cli_say(cli,
		was ? "node %s was a host of the cluster already; its "
		      "certificate is renewed"
		    : "node %s is a host of the cluster; its files are in " ETC,
		host->node);
	return has_systemd ? 0 : services_tell(host, err);
}

static int certificate_issue(struct cli *cli, const char *node,
			     const char *host, struct pki_files *ret,
			     struct error *err)
{
	struct pki_cert wanted = {.server = true, .client = true, .n_hosts = 2};

	/* host_settings_check() has looked at both. */
	(void)snprintf(wanted.name, sizeof(wanted.name), "%s", node);
	(void)snprintf(wanted.hosts[0], PKI_HOST_SIZE, "%s", host);
	(void)snprintf(wanted.hosts[1], PKI_HOST_SIZE, "%s", node);
	return pki_issue(pki_authority_dir(cli), &wanted,
			 pki_days(cli, PKI_DAYS), ret, err);
}

int cluster_init_run(struct cli *cli, struct error *err)
{
	auto_cleanup(pki_files_done) struct pki_files files = {0};
	char name[NAME_TEXT_MAX] = "";
	struct host_settings host;
	bool made;
	int r;

	if (!cli->options.address || !cli->options.store)
		return cli_usage(cli, err,
				 "say where the records are and how the other "
				 "hosts reach this one: --store WHERE "
				 "--address HOST");
	if (!cli->options.node && gethostname(name, sizeof(name) - 1) < 0)
		return error_set(err, errno, "host name: %s", strerror(errno));
	host = host_of(cli, cli->options.node ?: name, cli->options.address,
		       cli->options.store);
	r = host_settings_check(&host, err);
	if (r == 0)
		r = pki_authority_make(pki_authority_dir(cli), "tributary",
				       PKI_AUTHORITY_DAYS, &made, err);
	if (r == 0)
		r = certificate_issue(cli, host.node, host.host, &files, err);
	return r < 0 ? r : host_make(cli, &host, &files, NULL, err);
}

/* ---- invitations ---- */

static int invitation_fill(struct cli *cli, const struct host_settings *host,
			   struct invitation *ret, struct error *err)
{
	int r;

	/* host_settings_check() has looked at both. */
	(void)snprintf(ret->node, sizeof(ret->node), "%s", host->node);
	(void)snprintf(ret->host, sizeof(ret->host), "%s", host->host);
	ret->store = strdup(host->store);
	if (!ret->store)
		return error_set(err, ENOMEM, "out of memory");
	r = invitation_read_files(ret, ETC, err);
	if (r < 0)
		return r;
	return certificate_issue(cli, ret->node, ret->host, &ret->files, err);
}

int cluster_invite_run(struct cli *cli, struct error *err)
{
	auto_cleanup(invitation_done) struct invitation invitation = {0};
	struct host_settings host = host_of(cli, cli_argument(cli, 0),
					    cli->options.address,
					    cli->options.store);
	int r;

	if (!host.host)
		return cli_usage(cli, err,
				 "say how other hosts reach it: "
				 "--address HOST");
	if (!host.store || strncmp(host.store, "local", 5) == 0)
		return error_set(err, EINVAL,
				 "the records are in a file of this host, "
				 "which others cannot share: use etcd");
	r = host_settings_check(&host, err);
	if (r == 0)
		r = invitation_fill(cli, &host, &invitation, err);
	if (r < 0)
		return r;
	cli->options.json = true; /* it has one form only */
	(void)cli_answer(cli, invitation_encode(&invitation));
	return 0;
}

/* All of standard input or of a file. Returned owned. */
static int text_read(const char *file, char **ret, size_t *ret_length,
		     struct error *err)
{
	auto_free char *text = malloc(INVITATION_MAX + 1);
	auto_fclose FILE *in = NULL;

	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	in = strcmp(file, "-") == 0 ? fdopen(dup(STDIN_FILENO), "re")
				    : fopen(file, "re");
	if (!in)
		return error_set(err, errno, "'%s': %s", file, strerror(errno));
	*ret_length = fread(text, 1, INVITATION_MAX + 1, in);
	if (ferror(in))
		return error_set(err, EIO, "'%s': it cannot be read", file);
	*ret = take_ptr(text);
	return 0;
}

int cluster_join_run(struct cli *cli, struct error *err)
{
	const char *file = cli_argument(cli, 0) ?: "-";
	auto_cleanup(invitation_done) struct invitation invitation = {0};
	auto_free char *text = NULL;
	struct host_settings host;
	size_t length = 0;
	int r = text_read(file, &text, &length, err);

	if (r < 0)
		return r;
	if (length == 0)
		return error_set(
			err, EINVAL,
			"there is no invitation: `trib cluster invite` "
			"on a host of the cluster makes one");
	r = invitation_decode(text, length, ETC, &invitation, err);
	explicit_bzero(text, length);
	if (r < 0)
		return r;
	host = host_of(cli, invitation.node, invitation.host, invitation.store);
	r = host_settings_check(&host, err);
	return r < 0 ? r
		     : host_make(cli, &host, &invitation.files, &invitation,
				 err);
}
