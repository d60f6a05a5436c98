#include "base/disk.h"
#include "command/command.h"
#include "people/people.h"

#include <openssl/crypto.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* One line from standard input, not shown while it is typed. */
static bool password_read(char *out, size_t size)
{
    struct termios shown, hidden;
    bool terminal = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &shown) == 0;
    if (terminal) {
        hidden = shown;
        hidden.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
        fprintf(stderr, "password: ");
    }
    bool read = fgets(out, (int)size, stdin) != NULL;
    if (terminal) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
        fputc('\n', stderr);
    }
    if (read) out[strcspn(out, "\r\n")] = '\0';
    return read;
}

static int admin_create(const struct config *config, const char *name)
{
    char password[PASSWORD_CHARS_MAX * 4 + 3];
    if (!password_read(password, sizeof password)) {
        fprintf(stderr, "stampede: no password on standard input\n");
        return EXIT_USAGE;
    }
    const char *objection = people_username_objection(slice_of(name));
    if (objection == NULL) objection = people_password_objection(slice_of(password));
    if (objection != NULL) {
        fprintf(stderr, "stampede: %s\n", objection);
        return EXIT_USAGE;
    }
    if (disk_folder_make(config->data) != FAULT_NONE) return EXIT_FAILED;
    static struct command_places places;
    if (!command_places(&places, config)) return EXIT_USAGE;
    enum people_result result = PEOPLE_FAILED;
    enum fault fault = people_admin_create(&places.ledger, name, password, &result);
    OPENSSL_cleanse(password, sizeof password);
    if (fault != FAULT_NONE || result != PEOPLE_OK) {
        fprintf(stderr,
                result == PEOPLE_TAKEN ? "stampede: the name %s is taken; choose another\n"
                                       : "stampede: could not create %s\n",
                name);
        return EXIT_FAILED;
    }
    printf("admin %s created\n", name);
    return EXIT_OK;
}

int command_admin(int argc, char **argv)
{
    struct config config;
    if (argc < 2 || strcmp(argv[0], "create") != 0 || argv[1][0] == '-') {
        fprintf(stderr, "usage: stampede admin create NAME [--data DIR]   (password on standard input)\n");
        return EXIT_USAGE;
    }
    if (!command_options(&config, argc - 2, argv + 2)) return EXIT_USAGE;
    return admin_create(&config, argv[1]);
}
