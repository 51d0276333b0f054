/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pipe that tells a supervisor that its server was killed, even if the
 * process does not end. A process with a thread in a call that does not return
 * keeps all its descriptors. pidfd_open(2) tells its end only after that
 * thread's.
 *
 * So one thread of the server does nothing. It has a table of descriptors of
 * its own, with one end of a pipe in it. A kill ends that thread at once and
 * closes that end; the supervisor has the other end.
 */
#ifndef UNION_DEATH_PIPE_H
#define UNION_DEATH_PIPE_H

/*
 * Start the thread, if there is a supervisor (fd_store.h). An error is logged:
 * then a server that hangs when it is killed is followed only after its end.
 */
void death_pipe_start(void);

#endif
