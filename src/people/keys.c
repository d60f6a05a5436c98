#include "people/keys.h"

#include "base/disk.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"

#include <errno.h>
#include <libgen.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEYS_FILE_BYTES_MAX 65536
#define KEY_BYTES 32
#define KID_BYTES 4
#define PATH_BYTES_MAX 4096

static enum fault ring_open(struct jwt_ring **out, struct slice text, const char *where)
{
    char objection[256] = "";
    enum fault fault = jwt_ring_open(out, text, objection);
    if (fault != FAULT_NONE) log_error("people", "signing keys in %s cannot be used: %s", where, objection);
    return fault;
}

/* Synced under another name and then renamed: a crash leaves no half a key, and a key that has signed is never lost. */
static enum fault file_make(const char *path)
{
    uint8_t kid[KID_BYTES], key[KEY_BYTES];
    char text[512], fresh[PATH_BYTES_MAX], folder[PATH_BYTES_MAX];
    random_bytes(kid, sizeof(kid));
    random_bytes(key, sizeof(key));
    char kid_text[2 * KID_BYTES + 1] = "", key_text[2 * KEY_BYTES + 1] = "";
    hex_encode(kid_text, kid, sizeof(kid));
    hex_encode(key_text, key, sizeof(key));
    int len = snprintf(
        text, sizeof(text),
        "# Keys that sign login tokens, one \"kid hexbytes\" a line. The first one signs, all of them verify:\n"
        "# to rotate, put a new line on top, restart, and remove the old one when its tokens have expired.\n"
        "%s %s\n",
        kid_text, key_text);
    int fresh_len = snprintf(fresh, sizeof(fresh), "%s.new", path);
    snprintf(folder, sizeof(folder), "%s", path);

    enum fault fault = FAULT_CONFIG;
    int fd = -1;
    if (fresh_len < (int)sizeof(fresh)) fault = disk_create(fresh, &fd);
    if (fault == FAULT_NONE) {
        fault = disk_write_at(fd, text, (size_t)len, 0);
        if (fault == FAULT_NONE) fault = disk_sync_all(fd);
        disk_close(fd);
    }
    if (fault == FAULT_NONE) fault = disk_rename(fresh, path);
    if (fault == FAULT_NONE) fault = disk_sync_folder(dirname(folder));
    OPENSSL_cleanse(key, sizeof(key));
    OPENSSL_cleanse(key_text, sizeof(key_text));
    OPENSSL_cleanse(text, sizeof(text));
    if (fault == FAULT_NONE) log_info("people", "made a signing key in %s", path);
    return fault;
}

static enum fault file_check(int fd, const char *path)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        log_error("people", "cannot look at %s: %s", path, strerror(errno));
        return FAULT_DISK;
    }
    if (!S_ISREG(about.st_mode) || about.st_size > KEYS_FILE_BYTES_MAX) {
        log_error("people", "%s is not a file of signing keys", path);
        return FAULT_CONFIG;
    }
    if ((about.st_mode & 077) != 0) {
        log_error("people",
                  "%s has mode %04o: others could read the signing keys; make it 0600 (chmod 600), and if they may"
                  " have been read, replace them",
                  path, (unsigned)(about.st_mode & 07777));
        return FAULT_CONFIG;
    }
    return FAULT_NONE;
}

static enum fault file_read(struct jwt_ring **out, int fd, const char *path)
{
    enum fault fault = file_check(fd, path);
    if (fault != FAULT_NONE) return fault;
    char *text = malloc(KEYS_FILE_BYTES_MAX);
    if (text == NULL) return FAULT_MEMORY;
    size_t got = 0;
    fault = disk_read_at(fd, text, KEYS_FILE_BYTES_MAX, 0, &got);
    if (fault == FAULT_NONE) fault = ring_open(out, (struct slice){ text, got }, path);
    OPENSSL_cleanse(text, KEYS_FILE_BYTES_MAX);
    free(text);
    return fault;
}

enum fault keys_open(struct jwt_ring **out, const char *path, struct slice env)
{
    *out = NULL;
    if (env.len > 0) return ring_open(out, env, "the environment");

    struct stat about;
    if (stat(path, &about) != 0 && errno == ENOENT) {
        enum fault made = file_make(path);
        if (made != FAULT_NONE) return made;
    }
    int fd;
    enum fault fault = disk_open(path, false, &fd);
    if (fault != FAULT_NONE) return fault;
    fault = file_read(out, fd, path);
    disk_close(fd);
    return fault;
}
