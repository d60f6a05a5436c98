#include "base/text.h"
#include "wire/resp.h"

static bool out_room(struct resp_out *out, size_t bytes)
{
    if (out->overflow || out->size - out->len < bytes) out->overflow = true;
    return !out->overflow;
}

static void out_bytes(struct resp_out *out, const char *data, size_t len)
{
    memcpy(out->data + out->len, data, len);
    out->len += len;
}

/* A sign, a number, the end of the line: 23 bytes at most. */
static void out_head(struct resp_out *out, char sign, uint64_t value)
{
    out->data[out->len++] = sign;
    out->len += text_from_u64(out->data + out->len, value);
    out_bytes(out, "\r\n", 2);
}

void resp_simple(struct resp_out *out, struct slice text)
{
    if (!out_room(out, text.len + 3)) return;
    out->data[out->len++] = '+';
    out_bytes(out, text.data, text.len);
    out_bytes(out, "\r\n", 2);
}

void resp_error(struct resp_out *out, const char *code, struct slice detail)
{
    size_t code_len = strlen(code);
    if (!out_room(out, code_len + detail.len + 4)) return;
    out->data[out->len++] = '-';
    out_bytes(out, code, code_len);
    out->data[out->len++] = ' ';
    for (size_t i = 0; i < detail.len; i++) {
        char c = detail.data[i];
        out->data[out->len++] = c == '\r' || c == '\n' ? ' ' : c;
    }
    out_bytes(out, "\r\n", 2);
}

void resp_integer(struct resp_out *out, int64_t value)
{
    if (!out_room(out, 24)) return;
    if (value >= 0) {
        out_head(out, ':', (uint64_t)value);
    } else {
        out->data[out->len++] = ':';
        out_head(out, '-', -(uint64_t)value);
    }
}

void resp_bulk(struct resp_out *out, struct slice text)
{
    if (!out_room(out, text.len + 25)) return;
    out_head(out, '$', text.len);
    if (text.len > 0) out_bytes(out, text.data, text.len);
    out_bytes(out, "\r\n", 2);
}

void resp_number_text(struct resp_out *out, uint64_t value)
{
    if (!out_room(out, 27)) return; /* its length has two digits at most */
    out_head(out, '$', text_digits(value));
    out->len += text_from_u64(out->data + out->len, value);
    out_bytes(out, "\r\n", 2);
}

void resp_nil(struct resp_out *out)
{
    struct slice nil = out->version == 3 ? SLICE("_\r\n") : SLICE("$-1\r\n");
    if (out_room(out, nil.len)) out_bytes(out, nil.data, nil.len);
}

void resp_array(struct resp_out *out, uint32_t count)
{
    if (out_room(out, 24)) out_head(out, '*', count);
}

void resp_map(struct resp_out *out, uint32_t pairs)
{
    if (!out_room(out, 24)) return;
    if (out->version == 3) {
        out_head(out, '%', pairs);
    } else {
        out_head(out, '*', UINT64_C(2) * pairs);
    }
}
