/* main: which word of the command line does what. */
#include "command/command.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What stands below the line of a command in its help. */
enum flags { FLAGS_NONE, FLAGS_OPTIONS, FLAGS_OWN };

static const struct command {
    const char *word;
    int (*run)(int argc, char **argv);
    enum flags flags;
    const char *help;
} commands[] = {
    { "serve", command_serve, FLAGS_OPTIONS, "[options]            run the server" },
    { "demo", command_demo, FLAGS_OWN,
      "[--keep] [flags]     a server, a sale and a crowd to look at, and the proof of its numbers" },
    { "admin", command_admin, FLAGS_OPTIONS,
      "create NAME          make an admin; the password is read from standard input" },
    { "audit", command_audit, FLAGS_OPTIONS, "[--data DIR]         prove the promises offline" },
    { "export", command_export, FLAGS_OPTIONS,
      "orders|sales         write what is filed as --format csv or jsonl; of one --sale ID, to --output FILE" },
    { "repair", command_repair, FLAGS_OPTIONS,
      "[--data DIR] [--yes] show what a damaged journal would lose; cut it when told" },
    { "reconcile", command_reconcile, FLAGS_OPTIONS,
      "[--repair]           hold Redis against the ledger; build anew what differs" },
    { "config", command_config, FLAGS_NONE, "check [FILE]         say what is wrong with a configuration" },
    { "health", command_health, FLAGS_OPTIONS, "[ready] [options]    ask a running server whether it is alive, or ready" },
    { "routes", command_routes, FLAGS_NONE, "                     list the HTTP routes and who may use them" },
    { "version", command_version, FLAGS_NONE, "                     say which version this is" },
};
#define COMMANDS (sizeof commands / sizeof *commands)

static void usage_say(FILE *out, const struct command *command)
{
    fprintf(out, "  stampede %-9s %s\n", command->word, command->help);
}

static void options_say(FILE *out)
{
    fprintf(out, "\noptions:\n");
    config_help(out);
}

static void help(FILE *out)
{
    fprintf(out, "stampede: a flash-sale server\n\nusage:\n");
    for (size_t i = 0; i < COMMANDS; i++) usage_say(out, &commands[i]);
    options_say(out);
}

static bool word_asks_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static bool words_ask_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (word_asks_help(argv[i])) return true;
    }
    return false;
}

static int command_run(const struct command *command, int argc, char **argv)
{
    if (command->flags == FLAGS_OWN || !words_ask_help(argc, argv)) return command->run(argc, argv);
    printf("usage:\n");
    usage_say(stdout, command);
    if (command->flags == FLAGS_OPTIONS) options_say(stdout);
    return EXIT_OK;
}

/* What is opened later must not take the place of a standard stream that was closed: the log would be written into it. */
static void streams_fill(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

int main(int argc, char **argv)
{
    streams_fill();
    const char *word = argc >= 2 ? argv[1] : "";
    if (strcmp(word, "--version") == 0) word = "version";
    if (strcmp(word, "help") == 0 || word_asks_help(word)) {
        help(stdout);
        return EXIT_OK;
    }
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(word, commands[i].word) == 0) return command_run(&commands[i], argc - 2, argv + 2);
    }
    if (argc >= 2) fprintf(stderr, "stampede: there is no command %s\n", word);
    help(stderr);
    return EXIT_USAGE;
}
