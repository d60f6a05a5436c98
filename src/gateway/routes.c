#include "gateway/routes.h"

#include "gateway/resources.h"

#include <assert.h>

/* The grab stands first: it is looked for most. */
static const struct route routes[] = {
    { HTTP_POST_, "/v1/sales/{sale}/grabs", WHO_ADMITTED, RATE_GRAB, grab_post },
    { HTTP_POST_, "/v1/sales/{sale}/tokens", WHO_CUSTOMER, RATE_WRITE, tokens_post },
    { HTTP_GET_, "/v1/sales/{sale}", WHO_ANYONE, RATE_QUERY, sale_get },
    { HTTP_GET_, "/v1/orders/{order}", WHO_USER, RATE_QUERY, order_get },
    { HTTP_GET_, "/v1/sales", WHO_ANYONE, RATE_QUERY, sales_get },
    { HTTP_GET_, "/v1/orders", WHO_USER, RATE_QUERY, orders_get },
    { HTTP_POST_, "/v1/payments", WHO_ANYONE | WHO_SIGNED, RATE_WRITE, payments_post },
    { HTTP_POST_, "/v1/orders/{order}/cancel", WHO_USER, RATE_WRITE, cancel_post },
    { HTTP_POST_, "/v1/users", WHO_ANYONE, RATE_REGISTER, users_post },
    { HTTP_POST_, "/v1/login", WHO_ANYONE, RATE_LOGIN, login_post },
    { HTTP_POST_, "/v1/logout", WHO_USER, RATE_WRITE, logout_post },
    { HTTP_POST_, "/v1/sales", WHO_SELLER | WHO_ADMIN, RATE_WRITE, sales_post },
    { HTTP_PATCH_, "/v1/sales/{sale}", WHO_SELLER | WHO_ADMIN, RATE_WRITE, sale_patch },
    { HTTP_POST_, "/v1/sales/{sale}/stock", WHO_SELLER | WHO_ADMIN, RATE_WRITE, stock_post },
    { HTTP_POST_, "/v1/sales/{sale}/pause", WHO_SELLER | WHO_ADMIN, RATE_WRITE, pause_post },
    { HTTP_POST_, "/v1/sales/{sale}/resume", WHO_SELLER | WHO_ADMIN, RATE_WRITE, resume_post },
    { HTTP_POST_, "/v1/sales/{sale}/close", WHO_SELLER | WHO_ADMIN, RATE_WRITE, close_post },
    { HTTP_POST_, "/v1/sales/{sale}/line", WHO_CUSTOMER, RATE_WRITE, line_post },
    { HTTP_GET_, "/v1/sales/{sale}/line/{place}", WHO_CUSTOMER | WHO_IN_LINE, RATE_GRAB, place_get },
    { HTTP_DELETE_, "/v1/sales/{sale}/line/{place}", WHO_CUSTOMER, RATE_WRITE, place_delete },
    { HTTP_POST_, "/v1/events", WHO_SELLER | WHO_ADMIN, RATE_WRITE, events_post },
    { HTTP_GET_, "/v1/events", WHO_ANYONE, RATE_QUERY, events_get },
    { HTTP_GET_, "/v1/events/{event}", WHO_ANYONE, RATE_QUERY, event_get },
    { HTTP_PATCH_, "/v1/events/{event}", WHO_SELLER | WHO_ADMIN, RATE_WRITE, event_patch },
    { HTTP_POST_, "/v1/events/{event}/subscribe", WHO_CUSTOMER, RATE_WRITE, subscribe_post },
    { HTTP_DELETE_, "/v1/events/{event}/subscribe", WHO_CUSTOMER, RATE_WRITE, subscribe_delete },
    { HTTP_GET_, "/v1/sales/{sale}/stats", WHO_SELLER | WHO_ADMIN, RATE_QUERY, stats_get },
    { HTTP_GET_, "/v1/sales/{sale}/live", WHO_SELLER | WHO_ADMIN, RATE_QUERY, live_get },
    /* Not counted, or whoever sets a limit too low by mistake could not take it back. */
    { HTTP_GET_, "/v1/limits", WHO_ADMIN, RATE_CLASSES, limits_get },
    { HTTP_PUT_, "/v1/limits", WHO_ADMIN, RATE_CLASSES, limits_put },
    { HTTP_GET_, "/v1/blocks", WHO_ADMIN, RATE_QUERY, blocks_get },
    { HTTP_POST_, "/v1/blocks", WHO_ADMIN, RATE_WRITE, blocks_post },
    { HTTP_DELETE_, "/v1/blocks/{entry}", WHO_ADMIN, RATE_WRITE, block_delete },
    { HTTP_GET_, "/v1/webhook", WHO_SELLER | WHO_ADMIN, RATE_QUERY, webhook_get },
    { HTTP_PUT_, "/v1/webhook", WHO_SELLER | WHO_ADMIN, RATE_WRITE, webhook_put },
    { HTTP_DELETE_, "/v1/webhook", WHO_SELLER | WHO_ADMIN, RATE_WRITE, webhook_delete },
    { HTTP_POST_, "/v1/webhook/test", WHO_SELLER | WHO_ADMIN, RATE_WRITE, webhook_test_post },
    { HTTP_GET_, "/v1/webhook/deliveries", WHO_SELLER | WHO_ADMIN, RATE_QUERY, deliveries_get },
    { HTTP_POST_, "/v1/webhook/deliveries/retry", WHO_SELLER | WHO_ADMIN, RATE_WRITE, deliveries_retry_post },
    { HTTP_POST_, "/v1/webhook/deliveries/{delivery}/retry", WHO_SELLER | WHO_ADMIN, RATE_WRITE, delivery_retry_post },
    { HTTP_GET_, "/healthz", WHO_ANYONE | WHO_BLOCKED, RATE_CLASSES, health_get },
    { HTTP_GET_, "/readyz", WHO_ANYONE | WHO_BLOCKED, RATE_CLASSES, ready_get },
    { HTTP_GET_, "/metrics", WHO_ANYONE | WHO_BLOCKED, RATE_CLASSES, metrics_get },
    { HTTP_GET_, "/openapi.yaml", WHO_ANYONE, RATE_QUERY, openapi_get },
};

static const char *const method_words[] = { "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "" };

const char *method_word(enum http_method method)
{
    assert((size_t)method < sizeof method_words / sizeof *method_words);
    return method_words[method];
}

bool route_path_matches(const char *pattern, struct slice path, struct slice ids[ROUTE_IDS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < ROUTE_IDS_MAX; i++) ids[i] = (struct slice){ "", 0 };
    const char *at = path.data, *end = path.data + path.len;
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '{') {
            const char *begin = at;
            while (at < end && *at != '/') at++;
            if (at == begin) return false;
            assert(count < ROUTE_IDS_MAX);
            ids[count++] = (struct slice){ begin, (size_t)(at - begin) };
            while (*pattern != '}') pattern++;
        } else if (at == end || *at++ != *pattern) {
            return false;
        }
    }
    return at == end;
}

static void allow_add(char allow[64], const char *word)
{
    size_t len = strlen(allow);
    snprintf(allow + len, 64 - len, "%s%s", len > 0 ? ", " : "", word);
}

const struct route *route_find(enum http_method method, struct slice path, struct slice ids[ROUTE_IDS_MAX], char allow[64])
{
    allow[0] = '\0';
    if (method == HTTP_HEAD_) method = HTTP_GET_; /* the same answer without its body */
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (!route_path_matches(routes[i].path, path, ids)) continue;
        if (routes[i].method == method) return &routes[i];
        allow_add(allow, method_words[routes[i].method]);
        if (routes[i].method == HTTP_GET_) allow_add(allow, "HEAD");
    }
    return NULL;
}

void routes_print(FILE *out)
{
    static const struct {
        unsigned bit;
        const char *word;
    } words[] = {
        { WHO_ANYONE, "anyone" }, { WHO_CUSTOMER, "customer" }, { WHO_SELLER, "seller" },
        { WHO_ADMIN, "admin" },   { WHO_ADMITTED, "admitted" }, { WHO_SIGNED, "signed" },
    };
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        fprintf(out, "%s %s ", method_words[routes[i].method], routes[i].path);
        const char *comma = "";
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            if (!(routes[i].who & words[w].bit)) continue;
            fprintf(out, "%s%s", comma, words[w].word);
            comma = ",";
        }
        fputc('\n', out);
    }
}
