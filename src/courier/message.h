/* message: a notice as it goes over the wire, in the form of Standard Webhooks: {"type","timestamp","data"}.
 *
 * A message is made anew for every try, and is the same every time: it says what was true when it happened, not what has
 * become of it. Any thread. */
#ifndef STAMPEDE_COURIER_MESSAGE_H
#define STAMPEDE_COURIER_MESSAGE_H

#include "ledger/outbox.h"
#include "wire/signature.h"

/* Every byte of a buyer's name, a reason and a payment's name escaped to six, and the other members. */
#define MESSAGE_BYTES_MAX 4096
#define MESSAGE_ID_BYTES_MAX 48

struct json_out;
/* What every message has before and after its data; what is about an event stands between them: see opening.h. */
void message_begin(struct json_out *out, const struct notice *notice);
void message_end(struct json_out *out);
/* For notices about an order, a sale or nothing. order is used for notices about one, and has been read for them. The length
 * of the body. */
size_t message_render(char out[MESSAGE_BYTES_MAX], const struct notice *notice, const struct ledger_order *order);
/* "msg_", half of the journal's uuid and the notice's id, NUL-terminated: what receivers tell repetitions by. */
void message_id(char out[MESSAGE_ID_BYTES_MAX], const uint8_t uuid[16], uint64_t notice_id);
/* The text of webhook-signature: one signature, or two while the secret before still counts. False: the secrets cannot be
 * read. */
#define MESSAGE_SIGNATURES_BYTES_MAX (2 * SIGNATURE_TEXT_BYTES + 2)
bool message_sign(char out[MESSAGE_SIGNATURES_BYTES_MAX], const struct hook *hook, const struct signed_message *message,
                  uint64_t now_ms);

#endif
