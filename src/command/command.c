#include "command/command.h"

#include "base/disk.h"
#include "doors/doors.h"
#include "gateway/pages.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool command_options(struct config *config, int argc, char **argv)
{
    struct config_mistake mistake;
    if (config_load(config, config_file(argc, argv), argc, argv, &mistake) == FAULT_NONE) return true;
    fprintf(stderr, "stampede: %s\n", mistake.text);
    return false;
}

bool command_lock(const struct config *config, int *lock_fd)
{
    if (access(config->data, R_OK | W_OK | X_OK) != 0) {
        fprintf(stderr, "stampede: cannot use the data folder %s: %s; name it with --data\n", config->data, strerror(errno));
        return false;
    }
    long pid = 0;
    enum fault fault = disk_lock_folder(config->data, lock_fd, &pid);
    return fault == FAULT_NONE;
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
