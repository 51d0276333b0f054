/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "cli/command/command.h"
#include "cli/pki/pki.h"
#include "cli/setup/pki_cmd.h"
#include "cli/text/json.h"
#include "cli/text/table.h"

const char *pki_authority_dir(const struct cli *cli)
{
	return cli->options.ca ?: PKI_AUTHORITY_DIR;
}

unsigned pki_days(const struct cli *cli, unsigned otherwise)
{
	return cli->options.days ? (unsigned)cli->options.days : otherwise;
}

/* "2026-11-26 10:00 UTC"; @ret: 32 bytes */
static const char *date_format(char *ret, int64_t s)
{
	time_t at = (time_t)s;
	struct tm tm;

	if (!gmtime_r(&at, &tm) || !strftime(ret, 32, "%F %R UTC", &tm))
		(void)strcpy(ret, "?");
	return ret;
}

int pki_init_run(struct cli *cli, struct error *err)
{
	const char *dir = pki_authority_dir(cli);
	bool made;
	int r = pki_authority_make(dir, cli->options.name ?: "tributary",
				   pki_days(cli, PKI_AUTHORITY_DAYS), &made,
				   err);

	if (r == 0)
		cli_say(cli,
			made ? "authority made in %s; its key opens "
			       "the data"
			     : "%s has an authority already",
			dir);
	return r;
}

/* What the options ask for. */
static int wanted_fill(struct cli *cli, struct pki_cert *ret, struct error *err)
{
	const struct cli_options *o = &cli->options;
	const char *name = cli_argument(cli, 0);

	if (o->hosts.count > PKI_HOSTS_MAX)
		return error_set(err, E2BIG, "at most %d --host",
				 PKI_HOSTS_MAX);
	*ret = (struct pki_cert){
		.server = o->server || !o->client,
		.client = o->client || !o->server,
		.n_hosts = o->hosts.count,
	};
	if (strlen(name) >= sizeof(ret->name))
		return error_set(err, EINVAL,
				 "the name is longer than %zu bytes",
				 sizeof(ret->name) - 1);
	(void)strcpy(ret->name, name); /* checked just above */
	for (size_t i = 0; i < o->hosts.count; i++) {
		if (strlen(o->hosts.items[i]) >= PKI_HOST_SIZE)
			return error_set(err, EINVAL,
					 "a host is longer than %d bytes",
					 PKI_HOST_SIZE - 1);
		(void)strcpy(ret->hosts[i], o->hosts.items[i]);
	}
	/* A server is found by some name: its own, unless told otherwise. */
	if (ret->n_hosts == 0)
		(void)strcpy(ret->hosts[ret->n_hosts++], ret->name);
	return 0;
}

static int issue_to(struct cli *cli, const struct pki_cert *wanted,
		    unsigned days, const char *dir, struct error *err)
{
	auto_cleanup(pki_files_done) struct pki_files files = {0};
	int r = pki_issue(pki_authority_dir(cli), wanted, days, &files, err);

	return r < 0 ? r : pki_files_write(dir, &files, err);
}

int pki_issue_run(struct cli *cli, struct error *err)
{
	const char *dir = cli->options.out ?: cli_argument(cli, 0);
	unsigned days = pki_days(cli, PKI_DAYS);
	struct pki_cert wanted;
	int r = wanted_fill(cli, &wanted, err);

	if (r == 0)
		r = issue_to(cli, &wanted, days, dir, err);
	if (r == 0)
		cli_say(cli,
			"%s/" PKI_CERT " is good for %u days, its key is "
			"%s/" PKI_KEY,
			dir, days, dir);
	return r;
}

static int cert_of(const char *dir, struct pki_cert *ret, struct error *err)
{
	auto_free char *file = NULL;

	if (asprintf(&file, "%s/" PKI_CERT, dir) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return pki_cert_read(file, ret, err);
}

int pki_renew_run(struct cli *cli, struct error *err)
{
	const char *dir = cli_argument(cli, 0) ?: PKI_OWN_DIR;
	struct pki_cert cert;
	unsigned days;
	char when[32];
	int r = cert_of(dir, &cert, err);

	if (r < 0)
		return r;
	if (!cli->options.force && !pki_cert_is_due(&cert, time(NULL))) {
		cli_say(cli,
			"%s/" PKI_CERT " is good until %s; --force renews it "
			"all the same",
			dir, date_format(when, cert.end_s));
		return 0;
	}
	days = pki_days(cli, pki_cert_days(&cert));
	r = issue_to(cli, &cert, days, dir, err);
	if (r == 0)
		cli_say(cli,
			"%s/" PKI_CERT " renewed for %u days; whoever uses "
			"it reads it again by itself",
			dir, days);
	return r;
}

static struct json_object *cert_json(const struct pki_cert *cert,
				     const char *file)
{
	struct json_object *object = json_object_new_object();
	struct json_object *hosts = json_object_new_array();
	char when[32];

	json_put_text(object, "file", file);
	json_put_text(object, "name", cert->name);
	for (size_t i = 0; i < cert->n_hosts; i++)
		json_object_array_add(hosts,
				      json_object_new_string(cert->hosts[i]));
	json_object_object_add(object, "hosts", hosts);
	json_put_flag(object, "authority", cert->authority);
	json_put_flag(object, "server", cert->server);
	json_put_flag(object, "client", cert->client);
	json_put_text(object, "from", date_format(when, cert->from_s));
	json_put_text(object, "until", date_format(when, cert->end_s));
	return object;
}

static void cert_row(struct table *table, const struct pki_cert *cert)
{
	char when[32], hosts[512] = "-";
	size_t used = 0;

	for (size_t i = 0; i < cert->n_hosts && used < sizeof(hosts); i++)
		used += (size_t)snprintf(hosts + used, sizeof(hosts) - used,
					 "%s%s", i ? "," : "", cert->hosts[i]);
	table_cell(table, "%s", cert->name[0] ? cert->name : "-");
	table_cell(table, "%s",
		   cert->authority                ? "authority"
		   : cert->server && cert->client ? "server, client"
		   : cert->server                 ? "server"
						  : "client");
	table_cell(table, "%s", hosts);
	table_cell(table, "%s", date_format(when, cert->end_s));
}

int pki_show_run(struct cli *cli, struct error *err)
{
	static const char *const names[] = {PKI_CERT, PKI_AUTHORITY_CERT};
	const char *dir = cli_argument(cli, 0) ?: PKI_OWN_DIR;
	struct cli_list list = {
		json_object_new_array(),
		table_new("NAME", "FOR", "HOSTS", "UNTIL", NULL),
	};
	size_t found = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < array_size(names); i++) {
		auto_free char *file = NULL;
		struct pki_cert cert;

		if (asprintf(&file, "%s/%s", dir, names[i]) < 0)
			return error_set(err, ENOMEM, "out of memory");
		r = pki_cert_read(file, &cert, err);
		if (r == -ENOENT) {
			r = 0; /* an authority's directory has no tls.crt */
			continue;
		}
		if (r < 0)
			break;
		found++;
		json_object_array_add(list.all, cert_json(&cert, file));
		cert_row(list.table, &cert);
	}
	if (r == 0 && found == 0)
		r = error_set(err, ENOENT, "'%s' has no certificate", dir);
	return cli_list_end(cli, &list, r);
}
