/* pages: the storefront and the console, two small sites that are part of the program.
 *
 * tools/embed-pages makes a table of what stands under pages/: documents, which are asked for again each time and have the
 * same address in every version, and assets, whose names change with their content and which may be kept for ever. Pages
 * know nothing that is not in the interface everybody has; what they need to know about this server is at /pages.json.
 *
 * Who is turned away from a page with a browser gets a page that says so and comes again by itself; everybody else, and
 * every other address, has the problem that the interface tells.
 *
 * The headers of a document let it run scripts of this server only and be framed by nobody. There is no cookie: a login is
 * in the storage of the page's origin and goes along as Authorization, which no other site can make a browser send. */
#ifndef STAMPEDE_GATEWAY_PAGES_H
#define STAMPEDE_GATEWAY_PAGES_H

#include "gateway/routes.h"

/* One file. gzip_len is 0 where that would not be shorter; style is the hash of the style that stands in it, as a policy
 * names it, and empty where there is none. */
struct page_file {
    const char *name; /* of a document its path under pages/, of an asset its path in the address */
    const char *type;
    const char *tag; /* "…" with its quotes */
    const char *style;
    const unsigned char *bytes;
    size_t len;
    const unsigned char *gzip;
    size_t gzip_len;
};

/* Made at build; in the order of their names. */
extern const struct page_file page_files[];
extern const size_t page_files_count;

/* NULL if there is none. */
const struct page_file *page_file_find(struct slice name);

struct pages {
    bool site;
    bool demo_payments; /* the route by which buyers play the provider */
};
extern const struct pages pages_all;
/* Adds the routes of what is on to those of the doors. */
void pages_collect(const struct pages *on, struct route_tables *out);

#endif
