#include "config/config.h"

#include "base/address.h"
#include "base/slice.h"
#include "config/lines.h"
#include "config/options.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A path may fill a whole value; the rest of a line is its name and a comment. */
#define LINE_BYTES_MAX (2 * CONFIG_TEXT_BYTES)
#define ENVIRONMENT_PREFIX "STAMPEDE_"

/* A file as it is read. With a report, every mistake is told; without, reading ends at the first. */
struct reading {
    struct config *config;
    const char *path;
    FILE *report;
    struct config_mistake *first;
    int mistakes;
    unsigned line;
    unsigned lines_seen[OPTIONS_COUNT]; /* where each option was given; 0 if it was not */
    unsigned named_seen[LINES_DECLARED_MAX][LINE_OPTIONS_COUNT];
};

static void __attribute__((format(printf, 2, 3))) mistake_say(struct config_mistake *mistake, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(mistake->text, sizeof(mistake->text), format, args);
    va_end(args);
}

static void reading_object(struct reading *reading, const char *what)
{
    struct config_mistake mistake;
    mistake_say(&mistake, "%.200s line %u: %.280s", reading->path, reading->line, what);
    if (reading->report != NULL) fprintf(reading->report, "%s\n", mistake.text);
    if (reading->mistakes++ == 0) *reading->first = mistake;
}

static void unknown_say(struct config_mistake *mistake, struct slice name, char dash)
{
    char near[64];
    const char *nearest = option_nearest(name);
    int len = name.len > 64 ? 64 : (int)name.len;
    if (nearest == NULL) {
        mistake_say(mistake, "there is no option %.*s", len, name.data);
        return;
    }
    snprintf(near, sizeof(near), "%s%s", dash == '-' ? "--" : "", nearest);
    for (char *at = near; *at != '\0'; at++) *at = *at == '_' ? dash : *at;
    mistake_say(mistake, "there is no option %.*s; did you mean %s?", len, name.data, near);
}

static struct slice trim(struct slice text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.data[0]) != NULL) text = (struct slice){ text.data + 1, text.len - 1 };
    while (text.len > 0 && strchr(" \t\r\n", text.data[text.len - 1]) != NULL) text.len--;
    return text;
}

/* A # begins a comment at the start of a line or after a space; within a word it is a letter, as in a path. */
static struct slice uncomment(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '#' && (i == 0 || text.data[i - 1] == ' ' || text.data[i - 1] == '\t')) text.len = i;
    }
    return text;
}

/* False if the option was given before, which is then told. */
static bool reading_first(struct reading *reading, unsigned *seen, struct slice name)
{
    if (*seen == 0) {
        *seen = reading->line;
        return true;
    }
    struct config_mistake why;
    mistake_say(&why, "%.*s was given before, in line %u", (int)name.len, name.data, *seen);
    reading_object(reading, why.text);
    return false;
}

/* line.NAME.rate and its sisters. */
static void reading_named(struct reading *reading, struct slice name, struct slice value)
{
    struct config_mistake why;
    struct line_option which;
    if (!line_option_find(reading->config, name, &which, &why)) {
        reading_object(reading, why.text);
        return;
    }
    if (!reading_first(reading, &reading->named_seen[which.line][which.option], name)) return;
    if (!line_option_set(reading->config, which, value, &why)) reading_object(reading, why.text);
}

static void reading_line(struct reading *reading, struct slice text)
{
    if (text.len > LINE_BYTES_MAX) {
        reading_object(reading, "the line is too long");
        return;
    }
    if (memchr(text.data, '\0', text.len) != NULL) {
        reading_object(reading, "the line has a NUL byte");
        return;
    }
    text = trim(uncomment(text));
    if (text.len == 0) return;

    const char *equals = memchr(text.data, '=', text.len);
    if (equals == NULL) {
        reading_object(reading, "a line is \"name = value\"");
        return;
    }
    size_t name_len = (size_t)(equals - text.data);
    struct slice name = trim((struct slice){ text.data, name_len });
    struct slice value = trim((struct slice){ equals + 1, text.len - name_len - 1 });

    if (line_option_named(name)) {
        reading_named(reading, name, value);
        return;
    }
    struct config_mistake why;
    const struct option *option = option_find(name, '_');
    if (option == NULL) {
        unknown_say(&why, name, '_');
        reading_object(reading, why.text);
        return;
    }
    if (!reading_first(reading, &reading->lines_seen[option - options], name)) return;
    if (!option_set(reading->config, option, value, &why)) reading_object(reading, why.text);
}

/* Whether the Redis protocol is off or answers this machine only. */
static bool resp_is_ours_alone(const struct config *config)
{
    struct address address;
    uint16_t port;
    struct network v4, v6;
    if (!address_parse_port(&address, &port, slice_of(config->resp))) return true;
    const char *wrong = network_read(&v4, SLICE("127.0.0.0/8"));
    if (wrong == NULL) wrong = network_read(&v6, SLICE("::1"));
    assert(wrong == NULL);
    return network_has(&v4, &address) || network_has(&v6, &address);
}

/* What no option can know by itself. */
static bool config_agrees(const struct config *config, struct config_mistake *mistake)
{
    if ((config->tls_cert[0] == '\0') != (config->tls_key[0] == '\0')) {
        mistake_say(mistake, "tls_cert and tls_key are given together or not at all");
        return false;
    }
    int given = (config->identity_keys[0] != '\0') + (config->identity_issuer[0] != '\0') +
                (config->identity_audience[0] != '\0');
    if (given != 0 && given != 3) {
        mistake_say(mistake, "identity_keys, identity_issuer and identity_audience are given together or not at all");
        return false;
    }
    if (config->resp_accounts[0] == '\0' && !resp_is_ours_alone(config)) {
        mistake_say(mistake,
                    "resp = %s can be reached from other machines, and nobody has to say a password there: name "
                    "a file of passwords in resp_accounts, or listen on 127.0.0.1",
                    config->resp);
        return false;
    }
    if (config->webhook_retry_ms_min > config->webhook_retry_ms_max) {
        mistake_say(mistake, "webhook_retry_ms_min is longer than webhook_retry_ms_max: the first wait is the shortest");
        return false;
    }
    return lines_complete(config, mistake);
}

/* False if the file cannot be read, which *first then says; mistakes in it are counted in reading. */
static bool reading_run(struct reading *reading)
{
    FILE *file = fopen(reading->path, "re");
    if (file == NULL) {
        mistake_say(reading->first, "%.200s: %s", reading->path, strerror(errno));
        return false;
    }
    char *line = NULL;
    size_t size = 0;
    ssize_t len;
    while ((len = getline(&line, &size, file)) >= 0 && (reading->report != NULL || reading->mistakes == 0)) {
        /* Some editors begin a file with a mark of its encoding, which nobody sees. */
        size_t unseen = reading->line++ == 0 && strncmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        reading_line(reading, (struct slice){ line + unseen, (size_t)len - unseen });
    }
    bool whole = ferror(file) == 0;
    if (!whole) mistake_say(reading->first, "%.200s: %s", reading->path, strerror(errno));
    free(line);
    fclose(file);
    return whole;
}

static void config_defaults(struct config *config)
{
    *config = (struct config){ 0 };
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        struct config_mistake why;
        bool fits = option_set(config, &options[i], slice_of(options[i].fallback), &why);
        assert(fits);
    }
}

static bool environment_apply(struct config *config, struct config_mistake *mistake)
{
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof(name), ENVIRONMENT_PREFIX "%s", options[i].name);
        for (char *at = name; *at != '\0'; at++) *at = *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;

        const char *value = getenv(name);
        struct config_mistake why;
        if (value == NULL || option_set(config, &options[i], slice_of(value), &why)) continue;
        mistake_say(mistake, "environment %s: %.400s", name, why.text);
        return false;
    }
    return true;
}

/* One flag: its name without dashes and its value, from "--name=value" or "--name" "value". */
struct flag {
    struct slice name;
    const char *value; /* NULL: it has none */
};

/* Moves *at past the flag. False if what stands there is not one. */
static bool flag_take(int argc, char **argv, int *at, struct flag *out)
{
    const char *text = argv[*at];
    if (strncmp(text, "--", 2) != 0 || text[2] == '\0') return false;
    ++*at;
    text += 2;
    size_t len = strcspn(text, "=");
    out->name = (struct slice){ text, len };
    if (text[len] == '=') {
        out->value = text + len + 1;
    } else {
        out->value = *at < argc ? argv[(*at)++] : NULL;
    }
    return true;
}

static bool flags_apply(struct config *config, int argc, char **argv, struct config_mistake *mistake)
{
    bool seen[OPTIONS_COUNT + 1] = { false }; /* the last is --config, which config_file() has read */
    struct config_mistake why;
    int at = 0;
    while (at < argc) {
        struct flag flag;
        if (!flag_take(argc, argv, &at, &flag)) {
            mistake_say(mistake, "%.100s is not a flag: flags begin with two dashes", argv[at]);
            return false;
        }
        int len = flag.name.len > 64 ? 64 : (int)flag.name.len;
        const struct option *option = option_find(flag.name, '-');
        bool config_flag = slice_is(flag.name, "config");
        if (option == NULL && !config_flag) {
            unknown_say(&why, flag.name, '-');
            mistake_say(mistake, "flag --%.*s: %.400s", len, flag.name.data, why.text);
            return false;
        }
        if (flag.value == NULL) {
            mistake_say(mistake, "flag --%.*s: its value is missing", len, flag.name.data);
            return false;
        }
        bool *given = &seen[config_flag ? OPTIONS_COUNT : option - options];
        if (*given) {
            mistake_say(mistake, "flag --%.*s: it was given before", len, flag.name.data);
            return false;
        }
        *given = true;
        if (!config_flag && !option_set(config, option, slice_of(flag.value), &why)) {
            mistake_say(mistake, "flag --%.*s: %.400s", len, flag.name.data, why.text);
            return false;
        }
    }
    return true;
}

/* Where systemd, and our image, put the secrets that were handed to this process. */
static bool secrets_place(struct config *config, struct config_mistake *mistake)
{
    const char *folder = getenv("CREDENTIALS_DIRECTORY");
    if (folder == NULL || folder[0] == '\0') return true;
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        char *path = (char *)config + options[i].offset, given[CONFIG_TEXT_BYTES];
        if (!options[i].secret || path[0] == '\0' || path[0] == '/') continue;
        memcpy(given, path, sizeof given);
        if (snprintf(path, CONFIG_TEXT_BYTES, "%s/%s", folder, given) < CONFIG_TEXT_BYTES) continue;
        mistake_say(mistake, "%s: its path under CREDENTIALS_DIRECTORY is too long", options[i].name);
        return false;
    }
    return true;
}

enum fault config_load(struct config *out, const char *file, int argc, char **argv, struct config_mistake *mistake)
{
    config_defaults(out);
    if (file != NULL) {
        struct reading reading = { .config = out, .path = file, .first = mistake };
        if (!reading_run(&reading) || reading.mistakes > 0) return FAULT_CONFIG;
    }
    if (!environment_apply(out, mistake) || !lines_from_environment(out, mistake)) return FAULT_CONFIG;
    if (!flags_apply(out, argc, argv, mistake) || !secrets_place(out, mistake)) return FAULT_CONFIG;
    return config_agrees(out, mistake) ? FAULT_NONE : FAULT_CONFIG;
}

int config_check(const char *file, FILE *report)
{
    struct config config;
    struct config_mistake first;
    config_defaults(&config);
    struct reading reading = { .config = &config, .path = file, .report = report, .first = &first };
    if (!reading_run(&reading)) {
        fprintf(report, "%s\n", first.text);
        return -1;
    }
    if (!config_agrees(&config, &first)) {
        fprintf(report, "%s: %s\n", file, first.text);
        reading.mistakes++;
    }
    return reading.mistakes;
}

static const char *kind_word(enum option_kind kind)
{
    switch (kind) {
    case OPTION_INTEGER:
        return "N";
    case OPTION_CHOICE:
        return "WORD";
    case OPTION_ADDRESS:
        return "ADDR:PORT";
    case OPTION_TEXT:
        return "TEXT";
    case OPTION_PATH:
        return "PATH";
    }
    return "";
}

void config_help(FILE *out)
{
    fprintf(out, "  --config PATH\n      A file of \"name = value\" lines, names as below with _ for -. Default: none.\n");
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const struct option *option = &options[i];
        fputs("  --", out);
        for (const char *at = option->name; *at != '\0'; at++) fputc(*at == '_' ? '-' : *at, out);
        fprintf(out, " %s\n      %s", kind_word(option->kind), option->help);
        if (option->kind == OPTION_INTEGER) fprintf(out, " %lld to %lld.", (long long)option->min, (long long)option->max);
        if (option->kind == OPTION_CHOICE) fprintf(out, " One of: %s.", option->choices);
        fprintf(out, " Default: %s.\n", option->fallback[0] != '\0' ? option->fallback : "empty");
    }
    lines_help(out);
}

const char *config_file(int argc, char **argv)
{
    const char *file = getenv(ENVIRONMENT_PREFIX "CONFIG");
    if (file != NULL && file[0] == '\0') file = NULL;
    struct flag flag;
    for (int at = 0; at < argc && flag_take(argc, argv, &at, &flag);) {
        if (slice_is(flag.name, "config")) file = flag.value;
    }
    return file;
}

int config_reload(struct config *running, const struct config *fresh, struct config_mistake *kept)
{
    int taken = 0;
    kept->text[0] = '\0';
    for (size_t i = 0; i < OPTIONS_COUNT; i++) {
        const struct option *option = &options[i];
        if (option_equal(running, fresh, option)) continue;
        if (option->reloads) {
            option_copy(running, fresh, option);
            taken++;
            continue;
        }
        size_t len = strlen(kept->text);
        snprintf(kept->text + len, sizeof(kept->text) - len, "%s%s", len > 0 ? ", " : "", option->name);
    }
    if (!lines_equal(running, fresh)) {
        memcpy(running->lines, fresh->lines, sizeof(running->lines));
        running->lines_count = fresh->lines_count;
        taken++;
    }
    return taken;
}
