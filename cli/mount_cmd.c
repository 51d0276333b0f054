/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"

int mount_run(struct cli *cli, struct error *err)
{
	auto_free char *at = cli_absolute(cli_argument(cli, 1), err);
	int r;

	if (!at)
		return -err->code;
	r = volume_attach(cli->volumes,
			  &(struct volume_attach_request){
				  .name = cli_argument(cli, 0),
				  .mount_point = at,
				  .transport = cli->options.transport,
				  .read_only = cli->options.read_only,
				  .force = cli->options.force,
			  },
			  err);
	if (r == 0)
		cli_say(cli, "volume %s is mounted at %s", cli_argument(cli, 0),
			at);
	return r;
}

/* A word with a slash is a mount point; volumes' names have none. */
static int volume_name(struct cli *cli, char *ret, struct error *err)
{
	const char *word = cli_argument(cli, 0);
	auto_free char *path = NULL;

	if (!strchr(word, '/')) {
		if (strlen(word) >= RECORD_NAME_SIZE)
			return error_set(err, ENOENT, "no volume '%.80s'",
					 word);
		(void)strcpy(ret, word); /* checked just above */
		return 0;
	}
	path = cli_absolute(word, err);
	if (!path)
		return -err->code;
	return volume_find_mounted(cli->volumes, path, ret, err);
}

int umount_run(struct cli *cli, struct error *err)
{
	char name[RECORD_NAME_SIZE];
	int r = volume_name(cli, name, err);

	if (r == 0)
		r = volume_detach(cli->volumes,
				  &(struct volume_detach_request){
					  .name = name,
					  .force = cli->options.force,
				  },
				  err);
	if (r == 0)
		cli_say(cli, "volume %s is not mounted here any more", name);
	return r;
}
