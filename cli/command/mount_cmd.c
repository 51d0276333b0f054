/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command/command.h"
#include "cli/text/json.h"

/* A device alone: what a program needs of it is the device's name. */
static int answer_device(struct cli *cli, struct error *err)
{
	struct json_object *object;
	char device[INITIATOR_TEXT_MAX];
	int r = volume_device(cli->volumes, cli_argument(cli, 0), device, err);

	if (r < 0)
		return r;
	object = json_object_new_object();
	json_object_object_add(object, "device",
			       json_object_new_string(device));
	if (!cli_answer(cli, object))
		(void)puts(device);
	return 0;
}

int mount_run(struct cli *cli, struct error *err)
{
	auto_free char *at = NULL;
	int r;

	if (cli_argument(cli, 1)) {
		at = cli_absolute(cli_argument(cli, 1), err);
		if (!at)
			return -err->code;
	}
	r = volume_attach(cli->volumes,
			  &(struct volume_attach_request){
				  .name = cli_argument(cli, 0),
				  .mount_point = at,
				  .transport = cli->options.transport,
				  .mount_options = cli->options.mount_options,
				  .read_only = cli->options.read_only,
				  .force = cli->options.force,
			  },
			  err);
	if (r == 0 && !at)
		return answer_device(cli, err);
	if (r == 0)
		cli_say(cli, "volume %s is mounted at %s", cli_argument(cli, 0),
			at);
	return r;
}

static int unmount(struct cli *cli, const char *name, struct error *err)
{
	int r = volume_detach(cli->volumes,
			      &(struct volume_detach_request){
				      .name = name,
				      .force = cli->options.force,
				      .asks_elsewhere = true,
				      .known = true,
			      },
			      err);

	if (r == 0)
		cli_say(cli, "volume %s is not attached here any more", name);
	return r;
}

static int unmount_directory(struct cli *cli, const char *word,
			     struct error *err)
{
	char name[RECORD_NAME_SIZE];
	auto_free char *path = cli_absolute(word, err);
	int r = path ? volume_find_mounted(cli->volumes, path, name, err)
		     : -err->code;

	return r < 0 ? r : unmount(cli, name, err);
}

/* A word with a slash is a directory; one without a volume before that. */
int umount_run(struct cli *cli, struct error *err)
{
	const char *word = cli_argument(cli, 0);
	struct error other = {0};
	int r;

	if (strchr(word, '/'))
		return unmount_directory(cli, word, err);
	r = unmount(cli, word, err);
	if (r != -ENOENT && r != -EINVAL) /* as for what is no name */
		return r;
	r = unmount_directory(cli, word, &other);
	if (r == -ENOENT)
		return error_set(
			err, ENOENT,
			"there is no volume '%.80s', and none is mounted "
			"at a directory of that name",
			word);
	if (r < 0)
		*err = other;
	return r;
}
