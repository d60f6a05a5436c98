/* face: how a door answers what the native handlers found out.
 *
 * A handler that a door shares does the same for everyone; only where it would answer natively does it look whether the
 * route has a face, and lets that speak instead. Each of these functions answers the request, once, as a reply_*() does;
 * what it is given is valid until then. A door whose routes never get that far leaves a function out. */
#ifndef STAMPEDE_GATEWAY_FACE_H
#define STAMPEDE_GATEWAY_FACE_H

#include "engine/sale.h"
#include "people/people.h"
#include "wire/problem.h"

#include <stdbool.h>

struct request;

struct face {
    bool token_bare; /* the login may stand in Authorization by itself, without the word Bearer */
    /* Every refusal, also the guard's. detail NULL: the problem's own. */
    void (*problem)(struct request *request, enum problem problem, const char *detail);
    /* Of grabs: won, also when it is asked again with its key; and won before, with the order that was. */
    void (*won)(struct request *request, const struct order *order);
    void (*already)(struct request *request, const struct order *order);
    void (*registered)(struct request *request, const struct people_request *people);
    void (*logged_in)(struct request *request, const struct people_request *people);
    void (*logged_out)(struct request *request);
    void (*created)(struct request *request, const struct sale *sale);
};

#endif
