/* options: the table of everything an operator may set, and the strict reading of one value.
 *
 * A row here is the only place an option is declared: flags, environment, file, help and the check of conf/stampede.conf
 * follow it. */
#ifndef STAMPEDE_CONFIG_OPTIONS_H
#define STAMPEDE_CONFIG_OPTIONS_H

#include "base/slice.h"
#include "config/config.h"

#include <stddef.h>

enum option_kind {
    OPTION_INTEGER, /* an int64_t between min and max */
    OPTION_CHOICE,  /* one of the words in choices */
    OPTION_ADDRESS, /* IPV4:PORT or [IPV6]:PORT; port 0 picks a free one */
    OPTION_PATH,
    OPTION_TEXT,
};

struct option {
    const char *name; /* underscores; a flag has dashes instead */
    enum option_kind kind;
    size_t offset;        /* in struct config */
    const char *fallback; /* the default, as one would write it */
    int64_t min, max;
    const char *choices; /* separated by one space */
    bool reloads;        /* SIGHUP makes a new value count */
    bool secret;         /* a path of a secret: a relative one is of $CREDENTIALS_DIRECTORY where that is set */
    /* Of a text with a form of its own: whether value has it; else mistake is a sentence. NULL: any text will do. */
    bool (*check)(struct slice value, char mistake[256]);
    const char *help; /* one sentence */
};

#define OPTIONS_COUNT 74
extern const struct option options[OPTIONS_COUNT];

/* The row of a name, or NULL. dash is what stands between words: '_' or '-'. */
const struct option *option_find(struct slice name, char dash);
/* The name that was probably meant, or NULL if none is near. */
const char *option_nearest(struct slice name);
/* Stores value. If it is not a value of this option nothing is stored and why says what is. */
bool option_set(struct config *config, const struct option *option, struct slice value, struct config_mistake *why);
void option_copy(struct config *to, const struct config *from, const struct option *option);
bool option_equal(const struct config *a, const struct config *b, const struct option *option);

#endif
