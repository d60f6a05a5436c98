#include "list_stage.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void list_pause_ms(long ms)
{
    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

void list_file_put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

const char *list_file_text(const char *path)
{
    static char text[8192];
    FILE *file = fopen(path, "r");
    if (file == NULL) return NULL;
    size_t len = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[len] = '\0';
    return text;
}

int list_set(void **state)
{
    struct list_stage *stage = calloc(1, sizeof *stage);
    snprintf(stage->folder, sizeof stage->folder, "/tmp/stampede-blocks-XXXXXX");
    if (mkdtemp(stage->folder) == NULL) return -1;
    snprintf(stage->path, sizeof stage->path, "%s/blocks", stage->folder);
    snprintf(stage->aside, sizeof stage->aside, "%s/aside", stage->folder);
    snprintf(stage->log, sizeof stage->log, "%s/log", stage->folder);
    fflush(stderr);
    stage->stderr_fd = dup(STDERR_FILENO);
    int fd = open(stage->log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    dup2(fd, STDERR_FILENO);
    close(fd);
    *state = stage;
    return 0;
}

int list_clear(void **state)
{
    struct list_stage *stage = *state;
    char command[128];
    if (stage->reader != NULL) blocks_reader_close(stage->reader);
    if (stage->blocks != NULL) blocks_close(stage->blocks);
    dup2(stage->stderr_fd, STDERR_FILENO);
    close(stage->stderr_fd);
    static const char *const names[] = { "blocks", "blocks.new", "aside", "log", "real", "data" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(command, sizeof command, "%s/%s", stage->folder, names[i]);
        unlink(command);
    }
    int left = rmdir(stage->folder);
    free(stage);
    return left;
}

void list_open(struct list_stage *stage)
{
    assert_int_equal(blocks_open(&stage->blocks, stage->path), FAULT_NONE);
    stage->reader = blocks_reader_open(stage->blocks);
}

bool list_has_user(struct list_stage *stage, const char *name)
{
    return blocks_has_user(stage->reader, slice_of(name));
}

bool list_has_ip(struct list_stage *stage, const char *text)
{
    uint8_t address[16] = { [10] = 0xff, [11] = 0xff };
    if (inet_pton(AF_INET, text, address + 12) != 1) assert_int_equal(inet_pton(AF_INET6, text, address), 1);
    return blocks_has_address(stage->reader, address);
}

bool list_logged(struct list_stage *stage, const char *words)
{
    return strstr(list_file_text(stage->log), words) != NULL;
}

void list_wait_user(struct list_stage *stage, const char *name, bool has)
{
    uint64_t end_ms = mono_ms() + LIST_WAIT_MS_MAX;
    while (list_has_user(stage, name) != has) {
        if (mono_ms() > end_ms) fail_msg("%s is not %s after %d ms", name, has ? "blocked" : "free", LIST_WAIT_MS_MAX);
        list_pause_ms(5);
    }
}

void list_wait_logged(struct list_stage *stage, const char *words)
{
    uint64_t end_ms = mono_ms() + LIST_WAIT_MS_MAX;
    while (!list_logged(stage, words)) {
        if (mono_ms() > end_ms) fail_msg("not logged: %s", words);
        list_pause_ms(5);
    }
}

bool list_add(struct list_stage *stage, const char *entry)
{
    bool there;
    assert_int_equal(blocks_add(stage->blocks, slice_of(entry), &there), FAULT_NONE);
    return there;
}

bool list_take(struct list_stage *stage, const char *entry)
{
    bool there;
    assert_int_equal(blocks_remove(stage->blocks, slice_of(entry), &there), FAULT_NONE);
    return there;
}
