/* serve: the start order as a list, the stop order reversed. Only this file knows every room. */
#include "base/clock.h"
#include "base/disk.h"
#include "base/log.h"
#include "base/memory.h"
#include "clerk/clerk.h"
#include "command/shop.h"
#include "command/signals.h"
#include "courier/courier.h"
#include "doors/doors.h"
#include "gate/gate.h"
#include "gateway/pages.h"
#include "gateway/server.h"
#include "guard/blocks.h"
#include "ledger/watch.h"
#include "people/payment_keys.h"
#include "people/people.h"
#include "people/resp_accounts.h"
#include "publisher/publisher.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLERK_STOP_MS 10000
#define POISON_DRAIN_MS 1000 /* what a disk failure leaves the reactors to answer in */

struct app {
    struct config config;
    struct command_places places;
    char journal_folder[COMMAND_PATH_BYTES], keys_path[COMMAND_PATH_BYTES];
    char blocks_path[COMMAND_PATH_BYTES], payment_keys_path[COMMAND_PATH_BYTES];
    int lock_fd;
    struct ledger *ledger;
    struct ledger_watch *watch;
    struct command_gate gate_place;
    struct shop shop;
    struct gate *gate;
    struct resp_accounts *resp_accounts;
    struct people *people;
    struct payment_keys *payment_keys;
    struct clerk *clerk;
    struct courier *courier;
    struct publisher *publisher;
    struct blocks *blocks;
    struct guard *guard;
    struct lines *lines;
    struct server *server;
};

static enum fault folder_start(struct app *app)
{
    long pid = 0;
    enum fault fault = disk_folder_make(app->config.data);
    if (fault == FAULT_NONE) fault = disk_lock_folder(app->config.data, &app->lock_fd, &pid);
    return fault;
}

static void folder_stop(struct app *app)
{
    close(app->lock_fd);
}

static enum fault ledger_start(struct app *app)
{
    enum fault fault = ledger_open(&app->ledger, &app->places.ledger, LEDGER_OWNER);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_watch_open(&app->watch, &app->places.ledger); /* for all that are opened from here on */
    if (fault != FAULT_NONE)
        ledger_close(app->ledger);
    else
        ledger_watch_adopt(app->watch, app->ledger);
    return fault;
}

static void ledger_stop(struct app *app)
{
    ledger_close(app->ledger);
    ledger_watch_close(app->watch);
}

/* On the committer's thread: the main thread waits for signals, so it is told by one. */
static void disk_failed(void *arg)
{
    (void)arg;
    kill(getpid(), SIGUSR2);
}

static enum fault gate_begin(struct app *app)
{
    app->shop = (struct shop){ .config = &app->config,
                               .place = &app->gate_place,
                               .ledger_place = &app->places.ledger,
                               .ledger = app->ledger,
                               .on_poison = disk_failed };
    enum fault fault = shop_open(&app->shop);
    app->gate = app->shop.gate;
    return fault;
}

static void gate_end(struct app *app)
{
    shop_close(&app->shop);
}

static enum fault resp_accounts_start(struct app *app)
{
    const struct resp_accounts_options options = {
        .path = app->config.resp_accounts,
        .ledger = &app->places.ledger,
        .issuer = app->config.identity_keys[0] != '\0' ? app->config.identity_issuer : "",
    };
    return resp_accounts_open(&app->resp_accounts, &options);
}

static void resp_accounts_end(struct app *app)
{
    resp_accounts_close(app->resp_accounts);
}

/* Before anything is made or opened. */
static bool identity_good(const struct config *config)
{
    const struct people_external identity = command_identity(config);
    const char *objection = people_external_objection(&identity);
    if (objection != NULL) fprintf(stderr, "stampede: %s\n", objection);
    return objection == NULL;
}

static uint64_t shop_now_ms(const void *gate)
{
    return gate_shop_ms(gate);
}

static enum fault people_start(struct app *app)
{
    const char *keys_text = getenv("STAMPEDE_KEYS_TEXT");
    const struct people_options options = {
        .ledger = &app->places.ledger,
        .key_path = app->keys_path,
        .key_env = slice_of(keys_text != NULL ? keys_text : ""),
        .token_ttl_s = (uint32_t)app->config.token_ttl_s,
        .threads = (uint32_t)app->config.password_threads,
        .external = command_identity(&app->config),
        .accounts = app->resp_accounts,
        .now_ms = shop_now_ms,
        .now_arg = app->gate,
    };
    enum fault fault = people_open(&app->people, &options);
    if (fault != FAULT_NONE) return fault;
    fault = shop_agree_keys(&app->shop, people_ring(app->people));
    if (fault != FAULT_NONE) people_close(app->people);
    if (fault == FAULT_NONE) shop_tell_logouts(&app->shop, app->people);
    return fault;
}

static void people_end(struct app *app)
{
    shop_tell_logouts(&app->shop, NULL);
    people_close(app->people);
}

static enum fault payment_keys_start(struct app *app)
{
    const char *text = getenv("STAMPEDE_PAYMENT_KEYS_TEXT");
    if (text == NULL) text = "";
    bool made = text[0] == '\0' && access(app->payment_keys_path, F_OK) != 0;
    enum fault fault = payment_keys_open(&app->payment_keys, app->payment_keys_path, slice_of(text));
    if (fault != FAULT_NONE) return fault;
    if (made && app->gate_place.shared)
        log_warn("main", "%s was made with a secret of this node's own: give all nodes the same file (option payment_keys)",
                 app->payment_keys_path);
    fault = shop_compare_payments(&app->shop, app->payment_keys);
    if (fault != FAULT_NONE) payment_keys_close(app->payment_keys);
    return fault;
}

static void payment_keys_end(struct app *app)
{
    payment_keys_close(app->payment_keys);
}

static enum fault clerk_start(struct app *app)
{
    const struct clerk_options options = {
        .ledger = &app->places.ledger,
        .journal_folder = app->journal_folder,
        .pause_ms = (uint32_t)app->config.clerk_pause_ms,
    };
    enum fault fault = shop_publishing_begin(&app->shop);
    return fault != FAULT_NONE ? fault : clerk_open(&app->clerk, &options, app->gate);
}

static void clerk_stop(struct app *app)
{
    clerk_close(app->clerk, CLERK_STOP_MS);
}

static struct courier_pace courier_pace(const struct config *config)
{
    return (struct courier_pace){
        .timeout_ms = (uint64_t)config->webhook_timeout_ms,
        .retry_ms_min = (uint64_t)config->webhook_retry_ms_min,
        .retry_ms_max = (uint64_t)config->webhook_retry_ms_max,
        .give_up_ms = (uint64_t)config->webhook_give_up_s * 1000,
    };
}

static enum fault courier_start(struct app *app)
{
    const struct courier_options options = {
        .ledger = &app->places.ledger,
        .ca_path = app->config.webhook_ca,
        .private_allowed = strcmp(app->config.webhooks_private, "on") == 0,
        .pace = courier_pace(&app->config),
    };
    return courier_open(&app->courier, &options, app->gate, app->clerk);
}

static void courier_stop(struct app *app)
{
    courier_close(app->courier);
}

static enum fault publisher_start(struct app *app)
{
    const struct publisher_options options = { &app->places.ledger, app->config.publish, app->config.publish_password_file };
    return publisher_open(&app->publisher, &options, app->gate, app->clerk);
}

static void publisher_stop(struct app *app)
{
    publisher_close(app->publisher);
}

static enum fault blocks_start(struct app *app)
{
    return blocks_open(&app->blocks, app->blocks_path);
}

static void blocks_stop(struct app *app)
{
    blocks_close(app->blocks);
}

static uint64_t memory_cap(const struct config *config)
{
    uint64_t cap = shop_memory_max(config);
    if (config->memory_mb_max == 0) log_info("main", "memory is capped at %" PRIu64 " MiB (memory_mb_max)", cap >> 20);
    return cap;
}

static enum fault guard_start(struct app *app)
{
    struct guard_options options = {
        .connections_max = (uint32_t)app->config.connections_max,
        .memory_bytes_max = memory_cap(&app->config),
        .breaker = BREAKER_NUMBERS_DEFAULT,
    };
    options.breaker.window_ms = (uint32_t)app->config.breaker_window_ms;
    options.breaker.share_percent = (uint32_t)app->config.breaker_share_percent;
    options.breaker.slow_ms = (uint32_t)app->config.breaker_slow_ms;
    options.breaker.open_ms = (uint32_t)app->config.breaker_open_ms;
    options.breaker.probes = (uint32_t)app->config.breaker_probes;
    char mistake[256];
    bool reads = networks_parse(&options.proxies, slice_of(app->config.proxies), mistake) &&
                 limit_terms_read(&options.limits, slice_of(app->config.limits), mistake);
    assert(reads); /* the table of options has looked */
    enum fault fault = guard_open(&app->guard, &options);
    if (fault != FAULT_NONE) return fault;
    fault = shop_share_limits(&app->shop, app->guard);
    if (fault != FAULT_NONE) guard_close(app->guard);
    return fault;
}

static void guard_stop(struct app *app)
{
    guard_close(app->guard);
}

static void lines_declare_all(struct app *app)
{
    struct line_declared declared[LINES_DECLARED_MAX];
    for (int64_t i = 0; i < app->config.lines_count; i++) {
        const struct config_line *line = &app->config.lines[i];
        memcpy(declared[i].name, line->name, sizeof declared[i].name);
        declared[i].terms = (struct line_terms){ (uint32_t)line->rate, (uint32_t)line->size, (uint32_t)line->timeout_ms };
    }
    lines_declare(app->lines, declared, (uint32_t)app->config.lines_count);
}

static enum fault lines_begin(struct app *app)
{
    const struct lines_options options = { .waiters_max = (uint32_t)app->config.connections_max,
                                           .heartbeat_ms = (uint32_t)app->config.place_heartbeat_ms };
    enum fault fault = lines_open(&app->lines, &options);
    if (fault != FAULT_NONE) return fault;
    lines_declare_all(app);
    return lines_start(app->lines);
}

static void lines_end(struct app *app)
{
    lines_close(app->lines);
}

static enum fault server_begin(struct app *app)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    /* Nodes file side by side: no number tells whether a replica has what somebody did just now. */
    bool replica = app->places.replica && !app->gate_place.shared;
    uint32_t reactors = app->config.reactors > 0 ? (uint32_t)app->config.reactors : (uint32_t)cores;
    struct server_options options = {
        .http = app->config.http,
        .resp = app->config.resp,
        .tls_cert = app->config.tls_cert,
        .tls_key = app->config.tls_key,
        .places = { &app->places.ledger, replica ? &app->places.read : NULL },
        .reactors = reactors < REACTORS_MAX ? reactors : REACTORS_MAX,
        .connections_max = (uint32_t)app->config.connections_max,
        .query_threads = (uint32_t)app->config.query_threads,
        .drain_ms_max = (uint32_t)app->config.drain_ms_max,
        .token_purchase_ttl_s = (uint32_t)app->config.token_purchase_ttl_s,
        .payment_tolerance_s = (uint32_t)app->config.payment_tolerance_s,
        .demo_payments = strcmp(app->config.demo_payments, "on") == 0,
        .seckill = strcmp(app->config.door_ticket, "on") == 0,
    };
    const struct doors doors = { .coupon = strcmp(app->config.door_coupon, "on") == 0,
                                 .claim = strcmp(app->config.door_claim, "on") == 0,
                                 .cart = strcmp(app->config.door_cart, "on") == 0 };
    doors_collect(&doors, &options.doors);
    const struct pages pages = { .site = strcmp(app->config.pages, "on") == 0, .demo_payments = options.demo_payments };
    pages_collect(&pages, &options.doors);
    if (pages.demo_payments) log_warn("main", "demo_payments is on: whoever has won can say that it is paid");
    const struct rooms rooms = { .gate = app->gate,
                                 .people = app->people,
                                 .clerk = app->clerk,
                                 .courier = app->courier,
                                 .publisher = app->publisher,
                                 .guard = app->guard,
                                 .lines = app->lines,
                                 .blocks = app->blocks,
                                 .payment_keys = app->payment_keys,
                                 .resp_accounts = app->resp_accounts };
    enum fault fault = server_open(&app->server, &options, &rooms);
    if (fault != FAULT_NONE) return fault;
    server_check_lines(app->server);
    app->server->luck_sale = (uint64_t)app->config.door_luck_sale;
    return server_start(app->server);
}

static void server_end(struct app *app)
{
    lines_shut(app->lines); /* those in line are answered, too */
    server_drain(app->server);
    server_close(app->server);
}

static const struct {
    const char *name;
    enum fault (*start)(struct app *app);
    void (*stop)(struct app *app);
} steps[] = {
    { "data folder", folder_start, folder_stop },
    { "ledger", ledger_start, ledger_stop },
    { "gate", gate_begin, gate_end }, /* replay: only what is proved is served */
    { "RESP accounts", resp_accounts_start, resp_accounts_end },
    { "people", people_start, people_end },
    { "payment secrets", payment_keys_start, payment_keys_end },
    { "clerk", clerk_start, clerk_stop },
    { "courier", courier_start, courier_stop },
    { "publisher", publisher_start, publisher_stop },
    { "block list", blocks_start, blocks_stop },
    { "guard", guard_start, guard_stop },
    { "lines", lines_begin, lines_end },
    { "gateway", server_begin, server_end },
};
#define STEPS (sizeof steps / sizeof *steps)

/* SIGHUP: the options that can change while running are read again; a mistake changes nothing. */
static void app_reload(struct app *app, int argc, char **argv)
{
    struct config config;
    struct config_mistake mistake;
    if (config_load(&config, config_file(argc, argv), argc, argv, &mistake) != FAULT_NONE) {
        log_error("main", "not reloaded: %s", mistake.text);
        return;
    }
    struct limit_terms limits, now;
    char wrong[LIMIT_MISTAKE_BYTES];
    bool reads = limit_terms_read(&limits, slice_of(config.limits), wrong);
    assert(reads);                                                        /* the table of options has looked */
    bool limits_changed = strcmp(app->config.limits, config.limits) != 0; /* else what an admin has set stays */
    int taken = config_reload(&app->config, &config, &mistake);
    log_set_level(log_level_of(app->config.log_level));
    server_reload_tls(app->server);
    people_reload(app->people);
    payment_keys_reload(app->payment_keys);
    resp_accounts_reload(app->resp_accounts);
    lines_declare_all(app);
    server_check_lines(app->server);
    app->server->luck_sale = (uint64_t)app->config.door_luck_sale;
    if (limits_changed) guard_change_limits(app->guard, &limits, LIMITS_ALL, &now);
    shed_set_memory(&app->guard->shed, memory_cap(&app->config));
    const struct courier_pace pace = courier_pace(&app->config);
    courier_set_pace(app->courier, &pace);
    log_info("main", "reloaded: %d options changed", taken);
    if (mistake.text[0] != '\0') log_warn("main", "these changed too and count only after a restart: %s", mistake.text);
}

/* SIGUSR2 is our own word for it, but anybody can say it. */
static bool disk_has_failed(struct app *app)
{
    struct gate_status status;
    gate_status(app->gate, &status);
    return status.poisoned;
}

static int disk_stop(struct app *app)
{
    log_error("main", "the disk failed: nothing can be promised any more; stopping");
    app->server->options.drain_ms_max = POISON_DRAIN_MS;
    return EXIT_FAILED;
}

/* Until told to stop; the exit code. */
static int app_wait(struct app *app, const sigset_t *signals, int argc, char **argv)
{
    for (uint64_t settle_ms = shop_publishing_ask(&app->shop);;) {
        int number = signals_await(signals, settle_ms);
        if (number == 0) {
            if (settle_ms == 0 || mono_ms() < settle_ms) continue; /* interrupted */
            shop_publishing_settle(&app->shop);
            settle_ms = 0;
        } else if (number == SIGHUP) {
            app_reload(app, argc, argv);
        } else if (number == SIGUSR2 && disk_has_failed(app)) {
            return disk_stop(app);
        } else if (number != SIGUSR2) {
            log_info("main", "stopping: answering what is under way");
            return EXIT_OK;
        }
    }
}

/* While proxies notice; being told once more ends it. The exit code. */
static int app_take_leave(struct app *app, const sigset_t *signals)
{
    uint64_t until_ms = mono_ms() + server_take_leave(app->server);
    while (mono_ms() < until_ms) {
        int number = signals_await(signals, until_ms);
        if (number == SIGUSR2 && disk_has_failed(app)) return disk_stop(app);
        if (number == SIGTERM || number == SIGINT) break;
    }
    return EXIT_OK;
}

int command_serve(int argc, char **argv)
{
    static struct app app;
    if (!command_options(&app.config, argc, argv)) return EXIT_USAGE;
    log_set_level(log_level_of(app.config.log_level));
    if (!command_places(&app.places, &app.config) || !command_gate(&app.gate_place, &app.config) ||
        !identity_good(&app.config))
        return EXIT_USAGE;
    snprintf(app.journal_folder, sizeof app.journal_folder, "%s/journal", app.config.data);
    command_path(app.keys_path, app.config.keys, app.config.data, "keys");
    command_path(app.blocks_path, app.config.blocks, app.config.data, "blocks");
    command_path(app.payment_keys_path, app.config.payment_keys, app.config.data, "payment_keys");

    sigset_t signals;
    signals_hold(&signals);
    size_t started = 0;
    enum fault fault = FAULT_NONE;
    while (started < STEPS && (fault = steps[started].start(&app)) == FAULT_NONE) started++;
    /* Of a ledger that is away nobody says so but the watch, which takes it for something that will pass. */
    if (fault != FAULT_NONE && ledger_watch_health(app.watch) >= LEDGER_GONE)
        log_error("main", "refusing to start: %s: the ledger does not answer; start again when it does",
                  steps[started].name);
    if (fault == FAULT_DAMAGE && !app.shop.damaged) shop_say_ledger_damaged(&app.config, &app.places.ledger, "");
    int code = fault == FAULT_NONE ? EXIT_OK : fault == FAULT_DAMAGE ? EXIT_DAMAGED : EXIT_FAILED;
    if (fault == FAULT_NONE) {
        const char *resp = app.server->resp_address;
        printf("listening http=%s%s%s\n", app.server->address, resp[0] != '\0' ? " resp=" : "", resp);
        fflush(stdout);
        ledger_watch_started(app.watch);
        code = app_wait(&app, &signals, argc, argv);
        if (code == EXIT_OK) code = app_take_leave(&app, &signals);
        ledger_watch_end(app.watch);
    }
    while (started > 0) steps[--started].stop(&app);
    return code;
}
