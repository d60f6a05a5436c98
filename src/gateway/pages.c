#include "gateway/pages.h"

#include "gateway/request.h"
#include "gateway/resources.h"

#include <assert.h>
#include <stdlib.h>

#define DOCUMENT_CACHE "Cache-Control: no-cache\r\n"
#define ASSET_CACHE "Cache-Control: public, max-age=31536000, immutable\r\n"
#define OWN_ORIGIN "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n"
/* Trusted types make a browser refuse to read text as HTML at all: a name of <script> stays a name even where a page would
 * be careless with it. */
#define DOCUMENT_GUARDS                                                                                                     \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "                \
    "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "                  \
    "require-trusted-types-for 'script'; trusted-types 'none'\r\n"                                                          \
    "X-Frame-Options: DENY\r\n"                                                                                             \
    "Referrer-Policy: no-referrer\r\n"                                                                                      \
    "Cross-Origin-Opener-Policy: same-origin\r\n"                                                                           \
    "Permissions-Policy: camera=(), geolocation=(), microphone=(), payment=(), usb=()\r\n"

/* How a kind of file is kept and guarded: whole header lines. */
static const struct slice document_lines = { DOCUMENT_CACHE OWN_ORIGIN DOCUMENT_GUARDS,
                                             sizeof(DOCUMENT_CACHE OWN_ORIGIN DOCUMENT_GUARDS) - 1 };
static const struct slice asset_lines = { ASSET_CACHE OWN_ORIGIN, sizeof(ASSET_CACHE OWN_ORIGIN) - 1 };

static int name_order(const void *key, const void *row)
{
    const struct slice *name = key;
    const struct page_file *file = row;
    size_t len = strlen(file->name);
    int order = memcmp(name->data, file->name, name->len < len ? name->len : len);
    return order != 0 ? order : (name->len > len) - (name->len < len);
}

const struct page_file *page_file_find(struct slice name)
{
    return bsearch(&name, page_files, page_files_count, sizeof *page_files, name_order);
}

/* The tag is weak, because a file and its compressed form share it. */
static void file_reply(struct request *request, const struct page_file *file, struct slice lines)
{
    bool gzip = file->gzip_len > 0 && http_accepts_gzip(request->http.accept_encoding);
    bool same = http_etag_matches(request->http.if_none_match, slice_of(file->tag));
    char extra[1024];
    int len = snprintf(extra, sizeof extra, "ETag: W/%s\r\nVary: Accept-Encoding\r\n%s%.*s", file->tag,
                       gzip && !same ? "Content-Encoding: gzip\r\n" : "", (int)lines.len, lines.data);
    assert(len > 0 && (size_t)len < sizeof extra);
    const struct http_head head = { .status = same ? 304 : 200,
                                    .content_type = same ? (struct slice){ "", 0 } : slice_of(file->type),
                                    .extra = { extra, (size_t)len } };
    struct slice body = gzip ? (struct slice){ (const char *)file->gzip, file->gzip_len }
                             : (struct slice){ (const char *)file->bytes, file->len };
    reply_raw(request, &head, same ? (struct slice){ "", 0 } : body);
}

static void document_reply(struct request *request, struct slice name)
{
    const struct page_file *file = page_file_find(name);
    assert(file != NULL); /* the build looks that they are there */
    file_reply(request, file, document_lines);
}

/* Which part of the site it is, its own script finds out from the address. */
static void store_get(struct request *request)
{
    document_reply(request, SLICE("store/index.html"));
}

static void console_get(struct request *request)
{
    document_reply(request, SLICE("console/index.html"));
}

static void asset_get(struct request *request)
{
    const struct page_file *file = page_file_find(request->http.path);
    if (file == NULL) {
        reply_problem(request, PROBLEM_NO_SUCH_ROUTE, "This version of the pages has no such asset; load the page again.");
    } else {
        file_reply(request, file, asset_lines);
    }
}

static void pages_get(struct request *request)
{
    struct json_out out;
    json_object(reply_json(request, &out));
    json_key(&out, "version");
    json_text(&out, STAMPEDE_VERSION);
    json_key(&out, "demo_payments");
    json_bool(&out, request->reactor->server->options.demo_payments);
    json_key(&out, "now");
    json_time(&out, gate_now_ms(request_rooms(request)->gate));
    json_object_end(&out);
    reply_send(request, 200, &out);
}

/* Every address that a page shows in the bar is one that it can be opened at. */
static const struct route site_routes[] = {
    { HTTP_GET_, "/assets/{asset}", WHO_ANYONE, RATE_QUERY, asset_get, NULL },
    { HTTP_GET_, "/", WHO_ANYONE, RATE_QUERY, store_get, NULL },
    { HTTP_GET_, "/s/{sale}", WHO_ANYONE, RATE_QUERY, store_get, NULL },
    { HTTP_GET_, "/orders", WHO_ANYONE, RATE_QUERY, store_get, NULL },
    { HTTP_GET_, "/pay/{order}", WHO_ANYONE, RATE_QUERY, store_get, NULL },
    { HTTP_GET_, "/login", WHO_ANYONE, RATE_QUERY, store_get, NULL },
    { HTTP_GET_, "/register", WHO_ANYONE, RATE_QUERY, store_get, NULL },
    { HTTP_GET_, "/console", WHO_ANYONE, RATE_QUERY, console_get, NULL },
    { HTTP_GET_, "/console/{view}", WHO_ANYONE, RATE_QUERY, console_get, NULL },
    { HTTP_GET_, "/console/{view}/{item}", WHO_ANYONE, RATE_QUERY, console_get, NULL },
    { HTTP_GET_, "/pages.json", WHO_ANYONE, RATE_QUERY, pages_get, NULL },
};
static const struct route_table site = { site_routes, sizeof site_routes / sizeof *site_routes, NULL, NULL };

static const struct route demo_routes[] = {
    { HTTP_POST_, "/v1/orders/{order}/demo_payment", WHO_CUSTOMER, RATE_WRITE, demo_payment_post, NULL },
};
static const struct route_table demo = { demo_routes, sizeof demo_routes / sizeof *demo_routes, NULL, NULL };

const struct pages pages_all = { .site = true, .demo_payments = true };

void pages_collect(const struct pages *on, struct route_tables *out)
{
    assert(out->count + 2 <= ROUTE_TABLES_MAX);
    if (on->site) out->tables[out->count++] = site;
    if (on->demo_payments) out->tables[out->count++] = demo;
}
