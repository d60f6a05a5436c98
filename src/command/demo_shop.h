/* demo_shop: a real server in a temporary folder, as a process of its own that ends with ours whatever happens to us, and
 * the people and sales that a demonstration needs. One thread. What goes wrong has been said on standard error. */
#ifndef STAMPEDE_COMMAND_DEMO_SHOP_H
#define STAMPEDE_COMMAND_DEMO_SHOP_H

#include "command/command.h"
#include "command/demo_call.h"
#include "command/demo_folder.h"

#include <sys/types.h>

#define DEMO_PASSWORD_BYTES 13

struct demo_shop {
    /* In: what the sale is, and where to listen. */
    const char *http;
    uint32_t stock, open_in_s, pay_within_s;
    /* Out. */
    char folder[DEMO_PATH_BYTES], data[DEMO_PATH_BYTES + 8]; /* empty: there is none any more */
    struct command_places places;                            /* of the ledger in it; so a shop is not to be moved */
    char base[CALL_URL_BYTES / 2];                           /* http://HOST:PORT, as a browser here is to ask it */
    char password[DEMO_PASSWORD_BYTES];                      /* of admin, seller and buyer */
    char sale[21];                                           /* its id */
    uint64_t opens_ms;                                       /* wall time */
    pid_t pid;                                               /* 0: no server runs */
    struct call call;                                        /* for the few requests that are waited for */
};

/* Whether the person at the terminal has said stop. */
bool demo_interrupted(void);

bool demo_shop_start(struct demo_shop *shop);
bool demo_shop_open_sales(struct demo_shop *shop); /* registers seller and buyer, makes the sales */
/* False: it has ended, though nobody told it to. Says so, with the end of its log, once. */
bool demo_shop_alive(struct demo_shop *shop);
bool demo_shop_stop(struct demo_shop *shop); /* false: it did not end as a server should */
void demo_shop_remove(struct demo_shop *shop);
/* The sale as the server tells it. */
bool demo_shop_look(struct demo_shop *shop, struct call_sale *out);

#endif
