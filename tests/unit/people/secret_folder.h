/* secret_folder: a folder for each test, and in it the one file of secrets that is read. cmocka.h comes before it. */
#ifndef STAMPEDE_TESTS_UNIT_PEOPLE_SECRET_FOLDER_H
#define STAMPEDE_TESTS_UNIT_PEOPLE_SECRET_FOLDER_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[128];

static inline int folder_setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/stampede-secrets-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof(path), "%s/secrets", folder);
    return 0;
}

static inline int folder_teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static inline void file_write(const char *text, mode_t mode)
{
    unlink(path);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

#endif
