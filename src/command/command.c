#include "command/command.h"

#include "base/disk.h"
#include "doors/doors.h"
#include "gateway/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool command_options(struct config *config, int argc, char **argv)
{
    struct config_mistake mistake;
    if (config_load(config, config_file(argc, argv), argc, argv, &mistake) == FAULT_NONE) return true;
    fprintf(stderr, "stampede: %s\n", mistake.text);
    return false;
}

static bool folder_good(const struct config *config, int rights)
{
    struct stat about;
    int error = access(config->data, rights) != 0 ? errno : 0;
    if (stat(config->data, &about) == 0 && !S_ISDIR(about.st_mode)) error = ENOTDIR;
    if (error != 0)
        fprintf(stderr, "stampede: cannot use the data folder %s: %s; name it with --data\n", config->data, strerror(error));
    return error == 0;
}

bool command_lock(const struct config *config, int *lock_fd)
{
    long pid = 0;
    return folder_good(config, R_OK | W_OK | X_OK) && disk_lock_folder(config->data, lock_fd, &pid) == FAULT_NONE;
}

bool command_lock_reading(const struct config *config, int *lock_fd)
{
    char path[COMMAND_PATH_BYTES];
    *lock_fd = -1;
    if (!folder_good(config, R_OK | X_OK)) return false;
    command_path(path, "", config->data, "lock");
    if (access(path, F_OK) != 0) return true;
    if (access(path, W_OK) == 0) return command_lock(config, lock_fd);
    *lock_fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*lock_fd < 0 || flock(*lock_fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
    fprintf(stderr, "stampede: %s is in use: stop the server, or choose another folder with --data\n", config->data);
    close(*lock_fd);
    return false;
}

int command_routes(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        fprintf(stderr, "usage: stampede routes\n");
        return EXIT_USAGE;
    }
    struct route_tables doors;
    doors_collect(&doors_all, &doors);
    pages_collect(&pages_all, &doors);
    routes_print(&doors, stdout);
    return EXIT_OK;
}

int command_version(int argc, char **argv)
{
    (void)argv;
    if (argc != 0) {
        fprintf(stderr, "usage: stampede version\n");
        return EXIT_USAGE;
    }
    printf("stampede %s\n", STAMPEDE_VERSION);
    return EXIT_OK;
}
