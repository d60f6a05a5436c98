/* main: which word of the command line does what. */
#include "command/command.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *word;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    { "serve", command_serve, "[options]            run the server" },
    { "demo", command_demo, "[--keep] [flags]     a server, a sale and a crowd to look at, and the proof of its numbers" },
    { "admin", command_admin, "create NAME          make an admin; the password is read from standard input" },
    { "audit", command_audit, "[--data DIR]         prove the promises offline" },
    { "export", command_export, "orders|sales         write what is filed as --format csv or jsonl" },
    { "repair", command_repair, "[--data DIR] [--yes] show what a damaged journal would lose; cut it when told" },
    { "reconcile", command_reconcile, "[--repair]           hold Redis against the ledger; build anew what differs" },
    { "config", command_config, "check [FILE]         say what is wrong with a configuration" },
    { "health", command_health, "[ready] [options]    ask a running server whether it is alive, or ready" },
    { "routes", command_routes, "                     list the HTTP routes and who may use them" },
    { "version", command_version, "                     say which version this is" },
};

static void help(FILE *out)
{
    fprintf(out, "stampede: a flash-sale server\n\nusage:\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(out, "  stampede %-8s %s\n", commands[i].word, commands[i].help);
    fprintf(out, "\noptions:\n");
    config_help(out);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        help(stdout);
        return EXIT_OK;
    }
    for (size_t i = 0; argc >= 2 && i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(argv[1], commands[i].word) == 0) return commands[i].run(argc - 2, argv + 2);
    }
    if (argc >= 2) fprintf(stderr, "stampede: there is no command %s\n", argv[1]);
    help(stderr);
    return EXIT_USAGE;
}
