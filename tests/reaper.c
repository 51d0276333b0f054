// SPDX-License-Identifier: Apache-2.0
/*
 * Become a program that has the orphans below it as its children.
 *
 *	reaper PROGRAM ARGUMENT...
 *
 * Meant for a shell, which waits for any child there is: a daemon that ended is
 * gone at once, whatever the first process of the machine or container does
 * about it. prctl(2): PR_SET_CHILD_SUBREAPER stays over execve(2).
 */
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 2) {
		(void)fprintf(stderr, "usage: reaper PROGRAM ARGUMENT...\n");
		return 2;
	}
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		perror("reaper: prctl"); /* goes on as if there were none */
	(void)execvp(argv[1], argv + 1); /* returns only when it failed */
	perror(argv[1]);
	return 127;
}
