/* problem: every error an HTTP client can get, in one table (RFC 9457). */
#ifndef STAMPEDE_WIRE_PROBLEM_H
#define STAMPEDE_WIRE_PROBLEM_H

#include "wire/json_out.h"

/* code, status, title, default detail (what to do) */
#define PROBLEMS(ROW)                                                                                                       \
    ROW(BAD_INPUT, 400, "Bad input", "The request is not what this route takes; the detail names the field.")               \
    ROW(BAD_REQUEST, 400, "Bad request", "The request is not valid HTTP; the connection is closed.")                        \
    ROW(NOT_LOGGED_IN, 401, "Not logged in", "Log in at POST /v1/login and send Authorization: Bearer TOKEN.")              \
    ROW(TOKEN_EXPIRED, 401, "Login expired", "Log in again at POST /v1/login.")                                             \
    ROW(BAD_LOGIN, 401, "Wrong name or password", "Check the name and the password and try again.")                         \
    ROW(BAD_SIGNATURE, 401, "Bad signature", "Sign the message as the payment provider does; see docs/operations.md.")      \
    ROW(FORBIDDEN, 403, "Not for this role", "This route is not open to the role you are logged in with.")                  \
    ROW(TOKEN_REQUIRED, 403, "Token required",                                                                              \
        "Get a purchase token at POST /v1/sales/{sale}/tokens and send it as token.")                                       \
    ROW(TOKEN_INVALID, 403, "Token invalid",                                                                                \
        "The purchase token is not yours, not of this sale, expired or spent; ask for another.")                            \
    ROW(BLOCKED, 403, "Blocked", "You are on the block list of this shop; ask its operator.")                               \
    ROW(NO_SUCH_ROUTE, 404, "No such route", "See /openapi.yaml for the routes there are.")                                 \
    ROW(NO_SUCH_SALE, 404, "No such sale", "Check the id; GET /v1/sales lists the sales there are.")                        \
    ROW(NO_SUCH_ORDER, 404, "No such order", "Check the number; GET /v1/orders lists your orders.")                         \
    ROW(NO_SUCH_EVENT, 404, "No such event", "Check the id; GET /v1/events lists the events there are.")                    \
    ROW(NO_SUCH_PLACE, 404, "No such place",                                                                                \
        "It was given up or used, or you won all you may, or it is not yours; POST /v1/sales/{sale}/line for more.")        \
    ROW(NO_SUCH_BLOCK, 404, "No such block", "The entry is not on the list; GET /v1/blocks shows those that are.")          \
    ROW(NO_SUCH_WEBHOOK, 404, "No such webhook", "There is none; PUT /v1/webhook makes one.")                               \
    ROW(NO_SUCH_DELIVERY, 404, "No such delivery", "Check the id; GET /v1/webhook/deliveries lists those that failed.")     \
    ROW(METHOD_NOT_ALLOWED, 405, "Method not allowed", "The Allow header lists the methods of this route.")                 \
    ROW(REQUEST_TIMEOUT, 408, "Request too slow", "Send the whole request within the time allowed.")                        \
    ROW(USERNAME_TAKEN, 409, "Name taken", "Choose another username.")                                                      \
    ROW(NAME_TAKEN, 409, "Name taken", "You have a sale of this name; choose another.")                                     \
    ROW(TOO_MANY_SALES, 409, "Too many sales",                                                                              \
        "You have as many upcoming or running sales as one seller may; close one, or wait until one ends.")                 \
    ROW(CLOSED, 409, "Sale closed", "The sale is over.")                                                                    \
    ROW(NOT_OPEN, 409, "Not open yet", "Wait until opens_at of the sale.")                                                  \
    ROW(PAUSED, 409, "Sale paused", "The seller has paused the sale; try again when it is resumed.")                        \
    ROW(NOT_PAUSED, 409, "Sale not paused", "Only a paused sale can be resumed.")                                           \
    ROW(OVER_LIMIT, 409, "Over the limit", "Ask for at most units_per_grab_max units.")                                     \
    ROW(ALREADY_WON, 409, "Already yours", "You have as many orders in this sale as one buyer may; see order.")             \
    ROW(TOO_MANY_RETURNS, 409, "Too many returns",                                                                          \
        "16 orders of yours in this sale were cancelled or have expired: you can win no more in it.")                       \
    ROW(SOLD_OUT, 409, "Sold out", "Fewer units are left than you asked for; nothing was taken.")                           \
    ROW(EVENT_OPEN, 409, "Event is open", "It has opened: it is too late to change it or to subscribe to it.")              \
    ROW(TOO_MANY_TESTS, 409, "Too many tests",                                                                              \
        "Tests you asked for before are still to be sent; see GET /v1/webhook/deliveries?state=pending.")                   \
    ROW(NO_LINE, 409, "No line", "This sale has no line to stand in; see its admission.")                                   \
    ROW(NO_TOKENS_LEFT, 409, "No tokens left", "All purchase tokens of this sale have been handed out.")                    \
    ROW(NO_TOKENS_NEEDED, 409, "No tokens needed", "This sale hands out no purchase tokens; see its admission.")            \
    ROW(NOT_HELD, 409, "Not held", "Only a held order can be cancelled; see its state.")                                    \
    ROW(AMOUNT_MISMATCH, 409, "Wrong amount", "The payment must be of the amount of the order; see order.")                 \
    ROW(ALREADY_PAID, 409, "Already paid", "Another payment was taken for this order: give this one back.")                 \
    ROW(SALE_OPEN, 409, "Sale is open",                                                                                     \
        "While a sale is open only name, description, closes_at (later), tokens_max (more), pay_within_s and line may "     \
        "change.")                                                                                                          \
    ROW(NOT_AVAILABLE, 409, "Not available",                                                                                \
        "No more can be withdrawn than is available, nor more offered than 1000000000.")                                    \
    ROW(BODY_TOO_LARGE, 413, "Body too large", "Send at most 65536 bytes.")                                                 \
    ROW(URI_TOO_LONG, 414, "Address too long", "Shorten the address; the whole head may have 8192 bytes.")                  \
    ROW(UNSUPPORTED_MEDIA_TYPE, 415, "Unsupported media type", "Send JSON with Content-Type: application/json.")            \
    ROW(KEY_REUSED, 422, "Idempotency-Key reused", "This key won with another body; use a new key for a new grab.")         \
    ROW(RATE_LIMITED, 429, "Too fast", "Wait as long as Retry-After says; the RateLimit headers say how much is left.")     \
    ROW(TOO_MANY_TRIES, 429, "Too many tries", "Wait as long as Retry-After says.")                                         \
    ROW(HEAD_TOO_LARGE, 431, "Head too large", "Send at most 64 headers and 8192 bytes of them.")                           \
    ROW(BUSY, 503, "Busy", "Try again after the seconds in Retry-After; nothing was taken.")                                \
    ROW(OUTCOME_UNKNOWN, 503, "Outcome unknown",                                                                            \
        "It may have been done: ask again with the same Idempotency-Key, or look at your orders.")                          \
    ROW(NOT_READY, 503, "Not ready", "The server is starting or stopping; try again shortly.")                              \
    ROW(LINE_TIMEOUT, 504, "Waited too long", "Your turn did not come in time and nothing was taken; try again.")           \
    ROW(FAILED, 500, "Internal error", "Try again; the log of the server says what happened.")

enum problem {
    PROBLEM_NONE = 0,
#define PROBLEM_ENUM(code, ...) PROBLEM_##code,
    PROBLEMS(PROBLEM_ENUM)
#undef PROBLEM_ENUM
        PROBLEM_COUNT
};

int problem_status(enum problem problem);
const char *problem_code(enum problem problem);
const char *problem_detail(enum problem problem); /* the default */
/* Opens the object and writes type, title, status, code, detail (NULL: the default); the caller may add and must end it. */
void problem_begin(struct json_out *out, enum problem problem, const char *detail);

#endif
