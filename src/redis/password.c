#include "redis/redis.h"

#include "base/secret_file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool password_take(char *out, struct slice text, const char *where, char *sentence)
{
    const char *end = text.len > 0 ? memchr(text.data, '\n', text.len) : NULL;
    if (end != NULL) text.len = (size_t)(end - text.data);
    if (text.len > 0 && text.data[text.len - 1] == '\r') text.len--;
    if (text.len == 0 || text.len > REDIS_PASSWORD_BYTES_MAX || text_has_control(text)) {
        snprintf(sentence, REDIS_SENTENCE_BYTES,
                 "%.200s has no password of Redis: one line of at most 512 bytes is expected.", where);
        return false;
    }
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    return true;
}

static bool file_take(char *out, const char *path, char *sentence)
{
    struct stat about;
    char bytes[REDIS_PASSWORD_BYTES_MAX + 3];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) != 0) {
        snprintf(sentence, REDIS_SENTENCE_BYTES, "The password file %.200s cannot be read: %s.", path, strerror(errno));
        if (fd >= 0) close(fd);
        return false;
    }
    bool good = false;
    if (S_ISREG(about.st_mode) && !secret_file_kept(&about)) {
        snprintf(sentence, REDIS_SENTENCE_BYTES,
                 "The password file %.200s has mode %04o, so others can read or change it: make it 0600 (chmod 600), and "
                 "change the password if it may have been read.",
                 path, (unsigned)(about.st_mode & 07777));
    } else {
        ssize_t got = S_ISREG(about.st_mode) ? read(fd, bytes, sizeof(bytes)) : 0;
        good = password_take(out, (struct slice){ bytes, got > 0 ? (size_t)got : 0 }, path, sentence);
        OPENSSL_cleanse(bytes, sizeof(bytes));
    }
    close(fd);
    return good;
}

bool redis_password_find(char out[REDIS_PASSWORD_BYTES_MAX + 1], const char *path, const char *environment,
                         char sentence[REDIS_SENTENCE_BYTES])
{
    out[0] = '\0';
    if (path[0] != '\0') return file_take(out, path, sentence);
    const char *value = getenv(environment);
    return value == NULL || password_take(out, slice_of(value), environment, sentence);
}
