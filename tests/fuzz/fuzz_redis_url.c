/* Redis URLs: what is taken is whole and says the same when it is written out again; what is refused has one sentence. A
 * first byte of 'R' makes the rest what a server sends: whatever it is, replies or an end, nothing else. */
#include "redis/error.h"
#include "redis/facts.h"
#include "redis/reply.h"

#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) abort();                                                                                          \
    } while (0)

static void place_check(const struct redis_place *place)
{
    static const char *const schemes[] = { "redis://", "redis+sentinel://", "redis+cluster://" };
    char url[8192], mistake[REDIS_SENTENCE_BYTES];
    MUST(place->seeds_count >= 1 && place->seeds_count <= REDIS_SEEDS_MAX && place->db <= REDIS_DB_MAX);
    MUST(place->kind != REDIS_SINGLE || place->seeds_count == 1);
    MUST((place->kind == REDIS_SENTINEL) == (place->master_name[0] != '\0'));
    MUST(strchr(place->user, ':') == NULL);
    size_t len = (size_t)snprintf(url, sizeof(url), "%s%s%s", schemes[place->kind], place->user, place->user[0] ? "@" : "");
    for (uint32_t i = 0; i < place->seeds_count; i++) {
        char seed[REDIS_ADDRESS_TEXT_BYTES];
        MUST(place->seeds[i].host[0] != '\0' && place->seeds[i].port > 0);
        redis_address_print(seed, &place->seeds[i]);
        len += (size_t)snprintf(url + len, sizeof(url) - len, "%s%s", i > 0 ? "," : "", seed);
    }
    if (place->kind == REDIS_SENTINEL) len += (size_t)snprintf(url + len, sizeof(url) - len, "/%s", place->master_name);
    if (place->db > 0) len += (size_t)snprintf(url + len, sizeof(url) - len, "/%u", (unsigned)place->db);
    struct redis_place again;
    if (len > 4096) return;
    MUST(redis_url_parse(&again, (struct slice){ url, len }, mistake));
    MUST(memcmp(&again, place, sizeof(again)) == 0);
}

static size_t reply_walk(const struct redis_reply *reply)
{
    size_t sum = reply->text.len > 0 ? (size_t)(unsigned char)reply->text.data[reply->text.len - 1] : 0;
    if (reply->type == REDIS_LIST) {
        for (size_t i = 0; i < reply->count; i++) sum += reply_walk(&reply->items[i]);
    }
    if (reply->type == REDIS_FAIL) {
        struct redis_address asked = { .host = "a", .port = 1 }, found;
        sum += (size_t)error_kind(reply->text) + error_target(reply->text, &asked, &found);
    }
    if (reply->type == REDIS_TEXT) {
        struct facts facts;
        sum += facts_read(&facts, reply->text);
    }
    return sum;
}

static void replies_check(const char *bytes, size_t len)
{
    struct reply_reader reader;
    const struct redis_reply *reply;
    static volatile size_t sum;
    MUST(reply_reader_open(&reader));
    for (size_t at = 0; at < len; at += 7) {
        if (!reply_reader_feed(&reader, bytes + at, len - at < 7 ? len - at : 7)) break;
        bool good;
        while ((good = reply_reader_next(&reader, &reply)) && reply != NULL) sum += reply_walk(reply);
        if (!good) break;
    }
    reply_reader_close(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct redis_place place;
    char mistake[REDIS_SENTENCE_BYTES];
    struct slice text = { (const char *)data, size };
    if (size > 0 && data[0] == 'R') {
        replies_check(text.data + 1, size - 1);
        return 0;
    }
    memset(mistake, 'x', sizeof(mistake));
    if (redis_url_parse(&place, text, mistake)) {
        place_check(&place);
    } else {
        size_t len = strnlen(mistake, sizeof(mistake));
        MUST(len > 0 && len < sizeof(mistake) && mistake[len - 1] == '.');
    }
    return 0;
}
