/* demo: a sale with a crowd, from nothing to the proof that its numbers add up, by one command. Nothing of it is played: the
 * server is the one that `serve` runs, the crowd speaks HTTP, and the proof reads the ledger. */
#include "base/address.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "command/command.h"
#include "command/demo_proof.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define STEP_MS 100
#define HOLDS_GRACE_MS 3000
#define PAY_WITHIN_S_LONGEST 8

extern char **environ;

struct demo {
    const char *http;
    uint32_t seconds, buyers, bots, stock, open_in_s;
    bool keep;
    struct demo_shop shop;
    struct crowd *crowd;
    bool terminal;
    uint64_t said_ms, requests_before;
};

/* NONE: it did not come to the proof, and it has been said why. */
enum outcome { OUTCOME_NONE, OUTCOME_WRONG, OUTCOME_PROVED };

/* What can be said on the command line. */
static const struct {
    const char *name;
    uint32_t min, max, fallback;
    size_t offset;
    const char *help;
} numbers[] = {
    { "seconds", 1, 600, 20, offsetof(struct demo, seconds), "how long the crowd stays after the opening" },
    { "buyers", 1, 200000, 5000, offsetof(struct demo, buyers), "people who want one" },
    { "bots", 0, 100, 20, offsetof(struct demo, bots), "programs that ask a hundred times a second" },
    { "stock", 1, 1000000, 1000, offsetof(struct demo, stock), "how many there are" },
    { "open-in", 1, 3600, 20, offsetof(struct demo, open_in_s), "seconds until the sale opens" },
};
#define NUMBERS (sizeof numbers / sizeof *numbers)
#define WHY_BYTES 256

static volatile sig_atomic_t stop_said;

static void stop_hear(int number)
{
    (void)number;
    stop_said = 1;
}

bool demo_interrupted(void)
{
    return stop_said != 0;
}

static void flags_say(FILE *out)
{
    fprintf(out, "usage: stampede demo [flags]\n");
    for (size_t i = 0; i < NUMBERS; i++)
        fprintf(out, "  --%-8s N        %s: %" PRIu32 " (%" PRIu32 " to %" PRIu32 ")\n", numbers[i].name, numbers[i].help,
                numbers[i].fallback, numbers[i].min, numbers[i].max);
    fprintf(out, "  --http ADDRESS:PORT   where to listen: 127.0.0.1:0, which is a free port\n"
                 "  --keep                go on serving after the proof, until Ctrl-C\n");
}

static int usage(const char *flag, const char *why)
{
    if (strcmp(flag, "--help") == 0 || strcmp(flag, "-h") == 0) {
        flags_say(stdout);
        return EXIT_OK;
    }
    fprintf(stderr, "stampede: %s\n", why);
    flags_say(stderr);
    return EXIT_USAGE;
}

static bool number_take(struct demo *demo, size_t row, const char *value, char why[WHY_BYTES])
{
    uint64_t number;
    snprintf(why, WHY_BYTES, "--%s is a whole number from %" PRIu32 " to %" PRIu32 ", not %s", numbers[row].name,
             numbers[row].min, numbers[row].max, value);
    if (!text_to_u64(slice_of(value), &number) || number < numbers[row].min || number > numbers[row].max) return false;
    *(uint32_t *)(void *)((char *)demo + numbers[row].offset) = (uint32_t)number;
    return true;
}

/* value NULL: there is none. False: why says what is wrong. */
static bool flag_take(struct demo *demo, struct slice name, const char *value, char why[WHY_BYTES])
{
    struct address address;
    uint16_t port;
    size_t row = 0;
    while (row < NUMBERS && !slice_is(name, numbers[row].name)) row++;
    bool http = slice_is(name, "http");
    if (row == NUMBERS && !http) {
        snprintf(why, WHY_BYTES, "--%.*s is no flag of demo", (int)name.len, name.data);
        return false;
    }
    if (value == NULL) {
        snprintf(why, WHY_BYTES, "--%.*s needs a value", (int)name.len, name.data);
        return false;
    }
    if (!http) return number_take(demo, row, value, why);
    snprintf(why, WHY_BYTES, "--http is ADDRESS:PORT, not %s", value);
    demo->http = value;
    return address_parse_port(&address, &port, slice_of(value));
}

/* False: wrong is the argument, and why what is wrong with it. */
static bool flags_take(struct demo *demo, int argc, char **argv, const char **wrong, char why[WHY_BYTES])
{
    demo->http = "127.0.0.1:0";
    for (size_t i = 0; i < NUMBERS; i++) *(uint32_t *)(void *)((char *)demo + numbers[i].offset) = numbers[i].fallback;
    for (int i = 0; i < argc; i++) {
        *wrong = argv[i];
        if (strcmp(argv[i], "--keep") == 0) {
            demo->keep = true;
            continue;
        }
        snprintf(why, WHY_BYTES, "%s is no flag of demo", argv[i]);
        if (strncmp(argv[i], "--", 2) != 0) return false;
        struct slice name = { argv[i] + 2, strcspn(argv[i] + 2, "=") };
        const char *value = name.data[name.len] == '=' ? name.data + name.len + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!flag_take(demo, name, value, why)) return false;
    }
    return true;
}

/* The demo is the same wherever it runs: settings of the operator's own server are not for this one. */
static void environment_clear(void)
{
    for (char **at = environ; at != NULL && *at != NULL;) {
        char name[128];
        size_t len = strcspn(*at, "=");
        bool ours = strncmp(*at, "STAMPEDE_", 9) == 0 && len < sizeof name;
        if (!ours) {
            at++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)len, *at);
        unsetenv(name); /* those behind it move up */
    }
}

static void signals_set(void)
{
    static const int heard[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = stop_hear };
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++) sigaction(heard[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* who reads us no more is an error of the next write */
}

/* One line that takes the place of the last on a terminal, and elsewhere is written once a second. */
static void line_say(struct demo *demo, const char *text)
{
    uint64_t now_ms = mono_ms();
    if (!demo->terminal && now_ms < demo->said_ms + 1000) return;
    demo->said_ms = now_ms;
    struct winsize size = { .ws_col = 0 };
    bool known = demo->terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    int columns = known ? size.ws_col - 1 : 1000; /* a line that is broken in two is not taken back */
    printf(demo->terminal ? "\r%.*s\x1b[K" : "%.*s\n", columns, text);
    if (fflush(stdout) != 0) stop_said = 1; /* nobody listens */
}

static void line_end(const struct demo *demo)
{
    if (demo->terminal) putchar('\n');
}

static void addresses_say(const struct demo *demo)
{
    const struct demo_shop *shop = &demo->shop;
    printf("Stampede: %" PRIu32 " people and %" PRIu32 " bots want %" PRIu32 " pairs of sneakers.\n\n"
           "  look   %s/\n"
           "         the storefront; the sale itself is at /s/%s; log in as buyer to try your luck\n"
           "  watch  %s/console\n"
           "         log in as seller to see the sale live, as admin to see the server\n"
           "  login  buyer, seller or admin, password %s\n"
           "  data   %s, removed at the end\n\n",
           demo->buyers, demo->bots, demo->stock, shop->base, shop->sale, shop->base, shop->password, shop->folder);
    fflush(stdout);
}

/* False: stop. */
static bool goes_on(struct demo *demo)
{
    return !demo_interrupted() && demo_shop_alive(&demo->shop);
}

static bool countdown(struct demo *demo, uint64_t opens_ms)
{
    uint64_t now_ms;
    while ((now_ms = mono_ms()) + CROWD_LEAD_MS < opens_ms) {
        char line[64];
        if (!goes_on(demo)) return false;
        snprintf(line, sizeof line, "opens in %" PRIu64 " s", (opens_ms - now_ms + 999) / 1000);
        line_say(demo, line);
        poll(NULL, 0, STEP_MS);
    }
    return true;
}

static bool progress_say(void *arg)
{
    struct demo *demo = arg;
    const struct crowd_numbers *told = crowd_numbers(demo->crowd);
    const struct call_sale *sale = crowd_watched(demo->crowd);
    const uint64_t *refused = told->refused;
    size_t wins;
    char line[256];
    uint64_t now_ms = mono_ms(), passed_ms = now_ms - demo->said_ms;
    if (!goes_on(demo)) return false;
    if (passed_ms < 500 || sale->id[0] == '\0') return true; /* a rate needs some time, and the crowd may not be here yet */
    crowd_wins(demo->crowd, &wins);
    snprintf(line, sizeof line,
             "%" PRIu64 " requests/s  left %" PRId64 "  won %zu  paid %" PRIu64 "  given back %" PRIu64
             " | sold out %" PRIu64 "  too fast %" PRIu64 "  already won %" PRIu64 "  too early %" PRIu64 "  other %" PRIu64,
             (told->requests - demo->requests_before) * 1000 / passed_ms, sale->available, wins, told->paid, told->cancelled,
             refused[REFUSED_SOLD_OUT], refused[REFUSED_RATE_LIMITED], refused[REFUSED_ALREADY_WON],
             refused[REFUSED_NOT_OPEN], refused[REFUSED_BUSY] + refused[REFUSED_OTHER]);
    uint64_t said_ms = demo->said_ms;
    line_say(demo, line);
    if (demo->said_ms != said_ms) demo->requests_before = told->requests;
    return true;
}

/* Those who have forgotten to pay lose what they hold, and then nothing moves any more. */
static bool holds_await(struct demo *demo)
{
    struct call_sale sale;
    uint64_t end_ms = mono_ms() + demo->shop.pay_within_s * UINT64_C(1000) + HOLDS_GRACE_MS;
    line_end(demo);
    while (goes_on(demo)) {
        char line[96];
        if (!demo_shop_look(&demo->shop, &sale)) return false;
        if (sale.held == 0 || mono_ms() > end_ms) return true;
        snprintf(line, sizeof line, "the crowd is gone; %" PRId64 " are held still, and come back if nobody pays",
                 sale.held);
        line_say(demo, line);
        poll(NULL, 0, STEP_MS);
    }
    return false;
}

/* From the opening to the end of the proof. */
static enum outcome demo_play(struct demo *demo)
{
    struct demo_shop *shop = &demo->shop;
    char keys[DEMO_PATH_BYTES + 16];
    if (!demo_shop_start(shop) || !demo_shop_open_sales(shop)) return OUTCOME_NONE;
    uint64_t now_ms = wall_ms();
    uint64_t opens_ms = mono_ms() + (shop->opens_ms > now_ms ? shop->opens_ms - now_ms : 0);
    addresses_say(demo);
    snprintf(keys, sizeof keys, "%s/keys", shop->data);
    const struct crowd_options options = { .base = shop->base,
                                           .sale = shop->sale,
                                           .key_path = keys,
                                           .buyers = demo->buyers,
                                           .bots = demo->bots,
                                           .opens_ms = opens_ms,
                                           .seconds = demo->seconds,
                                           .pay_within_s = shop->pay_within_s };
    if (crowd_open(&demo->crowd, &options) != FAULT_NONE || !countdown(demo, opens_ms)) return OUTCOME_NONE;
    if (!crowd_run(demo->crowd, progress_say, demo)) {
        if (!goes_on(demo)) return OUTCOME_NONE;
        fprintf(stderr, "\nstampede: some requests were never answered\n");
        return OUTCOME_WRONG;
    }
    if (!holds_await(demo)) return OUTCOME_NONE;
    line_end(demo);
    return demo_prove(shop, demo->crowd) ? OUTCOME_PROVED : OUTCOME_WRONG;
}

/* Until Ctrl-C, which ends the looking around and not the proof. */
static enum outcome demo_keep(struct demo *demo)
{
    printf("\nThe server goes on at %s/. Ctrl-C ends it; then the audit follows.\n", demo->shop.base);
    fflush(stdout);
    while (goes_on(demo)) poll(NULL, 0, STEP_MS);
    putchar('\n');
    stop_said = 0;
    return demo->shop.pid != 0 ? OUTCOME_PROVED : OUTCOME_NONE;
}

static int demo_end(struct demo *demo, enum outcome outcome)
{
    struct demo_shop *shop = &demo->shop;
    bool interrupted = demo_interrupted(), started = shop->pid != 0;
    bool stopped = demo_shop_stop(shop);
    if (started && !stopped) fprintf(stderr, "stampede: the server did not end as it should\n");
    if (demo->crowd != NULL) crowd_close(demo->crowd);
    if (interrupted) {
        demo_shop_remove(shop);
        fprintf(stderr, "\nstampede: ended before the proof; nothing is left of it\n");
        return EXIT_FAILED;
    }
    bool audited = stopped && outcome != OUTCOME_NONE && demo_audit(shop);
    if (outcome == OUTCOME_PROVED && audited) {
        demo_shop_remove(shop);
        printf("\nthe numbers add up\n");
        if (!demo->keep) printf("(stampede demo --keep goes on serving after the proof, to look around)\n");
        return EXIT_OK;
    }
    if (shop->sale[0] == '\0') { /* it never began */
        demo_shop_remove(shop);
        return EXIT_FAILED;
    }
    fflush(stdout);
    demo_folder_keep(shop->folder);
    fprintf(stderr, "\nstampede: %s; what there is stays in %s\n",
            outcome == OUTCOME_NONE ? "it did not come to the proof" : "the numbers do not add up", shop->folder);
    return EXIT_FAILED;
}

int command_demo(int argc, char **argv)
{
    static struct demo demo;
    const char *wrong = NULL;
    char why[WHY_BYTES];
    if (!flags_take(&demo, argc, argv, &wrong, why)) return usage(wrong, why);
    environment_clear();
    signals_set();
    log_set_level(LOG_ERROR);
    demo.terminal = isatty(STDOUT_FILENO);
    demo.shop.http = demo.http;
    demo.shop.stock = demo.stock;
    demo.shop.open_in_s = demo.open_in_s;
    demo.shop.pay_within_s = demo.seconds / 3 < 1                      ? 1
                             : demo.seconds / 3 > PAY_WITHIN_S_LONGEST ? PAY_WITHIN_S_LONGEST
                                                                       : demo.seconds / 3;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return EXIT_FAILED;
    enum outcome outcome = demo_play(&demo);
    if (outcome == OUTCOME_PROVED && demo.keep) outcome = demo_keep(&demo);
    int code = demo_end(&demo, outcome);
    curl_global_cleanup();
    return code;
}
