/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_CONTROL_CLIENT_H
#define UNION_CONTROL_CLIENT_H

/*
 * Run `trib-union --control SOCKET COMMAND [ARGUMENT]`, given the arguments
 * from SOCKET on: send the command and print the JSON that comes back. The exit
 * code: 0; 1 when the command failed (the error is logged); 2 when the command
 * line is wrong.
 */
int control_client(int argc, char **argv);

#endif
