/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a supervisor learns that its server was killed though that does not end:
 * a process whose thread is in a call that does not come back keeps all its
 * descriptors, and its end is not told (pidfd_open(2)) before that thread's.
 * So there is a thread that does nothing and has a table of descriptors of its
 * own, with one end of a pipe in it. It ends at once with any of them, and with
 * it that end; the supervisor has the other one.
 */
#ifndef UNION_DEATH_PIPE_H
#define UNION_DEATH_PIPE_H

/*
 * Start it, if there is a supervisor (fd_store.h). Without it a server that
 * hangs when it is killed is followed only when it has ended, which is logged.
 */
void death_pipe_start(void);

#endif
