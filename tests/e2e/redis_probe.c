/* The Redis client as a program, for tests that kill, pause and move the servers it talks to: redis_probe URL [OPTION=N …].
 *
 * With the option reach=MS it says what redis_reach() does, and ends. Else it reads commands from its standard input:
 *   call ID TIME_MS FLAGS KEY SCRIPT WORD…   SCRIPT is a name below, or -; FLAGS are letters: r with_lineage, l lenient, or
 * -; the first word of a script is its key. Answers "done ID RESULT RUN_ID CONNECTION REPLY" flood COUNT KEY so many calls
 * in one turn of the loop; "flood" and a count of each result stream COUNT KEYS WINDOW                 goes on with WINDOW
 * calls at a time, each with a number of its own, over so many keys, until COUNT have begun or it is halted; a call that did
 * not run waits a little halt FILE                                ends the stream; a line "NUMBER RESULT" for each of its
 * calls goes to FILE; "halted COUNT" status                                   "status" and its figures The end of the input
 * ends it. */
#include "base/log.h"
#include "base/text.h"
#include "redis/redis.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS_MAX 32
#define LINE_BYTES_MAX 65536
#define STREAM_MAX 4000000
#define STREAM_WINDOW_MAX 4096
#define PAUSE_MS 5

enum { SCRIPT_COUNT, SCRIPT_ECHO, SCRIPT_BROKEN, SCRIPT_HALF, SCRIPTS };
static const struct redis_script scripts[SCRIPTS] = {
    { "count", "return {redis.call('HINCRBY', KEYS[1], ARGV[2], 1), ARGV[1]}" },
    { "echo", "return {KEYS, ARGV}" },
    { "broken", "this is no Lua" },
    { "half", "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('HGET', KEYS[1], 'x')" },
};

struct asked {
    struct redis_call call;
    char id[32];
    struct slice argv[WORDS_MAX];
    char *text;
};

struct stream_call {
    struct redis_call call;
    uv_timer_t pause;
    struct slice argv[2];
    char key[32], number[20];
    uint32_t at;
};

static struct probe {
    uv_loop_t loop;
    struct redis *redis;
    struct redis_client *client;
    uv_pipe_t input;
    char line[LINE_BYTES_MAX];
    size_t line_len;
    bool ended;

    uint32_t flood_left, flood_counts[REDIS_UNKNOWN + 1];
    uint8_t *results; /* of the stream */
    uint32_t begun, answered, count, keys, under_way;
    bool halted;
    char file[512];
} probe;

static void reply_print(const struct redis_reply *reply)
{
    switch (reply->type) {
    case REDIS_NIL:
        printf("nil");
        break;
    case REDIS_NUMBER:
        printf("%lld", (long long)reply->number);
        break;
    case REDIS_TEXT:
    case REDIS_WORD:
    case REDIS_FAIL:
        printf("%s'%.*s'", reply->type == REDIS_FAIL ? "!" : "", (int)reply->text.len, reply->text.data);
        break;
    case REDIS_LIST:
        printf("[");
        for (size_t i = 0; i < reply->count; i++) {
            if (i > 0) printf(", ");
            reply_print(&reply->items[i]);
        }
        printf("]");
        break;
    }
}

static void asked_done(struct redis_call *call, const struct redis_reply *reply)
{
    struct asked *asked = (struct asked *)call;
    printf("done %s %s %s %llu ", asked->id, redis_result_word(call->result), call->lineage[0] != '\0' ? call->lineage : "-",
           (unsigned long long)call->connection);
    if (reply != NULL) reply_print(reply);
    printf("\n");
    free(asked->text);
    free(asked);
}

static int script_named(const char *name)
{
    for (int i = 0; i < SCRIPTS; i++) {
        if (strcmp(scripts[i].name, name) == 0) return i;
    }
    return REDIS_NO_SCRIPT;
}

static uint32_t number_of(const char *word)
{
    uint64_t number = 0;
    if (!text_to_u64(slice_of(word), &number)) abort();
    return (uint32_t)number;
}

static void command_call(char **words, uint32_t count)
{
    struct asked *asked = calloc(1, sizeof(*asked));
    if (asked == NULL || count < 7) abort();
    snprintf(asked->id, sizeof(asked->id), "%s", words[1]);
    asked->call.script = script_named(words[5]);
    asked->call.keys = asked->call.script != REDIS_NO_SCRIPT;
    asked->call.time_ms = number_of(words[2]);
    asked->call.with_lineage = strchr(words[3], 'r') != NULL;
    asked->call.lenient = strchr(words[3], 'l') != NULL;
    asked->call.argv = asked->argv;
    asked->call.done = asked_done;
    /* The words stand in one line, from the key to the end. */
    size_t bytes = (size_t)(words[count - 1] + strlen(words[count - 1]) + 1 - words[4]);
    asked->text = malloc(bytes);
    if (asked->text == NULL) abort();
    memcpy(asked->text, words[4], bytes);
    asked->call.key = slice_of(asked->text);
    for (uint32_t i = 6; i < count; i++) asked->argv[asked->call.argc++] = slice_of(asked->text + (words[i] - words[4]));
    redis_call(probe.client, &asked->call);
}

static void counts_print(const char *what, const uint32_t counts[REDIS_UNKNOWN + 1])
{
    printf("%s", what);
    for (int i = 0; i <= REDIS_UNKNOWN; i++) printf(" %s=%u", redis_result_word((enum redis_result)i), counts[i]);
    printf("\n");
}

static void flood_done(struct redis_call *call, const struct redis_reply *reply)
{
    (void)reply;
    probe.flood_counts[call->result]++;
    free((void *)call->argv);
    free(call);
    if (--probe.flood_left == 0) counts_print("flood", probe.flood_counts);
}

static void command_flood(uint32_t count, const char *key)
{
    static char key_kept[64];
    snprintf(key_kept, sizeof(key_kept), "%s", key);
    memset(probe.flood_counts, 0, sizeof(probe.flood_counts));
    probe.flood_left = count;
    for (uint32_t i = 0; i < count; i++) {
        struct redis_call *call = calloc(1, sizeof(*call));
        struct slice *argv = calloc(2, sizeof(*argv));
        if (call == NULL || argv == NULL) abort();
        argv[0] = SLICE("INCR");
        argv[1] = slice_of(key_kept);
        *call = (struct redis_call){
            .key = argv[1], .script = REDIS_NO_SCRIPT, .argc = 2, .argv = argv, .time_ms = 20000, .done = flood_done
        };
        redis_call(probe.client, call);
    }
}

static void pause_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void stream_end(void)
{
    FILE *file = fopen(probe.file, "w");
    if (file == NULL) abort();
    for (uint32_t i = 0; i < probe.begun; i++) {
        fprintf(file, "%u %s\n", i, redis_result_word((enum redis_result)probe.results[i]));
    }
    if (fclose(file) != 0) abort();
    printf("halted %u\n", probe.begun);
}

static void stream_next(struct stream_call *mine);

static void pause_over(uv_timer_t *timer)
{
    stream_next(timer->data);
}

static void stream_done(struct redis_call *call, const struct redis_reply *reply)
{
    struct stream_call *mine = (struct stream_call *)call;
    probe.results[mine->at] = (uint8_t)call->result;
    /* A first answer that is not 1 would mean that what ran was repeated. */
    if (call->result == REDIS_ANSWERED && (reply->count != 2 || reply->items[0].number != 1)) abort();
    if (call->result == REDIS_ANSWERED && !slice_is(reply->items[1].text, call->lineage)) abort();
    bool at_once = call->result == REDIS_ANSWERED;
    probe.answered += at_once;
    uv_timer_start(&mine->pause, pause_over, at_once ? 0 : PAUSE_MS, 0);
}

static void stream_next(struct stream_call *mine)
{
    if (probe.halted || probe.begun == probe.count) {
        uv_close((uv_handle_t *)&mine->pause, pause_closed);
        if (--probe.under_way == 0 && probe.halted && !probe.ended) stream_end();
        return;
    }
    mine->at = probe.begun++;
    snprintf(mine->key, sizeof(mine->key), "{k%u}:h", mine->at % probe.keys);
    mine->argv[0] = slice_of(mine->key);
    mine->argv[1] = (struct slice){ mine->number, text_from_u64(mine->number, mine->at) };
    mine->call = (struct redis_call){ .key = mine->argv[0],
                                      .script = SCRIPT_COUNT,
                                      .keys = 1,
                                      .argc = 2,
                                      .argv = mine->argv,
                                      .with_lineage = true,
                                      .done = stream_done };
    redis_call(probe.client, &mine->call);
}

static void command_stream(uint32_t count, uint32_t keys, uint32_t window)
{
    if (count > STREAM_MAX || window > STREAM_WINDOW_MAX || probe.under_way > 0) abort();
    if (probe.results == NULL) probe.results = malloc(STREAM_MAX);
    probe.begun = probe.answered = 0;
    probe.count = count;
    probe.keys = keys;
    probe.halted = false;
    probe.under_way = window;
    for (uint32_t i = 0; i < window; i++) {
        struct stream_call *mine = calloc(1, sizeof(*mine));
        if (mine == NULL) abort();
        uv_timer_init(&probe.loop, &mine->pause);
        mine->pause.data = mine;
        stream_next(mine);
    }
}

static void command_status(void)
{
    struct redis_status status;
    redis_status(probe.redis, &status);
    printf("status connected=%d masters=%u masters_connected=%u in_flight=%u calls=%llu repeats=%llu reconnects=%llu "
           "latency_us=%llu run_id=%s version=%s streamed=%u error=%s\n",
           status.connected, status.masters, status.masters_connected, status.in_flight, (unsigned long long)status.calls,
           (unsigned long long)status.repeats, (unsigned long long)status.reconnects, (unsigned long long)status.latency_us,
           status.run_id, status.version, probe.answered, status.error);
}

static void line_run(char *line)
{
    char *words[WORDS_MAX + 6], *rest = line, *word;
    uint32_t count = 0;
    while ((word = strsep(&rest, " ")) != NULL && count < WORDS_MAX) words[count++] = word;
    if (strcmp(words[0], "call") == 0)
        command_call(words, count);
    else if (strcmp(words[0], "flood") == 0)
        command_flood(number_of(words[1]), words[2]);
    else if (strcmp(words[0], "stream") == 0)
        command_stream(number_of(words[1]), number_of(words[2]), number_of(words[3]));
    else if (strcmp(words[0], "status") == 0)
        command_status();
    else if (strcmp(words[0], "halt") == 0) {
        snprintf(probe.file, sizeof(probe.file), "%s", words[1]);
        probe.halted = true;
        if (probe.under_way == 0) stream_end();
    } else
        abort();
}

static void input_place(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(probe.line + probe.line_len, (unsigned)(sizeof(probe.line) - probe.line_len));
}

static void input_done(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    (void)buf;
    if (got < 0) {
        probe.ended = probe.halted = true;
        uv_close((uv_handle_t *)stream, NULL);
        redis_client_close(probe.client);
        return;
    }
    probe.line_len += (size_t)got;
    char *end;
    while ((end = memchr(probe.line, '\n', probe.line_len)) != NULL) {
        *end = '\0';
        line_run(probe.line);
        size_t used = (size_t)(end + 1 - probe.line);
        memmove(probe.line, end + 1, probe.line_len - used);
        probe.line_len -= used;
    }
}

static int reach(uint32_t wait_ms)
{
    char sentence[REDIS_SENTENCE_BYTES];
    enum fault fault = redis_reach(probe.redis, wait_ms, sentence);
    if (fault == FAULT_NONE)
        printf("reached\n");
    else
        printf("%s %s\n", fault == FAULT_CONFIG ? "config" : "timeout", sentence);
    redis_close(probe.redis);
    return 0;
}

int main(int argc, char **argv)
{
    struct redis_options options = { .scripts = scripts, .scripts_count = SCRIPTS };
    char sentence[REDIS_SENTENCE_BYTES];
    uint32_t reach_ms = 0;
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *file = getenv("PASSWORD_FILE");
    if (argc < 2 || !redis_url_parse(&options.place, slice_of(argv[1]), sentence) ||
        !redis_password_find(options.password, file != NULL ? file : "", "STAMPEDE_REDIS_PASSWORD", sentence) ||
        !redis_password_find(options.sentinel_password, "", "STAMPEDE_REDIS_SENTINEL_PASSWORD", sentence)) {
        printf("%s\n", argc < 2 ? "redis_probe URL" : sentence);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');
        if (value == NULL) return 2;
        *value++ = '\0';
        if (strcmp(argv[i], "reach") == 0) reach_ms = number_of(value);
        if (strcmp(argv[i], "in_flight_max") == 0) options.in_flight_max = number_of(value);
        if (strcmp(argv[i], "call_ms") == 0) options.call_ms = number_of(value);
        if (strcmp(argv[i], "connect_ms") == 0) options.connect_ms = number_of(value);
    }
    if (redis_open(&probe.redis, &options) != FAULT_NONE) return 1;
    if (reach_ms > 0) return reach(reach_ms);

    if (uv_loop_init(&probe.loop) != 0 || uv_pipe_init(&probe.loop, &probe.input, 0) != 0) return 1;
    if (redis_client_open(&probe.client, probe.redis, &probe.loop) != FAULT_NONE) return 1;
    if (uv_pipe_open(&probe.input, 0) != 0) return 1;
    if (uv_read_start((uv_stream_t *)&probe.input, input_place, input_done) != 0) return 1;
    uv_run(&probe.loop, UV_RUN_DEFAULT);
    if (uv_loop_close(&probe.loop) != 0) abort();
    redis_close(probe.redis);
    free(probe.results);
    return 0;
}
