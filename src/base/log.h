/* log: levelled lines on standard error; text on a terminal, JSON lines elsewhere. Any thread. Never a secret.
 *
 * The last LOG_KEPT lines stay in memory as well, for whoever runs the server and cannot see where they go. */
#ifndef STAMPEDE_BASE_LOG_H
#define STAMPEDE_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

enum log_level log_level_of(const char *word); /* debug, info, warn or error; LOG_INFO for any other */
void log_set_level(enum log_level level);
void log_keep_only(bool on); /* while on, lines are kept, below, and not written: a command tells them its own way */
bool log_speaks(enum log_level level); /* for a line that costs something to make */
void log_line(enum log_level level, const char *room, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define LOG_KEPT 512
#define LOG_KEPT_BYTES 400 /* of a message; what is longer is cut */
struct log_kept {
    uint64_t id; /* from 1 at the start, one more for each line */
    uint64_t at_ms;
    enum log_level level;
    char room[16];
    char message[LOG_KEPT_BYTES + 1]; /* valid UTF-8 without control characters */
};
struct log_ask {
    uint64_t before;      /* lines before the one of this id; 0: the last ones */
    enum log_level level; /* this and above */
    size_t max;
};
/* Copies lines, the newest first; how many. */
size_t log_tail(const struct log_ask *ask, struct log_kept *out);
const char *log_level_word(enum log_level level);

#define log_debug(room, ...) log_line(LOG_DEBUG, room, __VA_ARGS__)
#define log_info(room, ...) log_line(LOG_INFO, room, __VA_ARGS__)
#define log_warn(room, ...) log_line(LOG_WARN, room, __VA_ARGS__)
#define log_error(room, ...) log_line(LOG_ERROR, room, __VA_ARGS__)

#endif
