#include "config/lines.h"

#include "base/text.h"
#include "bounds.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "line."
#define ENVIRONMENT_PREFIX "STAMPEDE_LINE_"
/* "line.", the longest name, and the longest option with its dot. */
#define FULL_NAME_BYTES (sizeof PREFIX + LINE_NAME_BYTES_MAX + 16)

#define WHOLE(field, high) .kind = OPTION_INTEGER, .offset = offsetof(struct config_line, field), .min = 1, .max = (high)

/* clang-format off */
const struct option line_options[LINE_OPTIONS_COUNT] = {
    { "rate", WHOLE(rate, LINE_RATE_MAX), .fallback = NULL, .reloads = true,
      .help = "How many a second the line lets through." },
    { "size", WHOLE(size, LINE_SIZE_MAX), .fallback = "10000", .reloads = true,
      .help = "How many may wait in it at once; those beyond are answered BUSY." },
    { "timeout_ms", WHOLE(timeout_ms, LINE_TIMEOUT_MS_MAX), .fallback = "30000", .reloads = true,
      .help = "How long one may wait in it before LINE_TIMEOUT." },
};
/* clang-format on */

static int64_t *field_of(struct config_line *line, uint32_t option)
{
    return (int64_t *)(void *)((char *)line + line_options[option].offset);
}

static bool letter_is_lower(char letter)
{
    return letter >= 'a' && letter <= 'z';
}

static bool name_is_good(struct slice name)
{
    if (name.len < 1 || name.len > LINE_NAME_BYTES_MAX || !letter_is_lower(name.data[0])) return false;
    for (size_t i = 1; i < name.len; i++) {
        char letter = name.data[i];
        if (!letter_is_lower(letter) && !(letter >= '0' && letter <= '9') && letter != '_') return false;
    }
    return true;
}

bool line_option_named(struct slice name)
{
    return name.len >= strlen(PREFIX) && memcmp(name.data, PREFIX, strlen(PREFIX)) == 0;
}

/* The line of this name in config->lines, which gets it if it is new. False: there are too many. */
static bool line_declare(struct config *config, struct slice name, uint32_t *out)
{
    for (uint32_t i = 0; i < config->lines_count; i++) {
        *out = i;
        if (slice_is(name, config->lines[i].name)) return true;
    }
    if (config->lines_count == LINES_DECLARED_MAX) return false;
    *out = (uint32_t)config->lines_count++;
    struct config_line *line = &config->lines[*out];
    memcpy(line->name, name.data, name.len);
    line->name[name.len] = '\0';
    for (uint32_t i = 0; i < LINE_OPTIONS_COUNT; i++) {
        uint64_t number = 0;
        const char *fallback = line_options[i].fallback;
        bool fits = fallback == NULL || text_to_u64(slice_of(fallback), &number);
        assert(fits);
        *field_of(line, i) = (int64_t)number;
    }
    return true;
}

static int shown(struct slice text)
{
    return text.len > 64 ? 64 : (int)text.len;
}

bool line_option_find(struct config *config, struct slice name, struct line_option *out, struct config_mistake *why)
{
    struct slice rest = { name.data + strlen(PREFIX), name.len - strlen(PREFIX) };
    const char *dot = memrchr(rest.data, '.', rest.len);
    struct slice line = { rest.data, dot != NULL ? (size_t)(dot - rest.data) : rest.len };
    struct slice option = { dot != NULL ? dot + 1 : "", dot != NULL ? rest.len - line.len - 1 : 0 };

    out->option = 0;
    while (out->option < LINE_OPTIONS_COUNT && !slice_is(option, line_options[out->option].name)) out->option++;
    if (out->option == LINE_OPTIONS_COUNT) {
        snprintf(why->text, sizeof(why->text), "there is no option %.*s; a line has line.NAME.rate, .size and .timeout_ms",
                 shown(name), name.data);
        return false;
    }
    if (!name_is_good(line)) {
        snprintf(why->text, sizeof(why->text),
                 "%.*s: the name of a line is a lower-case letter, then letters, digits and _, %d at most", shown(name),
                 name.data, LINE_NAME_BYTES_MAX);
        return false;
    }
    if (line_declare(config, line, &out->line)) return true;
    snprintf(why->text, sizeof(why->text), "%.*s: there are %d lines already, and there can be no more", shown(name),
             name.data, LINES_DECLARED_MAX);
    return false;
}

bool line_option_set(struct config *config, struct line_option which, struct slice value, struct config_mistake *why)
{
    const struct option *option = &line_options[which.option];
    struct config_line *line = &config->lines[which.line];
    uint64_t number;
    if (text_to_u64(value, &number) && number >= (uint64_t)option->min && number <= (uint64_t)option->max) {
        *field_of(line, which.option) = (int64_t)number;
        return true;
    }
    snprintf(why->text, sizeof(why->text), "line.%s.%s is a whole number from %" PRId64 " to %" PRId64, line->name,
             option->name, option->min, option->max);
    return false;
}

/* STAMPEDE_LINE_FRONT_DOOR_RATE is line.front_door.rate: the option is what the variable ends in. False where it ends in
 * none, which is no mistake: a cluster puts names of its own there. */
static bool name_from_variable(struct slice variable, char out[FULL_NAME_BYTES])
{
    struct slice text = { variable.data + strlen(ENVIRONMENT_PREFIX), variable.len - strlen(ENVIRONMENT_PREFIX) };
    for (uint32_t i = 0; i < LINE_OPTIONS_COUNT; i++) {
        size_t len = strlen(line_options[i].name);
        if (text.len < len + 2 || text.len - len - 1 > LINE_NAME_BYTES_MAX) continue;
        size_t name_len = text.len - len - 1;
        snprintf(out, FULL_NAME_BYTES, PREFIX "%.*s", (int)text.len, text.data);
        for (char *at = out + strlen(PREFIX); *at != '\0'; at++)
            *at = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
        char *dot = out + strlen(PREFIX) + name_len;
        if (*dot != '_' || strcmp(dot + 1, line_options[i].name) != 0) continue;
        *dot = '.';
        return true;
    }
    return false;
}

bool lines_from_environment(struct config *config, struct config_mistake *mistake)
{
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        const char *equals = strchr(*at, '=');
        if (equals == NULL || strncmp(*at, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) != 0) continue;
        struct slice variable = { *at, (size_t)(equals - *at) };
        char name[FULL_NAME_BYTES];
        if (!name_from_variable(variable, name)) continue;

        struct line_option which;
        struct config_mistake why;
        if (line_option_find(config, slice_of(name), &which, &why) &&
            line_option_set(config, which, slice_of(equals + 1), &why))
            continue;
        snprintf(mistake->text, sizeof(mistake->text), "environment %.*s: %.400s", shown(variable), variable.data, why.text);
        return false;
    }
    return true;
}

bool lines_complete(const struct config *config, struct config_mistake *mistake)
{
    for (uint32_t i = 0; i < config->lines_count; i++) {
        if (config->lines[i].rate != 0) continue;
        snprintf(mistake->text, sizeof(mistake->text), "line.%s.rate is missing: a line must say its rate",
                 config->lines[i].name);
        return false;
    }
    return true;
}

bool lines_equal(const struct config *a, const struct config *b)
{
    if (a->lines_count != b->lines_count) return false;
    for (uint32_t i = 0; i < a->lines_count; i++) {
        const struct config_line *left = &a->lines[i], *right = &b->lines[i];
        if (strcmp(left->name, right->name) != 0 || left->rate != right->rate || left->size != right->size ||
            left->timeout_ms != right->timeout_ms)
            return false;
    }
    return true;
}

void lines_help(FILE *out)
{
    for (uint32_t i = 0; i < LINE_OPTIONS_COUNT; i++) {
        const struct option *option = &line_options[i];
        fprintf(out, "  line.NAME.%s (file and environment)\n      %s %" PRId64 " to %" PRId64 ".", option->name,
                option->help, option->min, option->max);
        if (option->fallback != NULL) fprintf(out, " Default: %s.", option->fallback);
        fputc('\n', out);
    }
}
