#include "ledger/place.h"

#include "base/url.h"

#include <stdio.h>
#include <string.h>

#define PORT_DEFAULT 3306
#define DATABASE_BYTES_MAX 64
#define USER_BYTES_MAX 80
#define SOCKET_BYTES_MAX 107

_Static_assert(URL_MISTAKE_BYTES == LEDGER_MISTAKE_BYTES, "a mistake of the URL is one of the place");

static bool text_take(char out[LEDGER_PLACE_BYTES], struct slice text, size_t max)
{
    if (text.len > max || memchr(text.data, '\0', text.len) != NULL) return false;
    memcpy(out, text.data, text.len);
    out[text.len] = '\0';
    return true;
}

bool ledger_place_read(struct ledger_place *out, struct slice text, char mistake[LEDGER_MISTAKE_BYTES])
{
    *out = (struct ledger_place){ .path = NULL };
    struct url url;
    const char *why = NULL;
    if (!url_read(&url, text, mistake)) return false;
    struct slice socket = url_query(&url, "socket");
    if (!slice_is(url.scheme, "mysql") && !slice_is(url.scheme, "mariadb")) {
        why = "it is sqlite, or a URL that begins with mysql:// or mariadb://";
    } else if (!text_take(out->name, text, LEDGER_PLACE_BYTES - 1)) {
        why = "the URL is too long";
    } else if (url.user.len == 0 || !text_take(out->user, url.user, USER_BYTES_MAX)) {
        why = "the URL names no user: mysql://USER@host/database";
    } else if (url.path.len == 0 || !text_take(out->database, url.path, DATABASE_BYTES_MAX) ||
               memchr(url.path.data, '/', url.path.len) != NULL) {
        why = "the URL names no database: mysql://user@host/DATABASE";
    } else if (url.query.len > 0 && (socket.len == 0 || socket.len + strlen("socket=") != url.query.len ||
                                     !text_take(out->socket, socket, SOCKET_BYTES_MAX))) {
        why = "after the ? of the URL comes socket=PATH and nothing else";
    } else if (url.host.len > 0 && socket.len > 0) {
        why = "the URL names a host and a socket: leave one of them out, mysql://user@/database?socket=PATH";
    } else if ((url.host.len == 0 && socket.len == 0) || !text_take(out->host, url.host, 255)) {
        why = "the URL names no host: mysql://user@HOST/database";
    }
    if (why != NULL) {
        snprintf(mistake, LEDGER_MISTAKE_BYTES, "%s", why);
        return false;
    }
    out->port = url.port != 0 ? url.port : PORT_DEFAULT;
    return true;
}
