#include "base/log.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX 1024
/* Every byte of a message may become a six-byte escape; the rest of a line is short. */
#define LINE_BYTES_MAX (6 * MESSAGE_BYTES_MAX + 256)

static const char *const words[] = { "debug", "info", "warn", "error" };

static _Atomic int level_min = LOG_INFO;
static _Atomic bool kept_only;

struct line {
    char bytes[LINE_BYTES_MAX];
    size_t len;
};

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_kept kept[LOG_KEPT]; /* line id at id % LOG_KEPT */
static uint64_t kept_last;

const char *log_level_word(enum log_level level)
{
    return words[level];
}

enum log_level log_level_of(const char *word)
{
    for (enum log_level level = LOG_DEBUG; level <= LOG_ERROR; level++) {
        if (strcmp(word, words[level]) == 0) return level;
    }
    return LOG_INFO;
}

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&level_min, (int)level, memory_order_relaxed);
}

void log_keep_only(bool on)
{
    atomic_store_explicit(&kept_only, on, memory_order_relaxed);
}

bool log_speaks(enum log_level level)
{
    return (int)level >= atomic_load_explicit(&level_min, memory_order_relaxed);
}

static void line_add(struct line *line, const char *text, size_t len)
{
    size_t room = sizeof(line->bytes) - line->len;
    if (len > room) len = room;
    memcpy(line->bytes + line->len, text, len);
    line->len += len;
}

static void line_add_text(struct line *line, const char *text)
{
    line_add(line, text, strlen(text));
}

/* A message may carry bytes that a stranger sent: whatever they were, a line stays one line and valid UTF-8. */
static void line_add_escaped(struct line *line, const char *text)
{
    bool utf8 = utf8_valid(slice_of(text));
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        char escape[8];
        if (byte == '"' || byte == '\\') {
            escape[0] = '\\';
            escape[1] = *at;
            line_add(line, escape, 2);
        } else if (byte < 0x20 || byte == 0x7f || (byte > 0x7f && !utf8)) {
            int len = snprintf(escape, sizeof(escape), "\\u%04x", byte);
            line_add(line, escape, (size_t)len);
        } else {
            line_add(line, at, 1);
        }
    }
}

/* The same for a terminal, which must not be told what to do by a stranger: besides ASCII controls, 0xc2 begins the C1 ones.
 */
static void line_add_readable(struct line *line, const char *text)
{
    bool utf8 = utf8_valid(slice_of(text));
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        bool c1 = byte == 0xc2 && (unsigned char)at[1] < 0xa0;
        bool strange = byte < 0x20 || byte == 0x7f || (byte > 0x7f && !utf8);
        line_add(line, strange || c1 ? "?" : at, 1);
        if (c1 && utf8) at++;
    }
}

/* Cuts between characters. */
static void text_keep(char *out, size_t size, const char *text, size_t len)
{
    if (len > size - 1) {
        len = size - 1;
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80) len--;
    }
    memcpy(out, text, len);
    out[len] = '\0';
}

static void line_keep(enum log_level level, uint64_t at_ms, const char *room, const char *message)
{
    struct line readable;
    readable.len = 0;
    line_add_readable(&readable, message);
    pthread_mutex_lock(&kept_lock);
    kept_last++;
    struct log_kept *line = &kept[kept_last % LOG_KEPT];
    line->id = kept_last;
    line->at_ms = at_ms;
    line->level = level;
    text_keep(line->room, sizeof line->room, room, strlen(room));
    text_keep(line->message, sizeof line->message, readable.bytes, readable.len);
    pthread_mutex_unlock(&kept_lock);
}

size_t log_tail(const struct log_ask *ask, struct log_kept *out)
{
    size_t count = 0;
    pthread_mutex_lock(&kept_lock);
    uint64_t id = ask->before == 0 || ask->before > kept_last ? kept_last : ask->before - 1;
    for (; id > 0 && id + LOG_KEPT > kept_last && count < ask->max; id--) {
        if (kept[id % LOG_KEPT].level >= ask->level) out[count++] = kept[id % LOG_KEPT];
    }
    pthread_mutex_unlock(&kept_lock);
    return count;
}

void log_line(enum log_level level, const char *room, const char *format, ...)
{
    if (!log_speaks(level)) return;

    /* The caller may be about to tell of an error: what it finds in errno is not ours to change. */
    int errno_kept = errno;
    char message[MESSAGE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (len < 0) message[0] = '\0';

    char time[TIME_TEXT_BYTES + 1];
    uint64_t now_ms = wall_ms();
    time_to_text(time, now_ms);
    line_keep(level, now_ms, room, message);
    if (atomic_load_explicit(&kept_only, memory_order_relaxed)) {
        errno = errno_kept;
        return;
    }

    struct line line;
    line.len = 0;
    if (isatty(STDERR_FILENO)) {
        line_add_text(&line, time);
        line_add_text(&line, " ");
        line_add_text(&line, words[level]);
        line_add_text(&line, " ");
        line_add_text(&line, room);
        line_add_text(&line, ": ");
        line_add_readable(&line, message);
    } else {
        line_add_text(&line, "{\"time\":\"");
        line_add_text(&line, time);
        line_add_text(&line, "\",\"level\":\"");
        line_add_text(&line, words[level]);
        line_add_text(&line, "\",\"room\":\"");
        line_add_escaped(&line, room);
        line_add_text(&line, "\",\"message\":\"");
        line_add_escaped(&line, message);
        line_add_text(&line, "\"}");
    }
    line_add_text(&line, "\n");

    /* One write for one line, so that lines of several threads never mix. There is nobody to tell if it fails. */
    ssize_t ignored = write(STDERR_FILENO, line.bytes, line.len);
    (void)ignored;
    errno = errno_kept;
}
