/* lines: the options that repeat under a name of the operator's choice, line.NAME.rate and its sisters.
 *
 * Their table is like that of the others (config/options.h), with offsets into struct config_line. They stand in the file
 * and in the environment (STAMPEDE_LINE_NAME_RATE); as flags they would be too many. A NAME is a lower-case letter and then
 * lower-case letters, digits and _; any of its options declares it. */
#ifndef STAMPEDE_CONFIG_LINES_H
#define STAMPEDE_CONFIG_LINES_H

#include "config/options.h"

#define LINE_OPTIONS_COUNT 3
/* A fallback of NULL: there is none, it must be given. */
extern const struct option line_options[LINE_OPTIONS_COUNT];

/* Where an option of a line stands. */
struct line_option {
    uint32_t line;   /* in config->lines */
    uint32_t option; /* in line_options */
};

bool line_option_named(struct slice name); /* begins with "line." */
/* Finds the line of a "line.NAME.option", or declares it with its defaults. False: why says what is wrong with the name. */
bool line_option_find(struct config *config, struct slice name, struct line_option *out, struct config_mistake *why);
bool line_option_set(struct config *config, struct line_option which, struct slice value, struct config_mistake *why);
/* Every STAMPEDE_LINE_NAME_OPTION there is. False: mistake names the variable. */
bool lines_from_environment(struct config *config, struct config_mistake *mistake);
/* False: a line lacks what must be given. */
bool lines_complete(const struct config *config, struct config_mistake *mistake);
bool lines_equal(const struct config *a, const struct config *b);
void lines_help(FILE *out);

#endif
