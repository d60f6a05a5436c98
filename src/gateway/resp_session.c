/* Who a peer is, and what client libraries ask before they begin. */
#include "base/clock.h"
#include "gateway/resp_commands.h"

#include <stdio.h>
#include <unistd.h>

/* The Redis whose protocol and answers these are: clients compare it with what they need. */
#define REDIS_VERSION "7.0.0"

void resp_ping(struct resp_call *call)
{
    if (call->argc > 1) {
        resp_bulk(call->out, call->argv[1]);
    } else {
        resp_simple(call->out, SLICE("PONG"));
    }
}

void resp_echo(struct resp_call *call)
{
    resp_bulk(call->out, call->argv[1]);
}

/* Guessing is bounded as it is for people, by account and address; their names are kept apart. False: has replied. */
static bool auth_try(struct resp_call *call, struct slice account, struct slice password)
{
    struct resp_peer *peer = call->peer;
    struct rooms *rooms = resp_rooms(call);
    char login[8 + RESP_ACCOUNT_BYTES_MAX];
    size_t len = account.len < RESP_ACCOUNT_BYTES_MAX ? account.len : RESP_ACCOUNT_BYTES_MAX;
    memcpy(login, "resp:", 5);
    memcpy(login + 5, account.data, len);
    struct slice name = { login, 5 + len };
    uint64_t now_ms = mono_ms(), retry_ms;
    if (!logins_may_try(rooms->guard->logins, name, &peer->address, now_ms, &retry_ms)) {
        char detail[64];
        int detail_len = snprintf(detail, sizeof detail, "wait %llu s", (unsigned long long)(retry_ms + 999) / 1000);
        const struct guard_visit visit = {
            .client = peer->address, .user = name, .method = "RESP", .path = "AUTH", .entered_ns = mono_ns()
        };
        guard_refused(rooms->guard, GUARD_LOGIN, &visit);
        resp_error(call->out, "TOO_MANY_TRIES", (struct slice){ detail, (size_t)detail_len });
        peer->close_after = true;
        return false;
    }
    const struct resp_account *found = resp_accounts_check(rooms->resp_accounts, account, password);
    if (found != NULL) {
        logins_succeeded(rooms->guard->logins, name, &peer->address, now_ms);
        peer->account = call->account = found;
        return true;
    }
    logins_failed(rooms->guard->logins, name, &peer->address, now_ms);
    resp_error(call->out, "WRONGPASS", SLICE("invalid username-password pair or user is disabled."));
    if (++peer->auth_failures >= RESP_AUTH_FAILURES_MAX) peer->close_after = true;
    return false;
}

void resp_auth(struct resp_call *call)
{
    struct slice account = call->argc == 3 ? call->argv[1] : SLICE("default");
    if (auth_try(call, account, call->argv[call->argc - 1])) resp_simple(call->out, SLICE("OK"));
}

static bool name_set(struct resp_call *call, struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] < '!' || name.data[i] > '~') {
            resp_error(call->out, "ERR", SLICE("Client names cannot contain spaces, newlines or special characters."));
            return false;
        }
    }
    if (name.len > RESP_CLIENT_NAME_BYTES_MAX) {
        resp_error(call->out, "ERR", SLICE("Client names have at most 64 bytes."));
        return false;
    }
    memcpy(call->peer->name, name.data, name.len);
    call->peer->name[name.len] = '\0';
    return true;
}

/* [AUTH account password] [SETNAME name], after the version. False: has replied. */
static bool hello_options(struct resp_call *call)
{
    for (uint32_t i = 2; i < call->argc;) {
        uint32_t left = call->argc - i;
        if (left >= 3 && resp_word_is(call->argv[i], "auth")) {
            if (!auth_try(call, call->argv[i + 1], call->argv[i + 2])) return false;
            i += 3;
        } else if (left >= 2 && resp_word_is(call->argv[i], "setname")) {
            if (!name_set(call, call->argv[i + 1])) return false;
            i += 2;
        } else {
            char detail[64];
            int shown = (int)(call->argv[i].len < 24 ? call->argv[i].len : 24);
            int len = snprintf(detail, sizeof detail, "Syntax error in HELLO option '%.*s'", shown, call->argv[i].data);
            resp_error(call->out, "ERR", (struct slice){ detail, (size_t)len });
            return false;
        }
    }
    return true;
}

static void field(struct resp_out *out, const char *key, const char *value)
{
    resp_bulk(out, slice_of(key));
    resp_bulk(out, slice_of(value));
}

void resp_hello(struct resp_call *call)
{
    struct resp_out *out = call->out;
    int64_t version = call->peer->version;
    if (call->argc > 1 && !resp_to_i64(call->argv[1], INT64_MIN, INT64_MAX, &version)) {
        resp_error(out, "ERR", SLICE("Protocol version is not an integer or out of range"));
        return;
    }
    if (version != 2 && version != 3) {
        resp_error(out, "NOPROTO", SLICE("unsupported protocol version"));
        return;
    }
    if (!hello_options(call)) return;
    if (call->peer->account == NULL) {
        resp_error(out, "NOAUTH",
                   SLICE("HELLO must be called with the client already authenticated, otherwise the HELLO "
                         "<proto> AUTH <user> <pass> option can be used to authenticate the client and "
                         "select the RESP protocol version at the same time"));
        return;
    }
    call->peer->version = out->version = (uint8_t)version;
    resp_map(out, 7);
    field(out, "server", "stampede");
    field(out, "version", REDIS_VERSION);
    resp_bulk(out, SLICE("proto"));
    resp_integer(out, version);
    resp_bulk(out, SLICE("id"));
    resp_integer(out, (int64_t)call->peer->id);
    field(out, "mode", "standalone");
    field(out, "role", "master");
    resp_bulk(out, SLICE("modules"));
    resp_array(out, 0);
}

void resp_select(struct resp_call *call)
{
    int64_t index;
    if (!resp_to_i64(call->argv[1], INT32_MIN, INT32_MAX, &index)) {
        resp_error(call->out, "ERR", SLICE("value is not an integer or out of range"));
    } else if (index != 0) {
        resp_error(call->out, "ERR", SLICE("DB index is out of range"));
    } else {
        resp_simple(call->out, SLICE("OK"));
    }
}

static void client_describe(struct resp_call *call)
{
    char text[256], host[ADDRESS_TEXT_BYTES];
    const struct resp_peer *peer = call->peer;
    address_print(host, &peer->address);
    int len = snprintf(text, sizeof text, "id=%llu addr=%s name=%s user=%s resp=%u\n", (unsigned long long)peer->id, host,
                       peer->name, call->account->name, peer->version);
    resp_bulk(call->out, (struct slice){ text, (size_t)len });
}

static void client_setname(struct resp_call *call)
{
    if (name_set(call, call->argv[2])) resp_simple(call->out, SLICE("OK"));
}

static void client_getname(struct resp_call *call)
{
    if (call->peer->name[0] == '\0') {
        resp_nil(call->out);
    } else {
        resp_bulk(call->out, slice_of(call->peer->name));
    }
}

static void client_id(struct resp_call *call)
{
    resp_integer(call->out, (int64_t)call->peer->id);
}

static void client_agree(struct resp_call *call)
{
    resp_simple(call->out, SLICE("OK"));
}

/* Of the many subcommands those that libraries send unasked, and those that tell a peer about itself: nobody is told of
 * others. */
static const struct {
    const char *word, *name;
    uint32_t argc_min, argc_max; /* with CLIENT and the word */
    void (*run)(struct resp_call *call);
} client_rows[] = {
    { "setname", "client|setname", 3, 3, client_setname },
    { "getname", "client|getname", 2, 2, client_getname },
    { "id", "client|id", 2, 2, client_id },
    { "setinfo", "client|setinfo", 4, 4, client_agree },
    { "no-evict", "client|no-evict", 3, 3, client_agree },
    { "no-touch", "client|no-touch", 3, 3, client_agree },
    { "info", "client|info", 2, 2, client_describe },
    { "list", "client|list", 2, RESP_ARGS_MAX, client_describe },
};

void resp_client(struct resp_call *call)
{
    for (size_t i = 0; i < sizeof client_rows / sizeof *client_rows; i++) {
        if (!resp_word_is(call->argv[1], client_rows[i].word)) continue;
        if (call->argc < client_rows[i].argc_min || call->argc > client_rows[i].argc_max) {
            resp_wrong_count(call, client_rows[i].name);
        } else {
            client_rows[i].run(call);
        }
        return;
    }
    resp_unknown_word(call);
}

void resp_info(struct resp_call *call)
{
    char text[768];
    const struct server *server = call->front->reactor->server;
    uint64_t clients = 0;
    for (uint32_t i = 0; i < server->reactor_count; i++) clients += resp_front_count(server->reactors[i]->resp);
    const char *colon = strrchr(server->resp_address, ':');
    int len = snprintf(text, sizeof text,
                       "# Server\r\nredis_version:" REDIS_VERSION "\r\nstampede_version:" STAMPEDE_VERSION
                       "\r\nredis_mode:standalone\r\nprocess_id:%ld\r\ntcp_port:%s\r\nuptime_in_seconds:%llu\r\n\r\n"
                       "# Clients\r\nconnected_clients:%llu\r\n\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n\r\n"
                       "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
                       (long)getpid(), colon != NULL ? colon + 1 : "0",
                       (unsigned long long)((mono_ms() - server->started_ms) / 1000), (unsigned long long)clients);
    resp_bulk(call->out, (struct slice){ text, (size_t)len });
}

/* The two that redis-benchmark asks for. */
void resp_config(struct resp_call *call)
{
    if (!resp_word_is(call->argv[1], "get") || call->argc < 3) {
        resp_error(call->out, "ERR", SLICE("options are set in the configuration of the server"));
        return;
    }
    bool save = resp_word_is(call->argv[2], "save"), append = resp_word_is(call->argv[2], "appendonly");
    resp_map(call->out, save || append ? 1 : 0);
    if (save) field(call->out, "save", "");
    if (append) field(call->out, "appendonly", "yes");
}

void resp_reset(struct resp_call *call)
{
    struct resp_peer *peer = call->peer;
    peer->version = call->out->version = 2;
    peer->name[0] = '\0';
    const struct resp_account *unasked = resp_accounts_unasked(resp_rooms(call)->resp_accounts);
    if (unasked != NULL) {
        peer->account = unasked;
    } else if (peer->account != NULL) {
        front_estrange(peer); /* only then: a stranger that says RESET gains no time */
    }
    resp_simple(call->out, SLICE("RESET"));
}

void resp_quit(struct resp_call *call)
{
    resp_simple(call->out, SLICE("OK"));
    call->peer->close_after = true;
}
