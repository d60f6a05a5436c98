/* resp: the Redis protocol, bytes <-> commands and replies, no sockets. RESP2 and RESP3, arrays of bulk strings and inline
 * commands.
 *
 * The reader goes on where it stopped, so a command that drips in is read once, not once a drip; the caller keeps the bytes
 * of a command that is not whole, and may move them in between. Lines end with CR LF and nothing else; lengths are digits
 * and nothing else. Whatever is wrong is said in one sentence and ends the connection: after it nobody knows where the next
 * command begins. */
#ifndef STAMPEDE_WIRE_RESP_H
#define STAMPEDE_WIRE_RESP_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define RESP_ARGS_MAX 32
#define RESP_COMMAND_BYTES_MAX 16384

/* What a peer may send; tighter before it has said who it is. */
struct resp_limits {
    uint32_t args_max; /* at most RESP_ARGS_MAX */
    uint32_t bytes_max;
};

enum resp_progress {
    RESP_MORE,    /* not whole yet */
    RESP_COMMAND, /* out has it */
    RESP_EMPTY,   /* an empty line or array: nothing to answer */
    RESP_MALFORMED,
};

struct resp_command {
    uint32_t argc;
    struct slice argv[RESP_ARGS_MAX]; /* in the caller's bytes */
    size_t bytes;                     /* of the whole of it: where the next begins */
    const char *mistake;              /* RESP_MALFORMED: a sentence */
};

struct resp_reader {
    uint32_t at;       /* how many bytes of the command have been read */
    uint32_t scanned;  /* how far the end of the present line has been looked for */
    uint32_t args_due; /* 0: between commands */
    uint32_t argc;
    uint32_t bulk_len; /* of the argument that is due */
    bool in_bulk;
    bool put_back; /* a whole command is to come once more */
    struct {
        uint32_t at, len;
    } args[RESP_ARGS_MAX];
};

void resp_reader_init(struct resp_reader *reader);
/* data: all bytes since the last whole command. An inline command with quotes is unquoted where it stands. */
enum resp_progress resp_read(struct resp_reader *reader, const struct resp_limits *limits, char *data, size_t len,
                             struct resp_command *out);
/* The command that was just read from data comes once more, as it was: the bytes of one that is unquoted say something else
 * by then. */
void resp_put_back(struct resp_reader *reader, const char *data, const struct resp_command *command);

/* Replies, into a buffer of fixed size; what does not fit sets overflow and writes no more. version is 2 or 3. */
struct resp_out {
    char *data;
    size_t len, size;
    uint8_t version;
    bool overflow;
};

void resp_simple(struct resp_out *out, struct slice text); /* no CR or LF in it */
/* "-CODE detail"; bytes that would end the line become spaces. */
void resp_error(struct resp_out *out, const char *code, struct slice detail);
void resp_integer(struct resp_out *out, int64_t value);
void resp_bulk(struct resp_out *out, struct slice text);
void resp_number_text(struct resp_out *out, uint64_t value); /* a bulk string of digits: ids are opaque */
void resp_nil(struct resp_out *out);
void resp_array(struct resp_out *out, uint32_t count);
void resp_map(struct resp_out *out, uint32_t pairs); /* RESP2: an array of twice as many */

#endif
