/* Redis URLs as operators write them, right and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/redis.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* clang-format off */
static const struct { const char *url; enum redis_kind kind; const char *user, *seeds, *master; uint32_t db; } good[] = {
    { "redis://a",                           REDIS_SINGLE,   "",     "a:6379",                    "",     0 },
    { "redis://a/",                          REDIS_SINGLE,   "",     "a:6379",                    "",     0 },
    { "REDIS://A.example:1",                 REDIS_SINGLE,   "",     "A.example:1",               "",     0 },
    { "redis://10.0.0.1:65535/15",           REDIS_SINGLE,   "",     "10.0.0.1:65535",            "",     15 },
    { "redis://[::1]",                       REDIS_SINGLE,   "",     "[::1]:6379",                "",     0 },
    { "redis://shop@[fe80::2]:7000/3",       REDIS_SINGLE,   "shop", "[fe80::2]:7000",            "",     3 },
    { "redis+sentinel://a,b:1,[::1]:2/m",    REDIS_SENTINEL, "",     "a:26379 b:1 [::1]:2",       "m",    0 },
    { "redis+sentinel://u@a/my-master_1.x/2", REDIS_SENTINEL, "u",   "a:26379",                   "my-master_1.x", 2 },
    { "redis+cluster://a",                   REDIS_CLUSTER,  "",     "a:6379",                    "",     0 },
    { "redis+cluster://u@a:1,b:2,c:3",       REDIS_CLUSTER,  "u",    "a:1 b:2 c:3",               "",     0 },
    { "redis+cluster://a:1/",                REDIS_CLUSTER,  "",     "a:1",                       "",     0 },
};

static const struct { const char *url, *says; } bad[] = {
    { "",                             "empty" },
    { "a:6379",                       "begins with redis://" },
    { "http://a",                     "begins with redis://" },
    { "redis:/a",                     "begins with redis://" },
    { "rediss://a",                   "stunnel" },
    { "redis://",                     "host is missing" },
    { "redis:///0",                   "host is missing" },
    { "redis+cluster://a,,b",         "host is missing" },
    { "redis+cluster://a,",           "host is missing" },
    { "redis://:secret@a",            "redis_password_file" },
    { "redis://shop:secret@a",        "STAMPEDE_REDIS_PASSWORD" },
    { "redis://shop:se@cret@a",       "A password does not belong" },
    { "redis://shop:secret/?#@a",     "A password does not belong" },
    { "redis+sentinel://u:secret@a/m", "A password does not belong" },
    { "redis://@a",                   "user before the @" },
    { "redis://a b@h",                "user in the Redis URL" },
    { "redis://a%40b@h",              "user in the Redis URL" },
    { "redis://a:0",                  "not a number from 1 to 65535" },
    { "redis://a:65536",              "not a number from 1 to 65535" },
    { "redis://a:",                   "not a number from 1 to 65535" },
    { "redis://a:6379x",              "not a number from 1 to 65535" },
    { "redis://a:-1",                 "not a number from 1 to 65535" },
    { "redis://::1",                  "in brackets" },
    { "redis://::1:6379",             "in brackets" },
    { "redis://[::1",                 "not [IPV6]:PORT" },
    { "redis://[::1]6379",            "not [IPV6]:PORT" },
    { "redis://[a]:1",                "not an IPv6 address" },
    { "redis://a b",                  "not a host" },
    { "redis://a*",                   "not a host" },
    { "redis://a,b",                  "names one host" },
    { "redis://a/x",                  "not the number of a database" },
    { "redis://a/65536",              "not the number of a database" },
    { "redis://a/01",                 "not the number of a database" },
    { "redis://a/1/2",                "not the number of a database" },
    { "redis://a?db=1",               "after ? or #" },
    { "redis://a#1",                  "after ? or #" },
    { "redis+sentinel://a",           "which master" },
    { "redis+sentinel://a/",          "which master" },
    { "redis+sentinel://a//1",        "which master" },
    { "redis+sentinel://a/m m",       "not the name of a master" },
    { "redis+sentinel://a/m/x",       "not the number of a database" },
    { "redis+cluster://a/1",          "only database 0" },
    { "redis://a\n",                  "no text" },
    { "redis://\xff",                 "no text" },
    { "redis+cluster://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", "more than 16 hosts" },
};
/* clang-format on */

static void good_urls_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct redis_place place;
        char mistake[REDIS_SENTENCE_BYTES] = "", seeds[1024] = "";
        size_t len = 0;
        if (!redis_url_parse(&place, slice_of(good[i].url), mistake)) fail_msg("%s: %s", good[i].url, mistake);
        for (uint32_t seed = 0; seed < place.seeds_count; seed++) {
            char text[REDIS_ADDRESS_TEXT_BYTES];
            redis_address_print(text, &place.seeds[seed]);
            len += (size_t)snprintf(seeds + len, sizeof(seeds) - len, "%s%s", seed > 0 ? " " : "", text);
        }
        assert_int_equal(place.kind, good[i].kind);
        assert_string_equal(seeds, good[i].seeds);
        assert_string_equal(place.user, good[i].user);
        assert_string_equal(place.master_name, good[i].master);
        assert_int_equal(place.db, good[i].db);
    }
}

static void bad_urls_are_refused_with_a_sentence_that_says_what_to_do(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct redis_place place;
        char mistake[REDIS_SENTENCE_BYTES] = "";
        if (redis_url_parse(&place, slice_of(bad[i].url), mistake)) fail_msg("%s was taken", bad[i].url);
        if (strstr(mistake, bad[i].says) == NULL) fail_msg("%s: %s", bad[i].url, mistake);
        if (mistake[strlen(mistake) - 1] != '.') fail_msg("%s: no sentence: %s", bad[i].url, mistake);
        if (strstr(mistake, "secret") != NULL) fail_msg("%s: shows the password: %s", bad[i].url, mistake);
    }
}

static void names_have_a_greatest_length(void **state)
{
    (void)state;
    char url[512], mistake[REDIS_SENTENCE_BYTES];
    struct redis_place place;
    int len = snprintf(url, sizeof(url), "redis://%0*d", REDIS_HOST_BYTES_MAX, 1);
    assert_true(redis_url_parse(&place, (struct slice){ url, (size_t)len }, mistake));
    len = snprintf(url, sizeof(url), "redis://%0*d", REDIS_HOST_BYTES_MAX + 1, 1);
    assert_false(redis_url_parse(&place, (struct slice){ url, (size_t)len }, mistake));
    assert_non_null(strstr(mistake, "too long"));
    len = snprintf(url, sizeof(url), "redis://%0*d@a", REDIS_USER_BYTES_MAX, 1);
    assert_true(redis_url_parse(&place, (struct slice){ url, (size_t)len }, mistake));
    len = snprintf(url, sizeof(url), "redis://%0*d@a", REDIS_USER_BYTES_MAX + 1, 1);
    assert_false(redis_url_parse(&place, (struct slice){ url, (size_t)len }, mistake));
}

static void password_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void a_password_comes_from_a_file_before_the_environment(void **state)
{
    (void)state;
    char folder[] = "/tmp/stampede-redis-XXXXXX", path[64], out[REDIS_PASSWORD_BYTES_MAX + 1];
    char sentence[REDIS_SENTENCE_BYTES];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/secret", folder);
    unsetenv("TEST_PASSWORD");
    assert_true(redis_password_find(out, "", "TEST_PASSWORD", sentence));
    assert_string_equal(out, "");
    setenv("TEST_PASSWORD", "from outside", 1);
    assert_true(redis_password_find(out, "", "TEST_PASSWORD", sentence));
    assert_string_equal(out, "from outside");
    setenv("TEST_PASSWORD", "", 1);
    assert_false(redis_password_find(out, "", "TEST_PASSWORD", sentence));

    password_file(path, "p w:@/\r\nsecond line", 0600);
    assert_true(redis_password_find(out, path, "TEST_PASSWORD", sentence));
    assert_string_equal(out, "p w:@/");
    password_file(path, "shared", 0640);
    assert_false(redis_password_find(out, path, "TEST_PASSWORD", sentence));
    assert_non_null(strstr(sentence, "mode 0640"));
    password_file(path, "shared", 0604);
    assert_false(redis_password_find(out, path, "TEST_PASSWORD", sentence));
    assert_non_null(strstr(sentence, "mode 0604"));
    password_file(path, "\n", 0600);
    assert_false(redis_password_find(out, path, "TEST_PASSWORD", sentence));
    assert_non_null(strstr(sentence, "has no password"));
    unlink(path);
    assert_false(redis_password_find(out, path, "TEST_PASSWORD", sentence));
    assert_non_null(strstr(sentence, "cannot be read"));
    assert_false(redis_password_find(out, folder, "TEST_PASSWORD", sentence));
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_urls_are_read),
        cmocka_unit_test(bad_urls_are_refused_with_a_sentence_that_says_what_to_do),
        cmocka_unit_test(names_have_a_greatest_length),
        cmocka_unit_test(a_password_comes_from_a_file_before_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
