#include "command/demo_shop.h"

#include "base/clock.h"
#include "base/disk.h"
#include "base/random.h"
#include "command/command.h"
#include "people/people.h"
#include "wire/json_out.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_MS_MAX 60000
#define STOP_MS_MAX 15000
#define POLL_MS 50
#define LOG_SHOWN_BYTES 2000

/* Few grabs a second are many for a person, so the bots are the ones that meet the limit. The address is no sign here: all
 * of the crowd come from this machine. */
#define DEMO_LIMITS "user_grab_per_s=5,user_grab_burst=10,ip_grab_per_s=0,ip_write_per_s=0,ip_query_per_s=0"

void demo_shop_remove(struct demo_shop *shop)
{
    if (shop->folder[0] != '\0') demo_folder_remove(shop->folder);
    shop->folder[0] = '\0';
}

/* No 0, O, 1 or l: somebody is going to type it. */
static void password_make(struct demo_shop *shop)
{
    static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789";
    uint8_t bytes[DEMO_PASSWORD_BYTES - 1];
    _Static_assert(sizeof letters - 1 == 32, "a byte chooses evenly");
    random_bytes(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++) shop->password[i] = letters[bytes[i] % 32];
    shop->password[sizeof bytes] = '\0';
}

static bool admin_make(struct demo_shop *shop)
{
    static struct config config;
    enum people_result result = PEOPLE_FAILED;
    char *flags[] = { (char[]){ "--data" }, shop->data };
    if (!command_options(&config, 2, flags) || !command_places(&shop->places, &config)) return false;
    if (disk_folder_make(shop->data) != FAULT_NONE) return false;
    return people_admin_create(&shop->places.ledger, "admin", shop->password, &result) == FAULT_NONE && result == PEOPLE_OK;
}

/* In the new process. It is in a group of its own, so that Ctrl-C reaches us alone and we end it when all is done; and the
 * kernel ends it when we are gone without having done so. */
static void __attribute__((noreturn)) server_become(const struct demo_shop *shop, pid_t parent, int ready_fd)
{
    char log[DEMO_PATH_BYTES + 8];
    snprintf(log, sizeof log, "%s/log", shop->folder);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_FAILED); /* gone already */
    setpgid(0, 0);
    int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (none < 0 || log_fd < 0) _exit(EXIT_FAILED);
    if (dup2(none, STDIN_FILENO) < 0 || dup2(ready_fd, STDOUT_FILENO) < 0 || dup2(log_fd, STDERR_FILENO) < 0)
        _exit(EXIT_FAILED);
    execl("/proc/self/exe", "stampede", "serve", "--data", shop->data, "--http", shop->http, "--resp", "off", "--pages",
          "on", "--demo-payments", "on", "--limits", DEMO_LIMITS, "--journal-segment-mb", "4", "--space-mb-min", "16",
          "--drain-ms-max", "2000", (char *)NULL);
    _exit(EXIT_FAILED);
}

static void log_show(const struct demo_shop *shop)
{
    char path[DEMO_PATH_BYTES + 8], text[LOG_SHOWN_BYTES];
    int fd;
    uint64_t size;
    size_t got = 0;
    snprintf(path, sizeof path, "%s/log", shop->folder);
    if (disk_open(path, false, &fd) != FAULT_NONE) return;
    if (disk_size(fd, &size) == FAULT_NONE &&
        disk_read_at(fd, text, sizeof text, size > sizeof text ? size - sizeof text : 0, &got) == FAULT_NONE)
        fprintf(stderr, "the end of its log:\n%.*s\n", (int)got, text);
    disk_close(fd);
}

bool demo_shop_alive(struct demo_shop *shop)
{
    int status;
    if (shop->pid == 0) return false;
    if (waitpid(shop->pid, &status, WNOHANG) != shop->pid) return true;
    shop->pid = 0;
    fprintf(stderr, "\nstampede: the server has ended by itself (%s %d); ", WIFEXITED(status) ? "exit" : "signal",
            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    log_show(shop);
    return false;
}

/* "listening http=HOST:PORT" and maybe more; who listens everywhere listens on loopback, too. */
static bool address_take(struct demo_shop *shop, const char *line)
{
    static const char word[] = "listening http=", every4[] = "0.0.0.0:", every6[] = "[::]:";
    if (strncmp(line, word, sizeof word - 1) != 0) return false;
    const char *at = line + sizeof word - 1, *host = "";
    if (strncmp(at, every4, sizeof every4 - 1) == 0) {
        host = "127.0.0.1:";
        at += sizeof every4 - 1;
    } else if (strncmp(at, every6, sizeof every6 - 1) == 0) {
        host = "[::1]:";
        at += sizeof every6 - 1;
    }
    snprintf(shop->base, sizeof shop->base, "http://%s%.*s", host, (int)strcspn(at, " \n"), at);
    return true;
}

static bool server_await(struct demo_shop *shop, int ready_fd)
{
    char line[256];
    size_t len = 0;
    uint64_t end_ms = mono_ms() + READY_MS_MAX;
    while (mono_ms() < end_ms && !demo_interrupted()) {
        struct pollfd waits = { .fd = ready_fd, .events = POLLIN };
        if (poll(&waits, 1, POLL_MS) <= 0) continue;
        ssize_t got = read(ready_fd, line + len, sizeof line - 1 - len);
        if (got <= 0) break; /* it closed its output: it ends */
        len += (size_t)got;
        line[len] = '\0';
        if (memchr(line, '\n', len) != NULL) return address_take(shop, line);
        if (len == sizeof line - 1) break;
    }
    for (int i = 0; i < 20 && demo_shop_alive(shop); i++) poll(NULL, 0, POLL_MS); /* says how it ended */
    return false;
}

bool demo_shop_start(struct demo_shop *shop)
{
    int ready[2];
    pid_t parent = getpid();
    password_make(shop);
    if (!demo_folder_make(shop->folder)) return false;
    snprintf(shop->data, sizeof shop->data, "%s/data", shop->folder);
    if (!admin_make(shop) || !call_open(&shop->call)) return false;
    if (pipe2(ready, O_CLOEXEC) != 0) return false;
    fflush(NULL);
    shop->pid = fork();
    if (shop->pid == 0) server_become(shop, parent, ready[1]);
    close(ready[1]);
    if (shop->pid < 0) {
        fprintf(stderr, "stampede: cannot start the server: %s\n", strerror(errno));
        shop->pid = 0;
    }
    bool up = shop->pid != 0 && server_await(shop, ready[0]);
    close(ready[0]);
    return up;
}

bool demo_shop_stop(struct demo_shop *shop)
{
    int status = 0;
    call_close(&shop->call);
    if (shop->pid == 0) return false;
    kill(shop->pid, SIGTERM);
    uint64_t end_ms = mono_ms() + STOP_MS_MAX;
    while (waitpid(shop->pid, &status, WNOHANG) == 0) {
        if (mono_ms() > end_ms) kill(shop->pid, SIGKILL);
        poll(NULL, 0, POLL_MS);
    }
    shop->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OK;
}

/* True for an answer with this status; else it has been said what came instead. */
static bool shop_ask(struct demo_shop *shop, const struct call_ask *ask, long want)
{
    struct call_ask whole = *ask;
    whole.base = shop->base;
    long status = call_make(&shop->call, &whole);
    if (status != want)
        fprintf(stderr, "stampede: %s answered %ld: %.*s\n", ask->path, status, (int)shop->call.answer_len,
                shop->call.answer);
    return status == want;
}

bool demo_shop_look(struct demo_shop *shop, struct call_sale *out)
{
    char path[64];
    snprintf(path, sizeof path, "/v1/sales/%s", shop->sale);
    return shop_ask(shop, &(struct call_ask){ .path = path }, 200) && call_read_sale(&shop->call, out);
}

static void text_put(struct json_out *out, const char *key, const char *value)
{
    json_key(out, key);
    json_text(out, value);
}

static void number_put(struct json_out *out, const char *key, uint64_t value)
{
    json_key(out, key);
    json_u64(out, value);
}

static bool user_add(struct demo_shop *shop, const char *name, const char *role)
{
    char body[CALL_BODY_BYTES];
    struct json_out out;
    json_out_init(&out, body, sizeof body);
    json_object(&out);
    text_put(&out, "username", name);
    text_put(&out, "password", shop->password);
    text_put(&out, "role", role);
    json_object_end(&out);
    return shop_ask(shop, &(struct call_ask){ .path = "/v1/users", .body = { body, out.len } }, 201);
}

static bool seller_enter(struct demo_shop *shop, char token[TOKEN_BYTES_MAX + 1])
{
    char body[CALL_BODY_BYTES];
    struct json_out out;
    json_out_init(&out, body, sizeof body);
    json_object(&out);
    text_put(&out, "username", "seller");
    text_put(&out, "password", shop->password);
    json_object_end(&out);
    return shop_ask(shop, &(struct call_ask){ .path = "/v1/login", .body = { body, out.len } }, 200) &&
           call_read_token(&shop->call, token);
}

/* The first is the one that the crowd comes for; its stock and its times are asked for on the command line. */
static const struct {
    const char *name, *description;
    uint64_t price;
    uint32_t stock, opens_in_s, pay_within_s;
} sales[] = {
    { "Sneakers, limited edition", "One pair for each. The crowd of the demo wants these.", 12900, 0, 0, 0 },
    { "Coffee mugs", "On sale already, and nobody else is interested: try one.", 900, 40, 0, 120 },
    { "Concert tickets, front row", "They open in an hour.", 7500, 200, 3600, 600 },
};
#define SALES (sizeof sales / sizeof *sales)

static bool sale_add(struct demo_shop *shop, size_t n, const char *token)
{
    char body[CALL_BODY_BYTES];
    struct json_out out;
    struct call_sale made;
    bool wanted = n == 0;
    uint64_t opens_ms = wall_ms() + (wanted ? shop->open_in_s : sales[n].opens_in_s) * UINT64_C(1000);
    json_out_init(&out, body, sizeof body);
    json_object(&out);
    text_put(&out, "name", sales[n].name);
    text_put(&out, "description", sales[n].description);
    number_put(&out, "stock", wanted ? shop->stock : sales[n].stock);
    number_put(&out, "price", sales[n].price);
    text_put(&out, "currency", "EUR");
    json_key(&out, "opens_at");
    json_time(&out, opens_ms);
    number_put(&out, "pay_within_s", wanted ? shop->pay_within_s : sales[n].pay_within_s);
    json_object_end(&out);
    const struct call_ask ask = { .path = "/v1/sales", .token = token, .body = { body, out.len } };
    if (!shop_ask(shop, &ask, 201) || !call_read_sale(&shop->call, &made)) return false;
    if (wanted) {
        memcpy(shop->sale, made.id, sizeof shop->sale);
        shop->opens_ms = opens_ms;
    }
    return true;
}

bool demo_shop_open_sales(struct demo_shop *shop)
{
    char token[TOKEN_BYTES_MAX + 1];
    if (!user_add(shop, "seller", "seller") || !user_add(shop, "buyer", "customer")) return false;
    if (!seller_enter(shop, token)) return false;
    /* The last is made first: lists have the newest at the top. */
    for (size_t n = SALES; n-- > 0;) {
        if (!sale_add(shop, n, token)) return false;
    }
    return true;
}
