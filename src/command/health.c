/* Whether the server that these options are of answers: for containers, whose image has no other client. */
#include "base/address.h"
#include "command/command.h"

#include <assert.h>
#include <curl/curl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS_MAX 4000
#define URL_BYTES (ADDRESS_TEXT_BYTES + 32)

/* Who listens everywhere listens on loopback, too. */
static void url_make(char out[URL_BYTES], const struct config *config, const char *path)
{
    struct address address;
    uint16_t port;
    char host[ADDRESS_TEXT_BYTES];
    bool reads = address_parse_port(&address, &port, slice_of(config->http));
    assert(reads); /* the table of options has looked */
    address_print(host, &address);
    if (strcmp(host, "0.0.0.0") == 0) snprintf(host, sizeof host, "127.0.0.1");
    if (strcmp(host, "::") == 0) snprintf(host, sizeof host, "::1");
    bool six = strchr(host, ':') != NULL;
    snprintf(out, URL_BYTES, "http%s://%s%s%s:%" PRIu16 "%s", config->tls_cert[0] != '\0' ? "s" : "", six ? "[" : "", host,
             six ? "]" : "", port, path);
}

static size_t body_drop(char *data, size_t size, size_t count, void *arg)
{
    (void)data;
    (void)arg;
    return size * count;
}

/* The status of the answer; 0: there was none, and error says why. */
static long url_ask(const char *url, char error[CURL_ERROR_SIZE])
{
    long status = 0;
    CURL *curl = curl_easy_init();
    snprintf(error, CURL_ERROR_SIZE, "out of memory");
    if (curl == NULL) return 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)WAIT_MS_MAX);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, body_drop);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    /* The certificate is of the shop's name; this is an address of our own machine, and nothing is told to it. */
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    CURLcode done = curl_easy_perform(curl);
    if (done == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (done != CURLE_OK && error[0] == '\0') snprintf(error, CURL_ERROR_SIZE, "%s", curl_easy_strerror(done));
    curl_easy_cleanup(curl);
    return status;
}

int command_health(int argc, char **argv)
{
    static struct config config;
    bool ready = argc >= 1 && strcmp(argv[0], "ready") == 0;
    if (!command_options(&config, argc - ready, argv + ready)) return EXIT_USAGE;

    char url[URL_BYTES], error[CURL_ERROR_SIZE];
    url_make(url, &config, ready ? "/readyz" : "/healthz");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return EXIT_FAILED;
    long status = url_ask(url, error);
    curl_global_cleanup();
    if (status == 200) {
        printf("%s\n", ready ? "ready" : "alive");
        return EXIT_OK;
    }
    if (status == 0) {
        printf("%s: %s\n", url, error);
    } else {
        printf("%s: answered %ld\n", url, status);
    }
    return EXIT_FAILED;
}
