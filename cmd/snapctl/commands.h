/* SPDX-License-Identifier: MIT */
/* One function per command, each in its own file. They print what went wrong
 * and return the exit status (enum app_exit). */
#ifndef SNAPCTL_COMMANDS_H
#define SNAPCTL_COMMANDS_H

struct app;
struct args;

int cmd_create(struct app *app, struct args *args);
int cmd_restore(struct app *app, struct args *args);
int cmd_list(struct app *app, struct args *args);
int cmd_show(struct app *app, struct args *args);
int cmd_verify(struct app *app, struct args *args);
int cmd_completion(struct app *app, struct args *args);
int cmd_version(struct app *app, struct args *args);

#endif
