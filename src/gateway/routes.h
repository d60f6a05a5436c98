/* routes: every way in is a row. A route is closed unless its row opens it to a role (P8). */
#ifndef STAMPEDE_GATEWAY_ROUTES_H
#define STAMPEDE_GATEWAY_ROUTES_H

#include "base/slice.h"
#include "wire/http.h"

#include <stdio.h>

struct request;

/* Who may enter. ADMITTED: the sale itself says (its admission), the handler checks. */
enum {
    WHO_CUSTOMER = 1 << 0,
    WHO_SELLER = 1 << 1,
    WHO_ADMIN = 1 << 2,
    WHO_ANYONE = 1 << 3,
    WHO_ADMITTED = 1 << 4,
    WHO_USER = WHO_CUSTOMER | WHO_SELLER | WHO_ADMIN,
};

struct route {
    enum http_method method;
    const char *path; /* {name} stands for one segment; a route has one at most */
    unsigned who;
    void (*handler)(struct request *request);
};

/* NULL if there is none; *path_known is then whether another method has the path, and allow gets those methods. */
const struct route *route_find(enum http_method method, struct slice path, struct slice *id_text, char allow[64]);
/* One line a route: METHOD PATH ROLES. */
void routes_print(FILE *out);

#endif
