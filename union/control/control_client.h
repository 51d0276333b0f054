/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_CONTROL_CLIENT_H
#define UNION_CONTROL_CLIENT_H

/*
 * `trib-union --control SOCKET COMMAND [ARGUMENT]`, from SOCKET on: send it
 * and print the JSON that comes back. The exit code: 0; 1 when it failed (the
 * words are logged); 2 when the command line is wrong.
 */
int control_client(int argc, char **argv);

#endif
