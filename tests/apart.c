/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Become a program that is apart from what else this machine does.
 *
 *	apart PROGRAM ARGUMENT...
 *
 * The program has the orphans below it as its children. It is meant to be a
 * shell, which waits for any child there is. So a daemon that ended is gone at
 * once, whatever the first process of the machine or container does.
 * PR_SET_CHILD_SUBREAPER of prctl(2) stays over execve(2).
 *
 * The program's mounts are its own (mount_namespaces(7)). Another process that
 * makes a mount namespace gets no copies of them. Such copies would keep a file
 * system, its device and its server when it is unmounted here. The mounts end
 * with the last process that has them. Mounts and unmounts outside come here,
 * too, where the machine's mounts are shared. So no mount of others is kept,
 * either.
 *
 * The program also has its own /var/lib/tributary, where unions keep things
 * over an unmount. That ends with the mounts, too.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT "/var/lib/tributary"

int main(int argc, char **argv)
{
	if (argc < 2) {
		(void)fprintf(stderr, "usage: apart PROGRAM ARGUMENT...\n");
		return 2;
	}
	/* Each goes on as if it had not been asked for. */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		perror("apart: prctl");
	if (unshare(CLONE_NEWNS) < 0) {
		if (errno != EPERM) /* who may not mount anyway */
			perror("apart: unshare");
	} else if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) {
		perror("apart: mount");
	} else if ((mkdir(KEPT, 0755) < 0 && errno != EEXIST) ||
		   mount("none", KEPT, "tmpfs", 0, "mode=755") < 0) {
		perror("apart: " KEPT);
	}
	(void)execvp(argv[1], argv + 1); /* returns only when it failed */
	perror(argv[1]);
	return 127;
}
