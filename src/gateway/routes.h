/* routes: every way in is a row. A route is closed unless its row opens it to a role (P8). */
#ifndef STAMPEDE_GATEWAY_ROUTES_H
#define STAMPEDE_GATEWAY_ROUTES_H

#include "base/slice.h"
#include "guard/allowance.h"
#include "wire/http.h"

#include <stdio.h>

struct face;
struct request;

/* Who may enter. ADMITTED: the sale itself says (its admission), the handler checks. SIGNED: anyone whose message is signed
 * by the payment provider, the handler checks. */
enum {
    WHO_CUSTOMER = 1 << 0,
    WHO_SELLER = 1 << 1,
    WHO_ADMIN = 1 << 2,
    WHO_ANYONE = 1 << 3,
    WHO_ADMITTED = 1 << 4,
    WHO_BLOCKED = 1 << 5, /* the guard does not look at all: also whoever is on the block list */
    WHO_SIGNED = 1 << 6,
    WHO_IN_LINE = 1 << 7, /* a heartbeat: no breaker stands before it, for whoever is not heard of loses their place */
    WHO_USER = WHO_CUSTOMER | WHO_SELLER | WHO_ADMIN,
};

#define ROUTE_IDS_MAX 2

struct route {
    enum http_method method;
    const char *path; /* {name} stands for one segment; a route has ROUTE_IDS_MAX at most */
    unsigned who;
    enum rate_class class; /* what the guard counts it as; RATE_CLASSES: it is not counted */
    void (*handler)(struct request *request);
    const struct face *face; /* of a door or a page: how it answers; NULL: natively */
};

/* The rows of the doors that are open, and of the pages; the native ones are always there. */
struct route_table {
    const struct route *routes;
    size_t count;
    const char *prefix;      /* of a door: the segment that all its paths begin with, as /api; NULL: it is none */
    const struct face *face; /* and how it answers below that where there is no route */
};
#define ROUTE_TABLES_MAX 8
struct route_tables {
    struct route_table tables[ROUTE_TABLES_MAX];
    size_t count;
};

/* NULL if there is none; allow then gets the methods that the path has. ids gets what stands for each {name}, in order, and
 * is empty from there on. */
const struct route *route_find(const struct route_tables *doors, enum http_method method, struct slice path,
                               struct slice ids[ROUTE_IDS_MAX], char allow[64]);
/* How the door whose prefix the path has answers a request that reaches no handler: as its route of that path does, whatever
 * the method was, else as the door. NULL: it is no door's. */
const struct face *route_face(const struct route_tables *doors, struct slice path);
bool route_path_matches(const char *pattern, struct slice path, struct slice ids[ROUTE_IDS_MAX]);
const char *method_word(enum http_method method); /* GET, …; "" for one that we do not know */
/* One line a route: METHOD PATH ROLES. */
void routes_print(const struct route_tables *doors, FILE *out);

#endif
