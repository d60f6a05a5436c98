#include "gateway/pages.h"

#include "gateway/request.h"
#include "gateway/resources.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define DOCUMENT_CACHE "Cache-Control: no-cache\r\n"
#define ASSET_CACHE "Cache-Control: public, max-age=31536000, immutable\r\n"
#define OWN_ORIGIN "X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n"
#define POLICY "Content-Security-Policy: default-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
/* Trusted types make a browser refuse to read text as HTML at all: a name of <script> stays a name even where a page would
 * be careless with it. */
#define DOCUMENT_POLICY                                                                                                     \
    POLICY "script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "                  \
           "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
#define DOCUMENT_GUARDS                                                                                                     \
    "X-Frame-Options: DENY\r\n"                                                                                             \
    "Referrer-Policy: no-referrer\r\n"                                                                                      \
    "Cross-Origin-Opener-Policy: same-origin\r\n"                                                                           \
    "Permissions-Policy: camera=(), geolocation=(), microphone=(), payment=(), usb=()\r\n"

/* How a kind of file is kept and guarded: whole header lines. */
#define DOCUMENT_LINES DOCUMENT_CACHE OWN_ORIGIN DOCUMENT_POLICY DOCUMENT_GUARDS
static const struct slice document_lines = { DOCUMENT_LINES, sizeof DOCUMENT_LINES - 1 };
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

static struct slice file_body(const struct page_file *file, bool gzip)
{
    return gzip ? (struct slice){ (const char *)file->gzip, file->gzip_len }
                : (struct slice){ (const char *)file->bytes, file->len };
}

static bool file_packed(const struct request *request, const struct page_file *file)
{
    return file->gzip_len > 0 && http_accepts_gzip(request->http.accept_encoding);
}

#define GZIP_LINE "Content-Encoding: gzip\r\n"

/* The tag is weak, because a file and its compressed form share it. */
static void file_reply(struct request *request, const struct page_file *file, struct slice lines)
{
    bool gzip = file_packed(request, file);
    bool same = http_etag_matches(request->http.if_none_match, slice_of(file->tag));
    char extra[1024];
    int len = snprintf(extra, sizeof extra, "ETag: W/%s\r\nVary: Accept-Encoding\r\n%s%.*s", file->tag,
                       gzip && !same ? GZIP_LINE : "", (int)lines.len, lines.data);
    assert(len > 0 && (size_t)len < sizeof extra);
    const struct http_head head = { .status = same ? 304 : 200,
                                    .content_type = same ? (struct slice){ "", 0 } : slice_of(file->type),
                                    .extra = { extra, (size_t)len } };
    reply_raw(request, &head, same ? (struct slice){ "", 0 } : file_body(file, gzip));
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
    /* It tells the time: whoever keeps answers for others is not to keep this one. */
    const struct http_head head = { .status = 200,
                                    .content_type = SLICE("application/json"),
                                    .extra = SLICE("Cache-Control: no-store\r\n") };
    reply_raw(request, &head, (struct slice){ out.data, out.len });
}

/* What people are shown whom the guard turns away. Such a page is whole in itself, for what it would load might be refused
 * like it. */
static const char *refusal_name(enum problem problem)
{
    switch (problem) {
    case PROBLEM_RATE_LIMITED:
        return "refused/slow/index.html";
    case PROBLEM_BUSY:
        return "refused/busy/index.html";
    case PROBLEM_BLOCKED:
        return "refused/blocked/index.html";
    default:
        return NULL;
    }
}

/* Never sooner than Retry-After says, and not all in the same second. */
static uint64_t refresh_s(struct request *request)
{
    if (request->retry_s == 0) request->retry_s = 1;
    return request->retry_s + 1 + request->visit.entered_ns / 1000 % 4;
}

static void refusal_reply(struct request *request, enum problem problem, const struct page_file *file)
{
    bool gzip = file_packed(request, file);
    char extra[1024], again[40] = "";
    if (problem != PROBLEM_BLOCKED) snprintf(again, sizeof again, "Refresh: %" PRIu64 "\r\n", refresh_s(request));
    int len = snprintf(extra, sizeof extra,
                       "Cache-Control: no-store\r\n%s%s" OWN_ORIGIN POLICY
                       "style-src '%s'; img-src data:; form-action 'none'\r\n" DOCUMENT_GUARDS,
                       again, gzip ? GZIP_LINE : "", file->style);
    assert(len > 0 && (size_t)len < sizeof extra);
    const struct http_head head = { .status = problem_status(problem),
                                    .content_type = slice_of(file->type),
                                    .extra = { extra, (size_t)len } };
    reply_raw(request, &head, file_body(file, gzip));
}

static void page_problem(struct request *request, enum problem problem, const char *detail)
{
    const char *name = refusal_name(problem);
    if (name != NULL && http_accepts_html(&request->http)) {
        const struct page_file *file = page_file_find(slice_of(name));
        assert(file != NULL); /* as with every document */
        refusal_reply(request, problem, file);
        return;
    }
    request->face = NULL; /* whoever reads no pages has the native answer */
    reply_problem(request, problem, detail);
}

static const struct face page_face = { .problem = page_problem };

/* Every address that a page shows in the bar is one that it can be opened at. */
static const struct route site_routes[] = {
    { HTTP_GET_, "/assets/{asset}", WHO_ANYONE, RATE_QUERY, asset_get, NULL },
    { HTTP_GET_, "/", WHO_ANYONE, RATE_QUERY, store_get, &page_face },
    { HTTP_GET_, "/s/{sale}", WHO_ANYONE, RATE_QUERY, store_get, &page_face },
    { HTTP_GET_, "/orders", WHO_ANYONE, RATE_QUERY, store_get, &page_face },
    { HTTP_GET_, "/pay/{order}", WHO_ANYONE, RATE_QUERY, store_get, &page_face },
    { HTTP_GET_, "/login", WHO_ANYONE, RATE_QUERY, store_get, &page_face },
    { HTTP_GET_, "/register", WHO_ANYONE, RATE_QUERY, store_get, &page_face },
    { HTTP_GET_, "/console", WHO_ANYONE, RATE_QUERY, console_get, &page_face },
    { HTTP_GET_, "/console/{view}", WHO_ANYONE, RATE_QUERY, console_get, &page_face },
    { HTTP_GET_, "/console/{view}/{item}", WHO_ANYONE, RATE_QUERY, console_get, &page_face },
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
