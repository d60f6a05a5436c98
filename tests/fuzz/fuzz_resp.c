/* The first byte chooses where the stream is split in two; whole and split must read the same, in memory that ends where the
 * bytes do. */
#include "wire/resp.h"

#include <stdlib.h>

#define MUST(condition)                                                                                                     \
    do {                                                                                                                    \
        if (!(condition)) abort();                                                                                          \
    } while (0)

static const struct resp_limits limits = { RESP_ARGS_MAX, RESP_COMMAND_BYTES_MAX };

/* A sum over all that was read, so that two readings compare without being kept. */
static uint64_t mix(uint64_t sum, uint64_t value)
{
    return (sum ^ value) * UINT64_C(1099511628211);
}

static uint64_t mix_command(uint64_t sum, const struct resp_command *command, const char *data, size_t len)
{
    MUST(command->argc > 0 && command->argc <= limits.args_max);
    sum = mix(sum, command->argc);
    for (uint32_t i = 0; i < command->argc; i++) {
        struct slice argument = command->argv[i];
        MUST(argument.data >= data && argument.data + argument.len <= data + len);
        sum = mix(sum, argument.len);
        for (size_t k = 0; k < argument.len; k++) sum = mix(sum, (uint8_t)argument.data[k]);
    }
    return sum;
}

/* Every command comes twice where twice is true: it is put back, and is the same. */
static uint64_t read_all(const uint8_t *bytes, size_t size, size_t split, bool twice)
{
    struct resp_reader reader;
    struct resp_command command;
    uint64_t sum = 1;
    size_t begin = 0;
    resp_reader_init(&reader);
    for (size_t part = 0; part < 2; part++) {
        size_t end = part == 0 ? split : size;
        for (enum resp_progress progress = RESP_COMMAND; progress != RESP_MORE;) {
            size_t len = end - begin;
            char *copy = malloc(len > 0 ? len : 1);
            if (len > 0) memcpy(copy, bytes + begin, len);
            progress = resp_read(&reader, &limits, copy, len, &command);
            if (progress == RESP_COMMAND && twice) {
                resp_put_back(&reader, copy, &command);
                MUST(resp_read(&reader, &limits, copy, len, &command) == RESP_COMMAND);
            }
            if (progress == RESP_COMMAND) sum = mix_command(sum, &command, copy, len);
            free(copy);
            sum = progress == RESP_MORE ? sum : mix(sum, (uint64_t)progress);
            if (progress == RESP_MALFORMED) return sum;
            if (progress == RESP_MORE) break;
            MUST(command.bytes > 0 && command.bytes <= len);
            begin += command.bytes;
        }
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 4096) return 0;
    size_t split = (size_t)data[0] * (size - 1) / 255;
    MUST(read_all(data + 1, size - 1, 0, false) == read_all(data + 1, size - 1, split, true));
    return 0;
}
