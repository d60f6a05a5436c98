/* resp_commands: what can be asked in the Redis protocol: the table of commands, and their handlers.
 *
 * A handler writes one reply. Verdicts about a sale are values; what cannot be done is an error, "-CODE detail", with the
 * codes of the HTTP API; mistakes that Redis has a word for have that word, because client libraries know it. */
#ifndef STAMPEDE_GATEWAY_RESP_COMMANDS_H
#define STAMPEDE_GATEWAY_RESP_COMMANDS_H

#include "gateway/resp_peer.h"

/* Finds the command and runs it, or takes it down where it is a grab. False: it has to wait, and is to be run again once the
 * pipeline goes on. */
bool resp_run(struct resp_call *call);
/* Answers the grabs that were taken down: before any other reply is written, and before the commands read are given up,
 * unless they may be left. */
void resp_grabs_answer(struct resp_call *call);
/* At the end of what a peer has sent. False: it has none, or they have to be answered. */
bool resp_grabs_leave(struct resp_call *call);
/* The name of command n for the metrics, NULL beyond the last. */
const char *resp_command_name(uint32_t n);

/* resp_session.c: who a peer is, and what client libraries ask before they begin */
void resp_ping(struct resp_call *call);
void resp_echo(struct resp_call *call);
void resp_auth(struct resp_call *call);
void resp_hello(struct resp_call *call);
void resp_select(struct resp_call *call);
void resp_client(struct resp_call *call);
void resp_info(struct resp_call *call);
void resp_config(struct resp_call *call);
void resp_reset(struct resp_call *call);
void resp_quit(struct resp_call *call);
/* resp_grabs.c */
void resp_grab(struct resp_call *call);
void resp_seckill(struct resp_call *call);
/* resp_sales.c */
void resp_sale_create(struct resp_call *call);
void resp_sale_left(struct resp_call *call);
void resp_sale_info(struct resp_call *call);
void resp_sale_stock(struct resp_call *call);
/* resp_orders.c */
void resp_order(struct resp_call *call);
void resp_pay(struct resp_call *call);
void resp_cancel(struct resp_call *call);

/* What they share, in resp_commands.c. */
bool resp_word_is(struct slice given, const char *word); /* in capitals or not */
void resp_problem(struct resp_call *call, enum problem problem, const char *detail);
/* The mistakes in Redis's own words; name is "command" or "command|subcommand". */
void resp_wrong_count(struct resp_call *call, const char *name);
void resp_unknown_word(struct resp_call *call); /* the word after the command */
/* The error of a verdict that is no success. */
void resp_verdict(struct resp_call *call, enum verdict verdict);
/* The sale that an argument means: an id, or the name of a sale of the account; 0 where it is none that ever was. */
uint64_t resp_sale(struct resp_call *call, struct slice sale);
static inline struct slice resp_account_name(const struct resp_call *call)
{
    return (struct slice){ call->account->name, call->account->name_len };
}
/* Digits, with a minus before them where that makes sense. */
bool resp_to_i64(struct slice text, int64_t min, int64_t max, int64_t *out);

/* resp_render.c: a sale and an order as maps, with the fields that they have in JSON. */
void resp_render_sale(struct resp_out *out, const struct sale *sale, uint64_t now_ms);
void resp_render_order(struct resp_out *out, const struct order *order);

#endif
