#include "gateway/routes.h"

#include "gateway/resources.h"

#include <assert.h>

/* The grab stands first: it is looked for most. */
static const struct route routes[] = {
    { HTTP_POST_, "/v1/sales/{sale}/grabs", WHO_ADMITTED, RATE_GRAB, grab_post, NULL },
    { HTTP_POST_, "/v1/sales/{sale}/tokens", WHO_CUSTOMER, RATE_WRITE, tokens_post, NULL },
    { HTTP_GET_, "/v1/sales/{sale}", WHO_ANYONE, RATE_QUERY, sale_get, NULL },
    { HTTP_GET_, "/v1/orders/{order}", WHO_USER, RATE_QUERY, order_get, NULL },
    { HTTP_GET_, "/v1/sales", WHO_ANYONE, RATE_QUERY, sales_get, NULL },
    { HTTP_GET_, "/v1/orders", WHO_USER, RATE_QUERY, orders_get, NULL },
    { HTTP_POST_, "/v1/payments", WHO_ANYONE | WHO_SIGNED, RATE_WRITE, payments_post, NULL },
    { HTTP_POST_, "/v1/orders/{order}/cancel", WHO_USER, RATE_WRITE, cancel_post, NULL },
    { HTTP_POST_, "/v1/users", WHO_ANYONE, RATE_REGISTER, users_post, NULL },
    { HTTP_POST_, "/v1/login", WHO_ANYONE, RATE_LOGIN, login_post, NULL },
    { HTTP_POST_, "/v1/logout", WHO_USER, RATE_WRITE, logout_post, NULL },
    { HTTP_POST_, "/v1/sales", WHO_SELLER | WHO_ADMIN, RATE_WRITE, sales_post, NULL },
    { HTTP_PATCH_, "/v1/sales/{sale}", WHO_SELLER | WHO_ADMIN, RATE_WRITE, sale_patch, NULL },
    { HTTP_POST_, "/v1/sales/{sale}/stock", WHO_SELLER | WHO_ADMIN, RATE_WRITE, stock_post, NULL },
    { HTTP_POST_, "/v1/sales/{sale}/pause", WHO_SELLER | WHO_ADMIN, RATE_WRITE, pause_post, NULL },
    { HTTP_POST_, "/v1/sales/{sale}/resume", WHO_SELLER | WHO_ADMIN, RATE_WRITE, resume_post, NULL },
    { HTTP_POST_, "/v1/sales/{sale}/close", WHO_SELLER | WHO_ADMIN, RATE_WRITE, close_post, NULL },
    { HTTP_POST_, "/v1/sales/{sale}/warm", WHO_SELLER | WHO_ADMIN, RATE_WRITE, warm_post, NULL },
    { HTTP_POST_, "/v1/sales/{sale}/line", WHO_CUSTOMER, RATE_WRITE, line_post, NULL },
    { HTTP_GET_, "/v1/sales/{sale}/line/{place}", WHO_CUSTOMER | WHO_IN_LINE, RATE_GRAB, place_get, NULL },
    { HTTP_DELETE_, "/v1/sales/{sale}/line/{place}", WHO_CUSTOMER, RATE_WRITE, place_delete, NULL },
    { HTTP_POST_, "/v1/events", WHO_SELLER | WHO_ADMIN, RATE_WRITE, events_post, NULL },
    { HTTP_GET_, "/v1/events", WHO_ANYONE, RATE_QUERY, events_get, NULL },
    { HTTP_GET_, "/v1/events/{event}", WHO_ANYONE, RATE_QUERY, event_get, NULL },
    { HTTP_PATCH_, "/v1/events/{event}", WHO_SELLER | WHO_ADMIN, RATE_WRITE, event_patch, NULL },
    { HTTP_POST_, "/v1/events/{event}/subscribe", WHO_CUSTOMER, RATE_WRITE, subscribe_post, NULL },
    { HTTP_DELETE_, "/v1/events/{event}/subscribe", WHO_CUSTOMER, RATE_WRITE, subscribe_delete, NULL },
    { HTTP_GET_, "/v1/sales/{sale}/stats", WHO_SELLER | WHO_ADMIN, RATE_QUERY, stats_get, NULL },
    { HTTP_GET_, "/v1/sales/{sale}/live", WHO_SELLER | WHO_ADMIN, RATE_QUERY, live_get, NULL },
    /* Not counted, or whoever sets a limit too low by mistake could not take it back. */
    { HTTP_GET_, "/v1/limits", WHO_ADMIN, RATE_CLASSES, limits_get, NULL },
    { HTTP_PUT_, "/v1/limits", WHO_ADMIN, RATE_CLASSES, limits_put, NULL },
    { HTTP_GET_, "/v1/blocks", WHO_ADMIN, RATE_QUERY, blocks_get, NULL },
    { HTTP_POST_, "/v1/blocks", WHO_ADMIN, RATE_WRITE, blocks_post, NULL },
    { HTTP_DELETE_, "/v1/blocks/{entry}", WHO_ADMIN, RATE_WRITE, block_delete, NULL },
    { HTTP_GET_, "/v1/webhooks", WHO_ADMIN, RATE_QUERY, webhooks_get, NULL },
    /* Not counted either: whoever looks why nobody gets through is to get through. */
    { HTTP_GET_, "/v1/nodes", WHO_ADMIN, RATE_CLASSES, nodes_get, NULL },
    { HTTP_GET_, "/v1/log", WHO_ADMIN, RATE_CLASSES, log_get, NULL },
    { HTTP_GET_, "/v1/webhook", WHO_SELLER | WHO_ADMIN, RATE_QUERY, webhook_get, NULL },
    { HTTP_PUT_, "/v1/webhook", WHO_SELLER | WHO_ADMIN, RATE_WRITE, webhook_put, NULL },
    { HTTP_DELETE_, "/v1/webhook", WHO_SELLER | WHO_ADMIN, RATE_WRITE, webhook_delete, NULL },
    { HTTP_POST_, "/v1/webhook/test", WHO_SELLER | WHO_ADMIN, RATE_WRITE, webhook_test_post, NULL },
    { HTTP_GET_, "/v1/webhook/deliveries", WHO_SELLER | WHO_ADMIN, RATE_QUERY, deliveries_get, NULL },
    { HTTP_DELETE_, "/v1/webhook/deliveries", WHO_SELLER | WHO_ADMIN, RATE_WRITE, deliveries_delete, NULL },
    { HTTP_DELETE_, "/v1/webhook/deliveries/{delivery}", WHO_SELLER | WHO_ADMIN, RATE_WRITE, delivery_delete, NULL },
    { HTTP_POST_, "/v1/webhook/deliveries/retry", WHO_SELLER | WHO_ADMIN, RATE_WRITE, deliveries_retry_post, NULL },
    { HTTP_POST_, "/v1/webhook/deliveries/{delivery}/retry", WHO_SELLER | WHO_ADMIN, RATE_WRITE, delivery_retry_post, NULL },
    { HTTP_GET_, "/healthz", WHO_ANYONE | WHO_BLOCKED, RATE_CLASSES, health_get, NULL },
    { HTTP_GET_, "/readyz", WHO_ANYONE | WHO_BLOCKED, RATE_CLASSES, ready_get, NULL },
    { HTTP_GET_, "/metrics", WHO_ANYONE | WHO_BLOCKED, RATE_CLASSES, metrics_get, NULL },
    { HTTP_GET_, "/openapi.yaml", WHO_ANYONE, RATE_QUERY, openapi_get, NULL },
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

/* Clients that doors are for, and people who write an address, write a slash at the end, or none, as they like. */
static bool route_matches(const struct route *route, struct slice path, struct slice ids[ROUTE_IDS_MAX])
{
    if (route->face != NULL && path.len > 1 && path.data[path.len - 1] == '/') path.len--;
    return route_path_matches(route->path, path, ids);
}

/* NULL if the table has no such row; allow has what it has for the path. */
static const struct route *table_find(const struct route_table *table, enum http_method method, struct slice path,
                                      struct slice ids[ROUTE_IDS_MAX], char allow[64])
{
    for (size_t i = 0; i < table->count; i++) {
        const struct route *route = &table->routes[i];
        if (!route_matches(route, path, ids)) continue;
        if (route->method == method) return route;
        allow_add(allow, method_words[route->method]);
        /* A GET that grabs is not asked without its answer. */
        if (route->method == HTTP_GET_ && !(route->who & WHO_ADMITTED)) allow_add(allow, "HEAD");
    }
    return NULL;
}

static const struct route_table native = { routes, sizeof routes / sizeof *routes, NULL, NULL };

const struct route *route_find(const struct route_tables *doors, enum http_method method, struct slice path,
                               struct slice ids[ROUTE_IDS_MAX], char allow[64])
{
    allow[0] = '\0';
    if (method == HTTP_HEAD_) method = HTTP_GET_; /* the same answer without its body */
    const struct route *route = table_find(&native, method, path, ids, allow);
    for (size_t i = 0; route == NULL && i < doors->count; i++)
        route = table_find(&doors->tables[i], method, path, ids, allow);
    return route;
}

const struct face *route_face(const struct route_tables *doors, struct slice path)
{
    struct slice ids[ROUTE_IDS_MAX];
    for (size_t i = 0; i < doors->count; i++) {
        const struct route_table *table = &doors->tables[i];
        if (table->prefix == NULL) continue;
        size_t len = strlen(table->prefix);
        bool begins = path.len >= len && memcmp(path.data, table->prefix, len) == 0;
        if (!begins || (path.len > len && path.data[len] != '/')) continue;
        for (size_t n = 0; n < table->count; n++) {
            if (route_matches(&table->routes[n], path, ids)) return table->routes[n].face;
        }
        return table->face;
    }
    return NULL;
}

static void table_print(const struct route_table *table, FILE *out)
{
    static const struct {
        unsigned bit;
        const char *word;
    } words[] = {
        { WHO_ANYONE, "anyone" }, { WHO_CUSTOMER, "customer" }, { WHO_SELLER, "seller" },
        { WHO_ADMIN, "admin" },   { WHO_ADMITTED, "admitted" }, { WHO_SIGNED, "signed" },
    };
    for (size_t i = 0; i < table->count; i++) {
        const struct route *route = &table->routes[i];
        fprintf(out, "%s %s ", method_words[route->method], route->path);
        const char *comma = "";
        for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
            if (!(route->who & words[w].bit)) continue;
            fprintf(out, "%s%s", comma, words[w].word);
            comma = ",";
        }
        fputc('\n', out);
    }
}

void routes_print(const struct route_tables *doors, FILE *out)
{
    table_print(&native, out);
    for (size_t i = 0; i < doors->count; i++) table_print(&doors->tables[i], out);
}
