/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a mounted union, said to its control socket: a line there, a line
 * back (docs/union.md).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/command/union_cmd.h"

#define REPLY_MAX 4096 /* bytes; those of changes are short */

static int connect_to(const char *path, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return error_set(err, errno, "socket: %s", strerror(errno));
	if (strlen(path) >= sizeof(address.sun_path))
		return error_set(err, ENAMETOOLONG, "control socket '%s': %s",
				 path, strerror(ENAMETOOLONG));
	memcpy(address.sun_path, path, strlen(path));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return error_set(err, errno, "control socket '%s': %s", path,
				 strerror(errno));
	return take_fd(&fd);
}

/* One line, NUL-terminated in place of the newline. */
static int read_line(int fd, char *line, struct error *err)
{
	size_t used = 0;
	ssize_t n;

	while (used < REPLY_MAX - 1) {
		n = read(fd, line + used, REPLY_MAX - 1 - used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	if (!used || line[used - 1] != '\n')
		return error_set(err, ECONNRESET, "the union did not answer");
	line[used - 1] = '\0';
	return 0;
}

/* @ret: the JSON of the answer, owned. */
static int say(const char *socket_path, const char *request,
	       struct json_object **ret, struct error *err)
{
	auto_close int fd = connect_to(socket_path, err);
	char line[REPLY_MAX];
	int r;

	if (fd < 0)
		return fd;
	r = fd_write_all(fd, request, strlen(request));
	if (r < 0)
		return error_set(err, -r, "control socket '%s': %s",
				 socket_path, strerror(-r));
	r = read_line(fd, line, err);
	if (r < 0)
		return r;
	if (strncmp(line, "error ", 6) == 0)
		return error_set(err, EREMOTEIO, "%s", line + 6);
	return union_json(strncmp(line, "ok ", 3) == 0 ? line + 3 : "", ret,
			  err);
}

/* The control socket of the union that the first argument is on, owned. */
static int find_socket(struct cli *cli, char **ret, struct error *err)
{
	int r = union_ask_root(cli_argument(cli, 0), "control", ret, err);

	if (r == -ENODEV)
		return error_set(err, ENODEV,
				 "'%s' is on no union with a control socket "
				 "(trib-union -o control=SOCKET)",
				 cli_argument(cli, 0));
	return r;
}

/* Say it to the union that the first argument is on. */
static int say_there(struct cli *cli, const char *request, struct error *err)
{
	auto_free char *socket_path = NULL;
	struct json_object *answer = NULL;
	int r = find_socket(cli, &socket_path, err);

	if (r == 0)
		r = say(socket_path, request, &answer, err);
	if (r == 0 && cli->options.json)
		(void)cli_answer(cli, answer); /* takes it */
	else
		json_object_put(answer);
	return r;
}

/* Say "@word BRANCH" to the union that the first argument is on. */
static int change(struct cli *cli, const char *word, struct error *err)
{
	auto_free char *request = NULL;
	const char *branch = cli_argument(cli, 1);

	if (strchr(branch, '\n'))
		return error_set(err, EINVAL,
				 "a branch with a newline cannot be named");
	if (asprintf(&request, "%s %s\n", word, branch) < 0)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	return say_there(cli, request, err);
}

int union_add_run(struct cli *cli, struct error *err)
{
	int r = change(cli, "add", err);

	if (r == 0)
		cli_say(cli,
			"'%s' is a branch now; at the next mount it must "
			"be in the same place of the list",
			cli_argument(cli, 1));
	return r;
}

int union_set_run(struct cli *cli, struct error *err)
{
	int r = change(cli, "set", err);

	if (r == 0)
		cli_say(cli, "'%s' is set", cli_argument(cli, 1));
	return r;
}

int union_remove_run(struct cli *cli, struct error *err)
{
	int r = change(cli, "remove", err);

	if (r == 0)
		cli_say(cli, "'%s' is no branch any more",
			cli_argument(cli, 1));
	return r;
}

/* "policy NAME=VALUE NAME=VALUE", owned; NULL: ENOMEM. */
static char *policy_request(struct cli *cli)
{
	char *line = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&line, &size);
	int i;

	if (!out)
		return NULL;
	(void)fputs("policy", out);
	for (i = 1; i < cli->n_arguments; i++)
		(void)fprintf(out, " %s", cli_argument(cli, i));
	(void)fputc('\n', out);
	if (fclose(out) == 0)
		return line;
	free(line);
	return NULL;
}

int union_policy_run(struct cli *cli, struct error *err)
{
	auto_free char *request = NULL;
	int i, r;

	for (i = 1; i < cli->n_arguments; i++)
		if (strpbrk(cli_argument(cli, i), " \n"))
			return error_set(err, EINVAL, "'%s' is no setting",
					 cli_argument(cli, i));
	request = policy_request(cli);
	if (!request)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	r = say_there(cli, request, err);
	for (i = 1; i < cli->n_arguments && r == 0; i++)
		cli_say(cli, "'%s' is set until the union is unmounted",
			cli_argument(cli, i));
	return r;
}

/* Ask the server of the first argument's union, once there is one. */
static int ask_server(struct cli *cli, struct json_object **ret,
		      struct error *err)
{
	auto_free char *text = NULL;
	int r = union_ask_root(cli_argument(cli, 0), "status", &text, err);

	return r < 0 ? r : union_json(text, ret, err);
}

static int pid_in(struct json_object *status)
{
	return json_object_get_int(json_object_object_get(status, "pid"));
}

static const char *version_in(struct json_object *status)
{
	return json_object_get_string(
		json_object_object_get(status, "version"));
}

/* Another one serves: is it the program that is installed now? */
static int check_current(struct json_object *after, struct error *err)
{
	if (json_object_get_boolean(json_object_object_get(after, "current")))
		return 0;
	return error_set(err, EIO,
			 "the installed program does not serve: the previous "
			 "version %s goes on; the log says why",
			 version_in(after));
}

static int upgrade(struct cli *cli, struct json_object *before,
		   struct json_object **ret, struct error *err)
{
	auto_free char *socket_path = NULL;
	struct json_object *none = NULL;
	struct error said = {0};
	int r = find_socket(cli, &socket_path, err);

	if (r < 0)
		return r;
	r = say(socket_path, "upgrade\n", &none, &said);
	json_object_put(none);
	if (r != -ECONNRESET) /* its answer is its end */
		return error_set(err, r < 0 ? -r : EPROTO, "%s",
				 error_text(&said));
	r = ask_server(cli, ret, err);
	if (r == 0 && pid_in(*ret) == pid_in(before))
		return error_set(err, EIO,
				 "the union is served by process %d as before",
				 pid_in(before));
	return r < 0 ? r : check_current(*ret, err);
}

int union_upgrade_run(struct cli *cli, struct error *err)
{
	struct json_object *before = NULL, *after = NULL;
	int r = ask_server(cli, &before, err);

	if (r == 0)
		r = upgrade(cli, before, &after, err);
	if (r == 0)
		cli_say(cli, "'%s' is served by process %d, version %s",
			cli_argument(cli, 0), pid_in(after), version_in(after));
	if (r == 0 && cli->options.json)
		(void)cli_answer(cli, json_object_get(after)); /* takes it */
	json_object_put(before);
	json_object_put(after);
	return r;
}

int union_drain_run(struct cli *cli, struct error *err)
{
	const char *bandwidth = cli->options.bandwidth;
	uint64_t rate = 0;
	char word[40];
	int r = 0;

	if (cli->options.stop && bandwidth)
		return cli_usage(cli, err, "--stop and --bandwidth together");
	if (bandwidth && strcmp(bandwidth, "none") != 0)
		r = size_parse(bandwidth, &rate, err);
	if (r < 0)
		return r;
	(void)snprintf(word, sizeof(word), "drain %" PRIu64, rate); /* fits */
	r = change(cli, cli->options.stop ? "stop" : word, err);
	if (r == 0)
		cli_say(cli,
			cli->options.stop
				? "'%s' is drained no further"
				: "'%s' is being drained; 'trib union "
				  "status' tells how far",
			cli_argument(cli, 1));
	return r;
}
