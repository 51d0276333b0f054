/* SPDX-License-Identifier: Apache-2.0 */
/* trib-loop: which file a loop device holds (blockd/local/local_ask.h has why).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "blockd/local/local_ask.h"

#define EXIT_USAGE 2

static const char help[] =
	"usage: " LOCAL_ASK_PROGRAM " loopN\n"
	"Print the file of a loop device: \"writes\" or \"reads\" with the file's\n"
	"device and inode as of stat(2), \"free\", or \"error\" with a number.\n"
	"blockd runs this program, because it never ends while the server of\n"
	"that file is silent.\n";

static bool is_loop(const char *name)
{
	size_t digits;

	if (strncmp(name, "loop", 4) != 0 || strlen(name) >= LOCAL_NAME_MAX)
		return false;
	digits = strspn(name + 4, "0123456789");
	return digits > 0 && name[4 + digits] == '\0';
}

int main(int argc, char **argv)
{
	struct local_answer answer;
	char text[LOCAL_ANSWER_MAX];

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		(void)fputs(help, stdout);
		return EXIT_SUCCESS;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		(void)puts(LOCAL_ASK_PROGRAM " " TRIBUTARY_VERSION);
		return EXIT_SUCCESS;
	}
	if (argc != 2 || !is_loop(argv[1])) {
		(void)fputs(help, stderr);
		return EXIT_USAGE;
	}
	local_answer_get(argv[1], &answer);
	(void)local_answer_format(&answer, text);
	return fd_write_all(STDOUT_FILENO, text, strlen(text)) < 0
		       ? EXIT_FAILURE
		       : EXIT_SUCCESS;
}
