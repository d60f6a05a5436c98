/* log: levelled lines on standard error; text on a terminal, JSON lines elsewhere. Any thread. Never a secret. */
#ifndef STAMPEDE_BASE_LOG_H
#define STAMPEDE_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

enum log_level log_level_of(const char *word); /* debug, info, warn or error; LOG_INFO for any other */
void log_set_level(enum log_level level);
bool log_speaks(enum log_level level); /* for a line that costs something to make */
void log_line(enum log_level level, const char *room, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define log_debug(room, ...) log_line(LOG_DEBUG, room, __VA_ARGS__)
#define log_info(room, ...) log_line(LOG_INFO, room, __VA_ARGS__)
#define log_warn(room, ...) log_line(LOG_WARN, room, __VA_ARGS__)
#define log_error(room, ...) log_line(LOG_ERROR, room, __VA_ARGS__)

#endif
