#include "wire/http_chunk.h"

#include "wire/http_head.h"

/* More hexadecimal digits than any length we would take; leading zeros beyond them are a game we do not play. */
#define SIZE_DIGITS_MAX 8

/* A body, byte by byte. The names say what is expected next.
 *
 *   SIZE_FIRST → SIZE → [EXTENSION] → SIZE_LF → DATA → DATA_CR → DATA_LF → SIZE_FIRST …
 *   a chunk of size 0: SIZE_LF → LINE → END_LF, or a trailer: LINE → NAME → VALUE → VALUE_LF → LINE */
enum chunk_state {
    CHUNK_SIZE_FIRST, /* the zero of a fresh parser */
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_LINE,
    CHUNK_NAME,
    CHUNK_VALUE,
    CHUNK_VALUE_LF,
    CHUNK_END_LF,
    CHUNK_COMPLETE,
};

static int hex_value(char byte)
{
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
    return -1;
}

static bool is_visible(char byte)
{
    return (unsigned char)byte >= 0x20 && byte != 0x7f;
}

static enum problem size_digit(struct http_parser *parser, char byte)
{
    struct http_chunks *chunks = &parser->chunks;
    int digit = hex_value(byte);

    if (digit < 0 || chunks->size_digits == SIZE_DIGITS_MAX) return PROBLEM_BAD_REQUEST;
    chunks->size_digits++;
    chunks->left = chunks->left * 16 + (size_t)digit;
    if (chunks->left > HTTP_BODY_BYTES_MAX - parser->body_len) return PROBLEM_BODY_TOO_LARGE;
    chunks->state = CHUNK_SIZE;
    return PROBLEM_NONE;
}

/* One byte that is not data. */
static enum problem framing_byte(struct http_parser *parser, char byte)
{
    struct http_chunks *chunks = &parser->chunks;

    if (++chunks->framing > HTTP_FRAMING_BYTES_MAX) return PROBLEM_BODY_TOO_LARGE;
    switch ((enum chunk_state)chunks->state) {
    case CHUNK_SIZE_FIRST:
        chunks->left = 0;
        chunks->size_digits = 0;
        return size_digit(parser, byte);
    case CHUNK_SIZE:
        if (byte == '\r')
            chunks->state = CHUNK_SIZE_LF;
        else if (byte == ';')
            chunks->state = CHUNK_EXTENSION;
        else
            return size_digit(parser, byte);
        return PROBLEM_NONE;
    case CHUNK_EXTENSION:
        if (byte == '\r')
            chunks->state = CHUNK_SIZE_LF;
        else if (!is_visible(byte))
            return PROBLEM_BAD_REQUEST;
        return PROBLEM_NONE;
    case CHUNK_SIZE_LF:
        chunks->state = chunks->left > 0 ? CHUNK_DATA : CHUNK_LINE;
        return byte == '\n' ? PROBLEM_NONE : PROBLEM_BAD_REQUEST;
    case CHUNK_DATA_CR:
        chunks->state = CHUNK_DATA_LF;
        return byte == '\r' ? PROBLEM_NONE : PROBLEM_BAD_REQUEST;
    case CHUNK_DATA_LF:
        chunks->state = CHUNK_SIZE_FIRST;
        return byte == '\n' ? PROBLEM_NONE : PROBLEM_BAD_REQUEST;
    case CHUNK_LINE:
        if (byte == '\r')
            chunks->state = CHUNK_END_LF;
        else if (http_is_token((unsigned char)byte))
            chunks->state = CHUNK_NAME;
        else
            return PROBLEM_BAD_REQUEST;
        return PROBLEM_NONE;
    case CHUNK_NAME:
        if (byte == ':')
            chunks->state = CHUNK_VALUE;
        else if (!http_is_token((unsigned char)byte))
            return PROBLEM_BAD_REQUEST;
        return PROBLEM_NONE;
    case CHUNK_VALUE:
        if (byte == '\r')
            chunks->state = CHUNK_VALUE_LF;
        else if (!is_visible(byte) && byte != '\t')
            return PROBLEM_BAD_REQUEST;
        return PROBLEM_NONE;
    case CHUNK_VALUE_LF:
        chunks->state = CHUNK_LINE;
        return byte == '\n' ? PROBLEM_NONE : PROBLEM_BAD_REQUEST;
    case CHUNK_END_LF:
        chunks->state = CHUNK_COMPLETE;
        return byte == '\n' ? PROBLEM_NONE : PROBLEM_BAD_REQUEST;
    case CHUNK_DATA:
    case CHUNK_COMPLETE:
        break;
    }
    return PROBLEM_BAD_REQUEST;
}

enum problem http_chunk_decode(struct http_parser *parser, char *data, size_t len, bool *complete)
{
    struct http_chunks *chunks = &parser->chunks;
    char *body = data + parser->head_len;
    size_t have = len - parser->head_len;

    while (parser->body_seen < have && chunks->state != CHUNK_COMPLETE) {
        if (chunks->state == CHUNK_DATA) {
            size_t run = have - parser->body_seen < chunks->left ? have - parser->body_seen : chunks->left;
            memmove(body + parser->body_len, body + parser->body_seen, run);
            parser->body_len += run;
            parser->body_seen += run;
            chunks->left -= run;
            if (chunks->left == 0) chunks->state = CHUNK_DATA_CR;
        } else {
            enum problem problem = framing_byte(parser, body[parser->body_seen++]);
            if (problem != PROBLEM_NONE) return problem;
        }
    }
    *complete = chunks->state == CHUNK_COMPLETE;
    return PROBLEM_NONE;
}
