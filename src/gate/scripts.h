/* scripts: what runs inside Redis, for a gate that several machines share: the decisions about a sale, and what nodes have
 * among themselves.
 *
 * The scripts are the files of gate/scripts, joined with their parts and embedded when the server is built (tools/lua-join).
 * Each runs alone and whole: it reads and judges first, and looks at each key that it writes to; what it writes after that
 * cannot fail, but for the entry of the log, which comes first. (grab does so for one after the other.) Needs Redis 6.2 or
 * later, or Valkey; every key is named in KEYS, so a cluster takes them too.
 *
 * KEYS of those of a sale, all seven, in this order. P is the prefix; the braces put them on one machine of a cluster.
 *   P{sale:ID}:state   hash    terms, counts (packed, see below); loaded while a load is under way; claimed where a load
 *                              brought claims: the highest number of them
 *   P{sale:ID}:buyers  hash    buyer -> "grabs returns no": orders that count (held or paid), those that have ended, the
 *                              one that counted last (0: none)
 *   P{sale:ID}:orders  hash    number -> order line
 *   P{sale:ID}:keys    hash    buyer NUL key -> number; NUL id -> units added, for each id of a restock
 *   P{sale:ID}:tokens  hash    buyer -> nonce of a purchase token that is not spent
 *   P{sale:ID}:holds   zset    number, by pay_by
 *   P{sale:ID}:log     stream  what the ledger has to file
 *
 * An order line: "state units amount at pay_by nonce B K R buyer key ref", with a space between the numbers and after R and
 * none between the three texts, which are B, K and R bytes long. State is that of enum order_state; amount is -1 without a
 * price; pay_by 0 means paid at once; nonce 0 means none. ref is the payment's (paid, refund due), or the id under which it
 * was cancelled, or empty.
 *
 * ARGV[1] of each is the lineage of the server (redis.h) as the node sees it, ARGV[2] the epoch it believes in, or "" for
 * any. Numbers are decimal, without sign (but for -1 and withdrawals), zeros or spaces before them; wrong ones are
 * BAD_INPUT. Order numbers and nonces are made by the node: 1 to 2^63 - 1. They never become a number inside, for Lua's are
 * doubles.
 *
 * The reply is an array; its first element is a word: a verdict's (engine/verdict.h) or one of
 *   NOT_LOADED                         the sale is not in this Redis
 *   STALE run epoch at                 it was loaded under another lineage, or another epoch
 *   LOADING run epoch at               a load began at that time and has not ended
 *   FULL at available                  the log has reached its bound: nothing was taken
 *   DAMAGED why                        what stands in Redis contradicts itself; nothing was written for it: load it anew
 *   NUMBER_TAKEN at available          (grab) another order has the number: two nodes have the same node number
 *   NOT_EXPIRED, REFUND_DUE            (retake) held: pay it; not to be taken again: the money goes back
 * BAD_INPUT stands alone. All other replies go on with: at (ms; the time of the script, Redis's own, never below that of the
 * last decision), available (units, after the decision). After these, where the word is one of those named:
 *   integers                           grabs_left, and all that is at, available or a count
 *   bulk strings                       everything else; all that may exceed 2^53
 *
 *  script   ARGV[3]…                                       reply after word, at, available
 *  grab     (no buyer key made units nonce flags)…         for each: WON REPEATED ALREADY_WON: grabs_left entry no line
 *  token    nonce buyer admission before                   DONE REPEATED: nonce entry; ALREADY_WON: "0" "" no line
 *  pay      no ref amount kind                             DONE AMOUNT_MISMATCH REPEATED ALREADY_PAID NOT_HELD:
 *                                                          "" "" no line
 *  retake   no ref amount                                  DONE: "" entry no line; as pay, and NOT_EXPIRED REFUND_DUE:
 *                                                          "" "" no line
 *  cancel   no id                                          DONE REPEATED NOT_HELD: "" "" no line
 *  expire   no… (1 to GATE_ITEMS_MAX, none twice)          DONE: for each number DONE, NOT_HELD or NO_SUCH_ORDER
 *  undo     what no name entry                             NOT_HELD: "" "" no line
 *  restock  id add filed                                   DONE: "" entry
 *  change   version, nine terms, paused, closed            -
 *  load     shut
 *           begin GATE_SALE_NUMBERS
 *           chunk items                                    DONE: orders and tokens loaded so far
 *           end orders tokens
 *  peek     -                                              DONE: epoch, entries of the log, orders, tokens not spent, holds;
 *                                                          GATE_SALE_NUMBERS
 *  due      -                                              DONE: how many holds are due
 * entry is the id of the log's entry, to be deleted once it is filed; "" where this call made none. Where line is told, it
 * is of the order as it now is.
 *
 * grab: 1 to GATE_GRABS_MAX of them, GATE_GRAB_WORDS for each, decided one after the other; the reply is an array of as many
 * replies, in their order, or one for all (NOT_LOADED, STALE, LOADING, DAMAGED, BAD_INPUT where there are too few words or
 * too many). Verdicts as engine_decide_grab(), in its order. Before REPEATED comes WON with entry "" where this buyer's
 * order of this number is there already: asking again takes nothing. buyer "": nameless; made is the name that buyer_of()
 * makes of the key for those ("key:…" or "cut:…"; "" without a key); a claim is named by the script. nonce "0": none. flags:
 * letters b token_brought, a turned_away, t trusted, w won_first. BUSY: turned away, or nameless where the sale wants names.
 *
 * token: verdicts as engine_decide_token(). nonce is for a new one; before is token_ask's nonce, "0": none. A nonce whose
 * giving was answered is never brought again: once spent it would be given once more.
 *
 * Takes are decided here and filed after: grab, token, retake, and restock where it withdraws; each logs an entry. What the
 * ledger has decided is only told: pay, cancel, expire, change, and restock where it adds. That logs nothing, is never FULL,
 * and asks nothing that the ledger has judged by its own time.
 *
 * pay: kind is paid or refund_due; NOT_HELD where it cannot be. retake: where engine_decide_payment() would take an order
 * again, for a payment that came late; nothing else is ever written.
 *
 * cancel, expire: holds that have ended, whether they are due or not. id: 1 to GATE_ID_BYTES_MAX bytes; told again under the
 * same it is REPEATED.
 *
 * undo: what is "win" (name: the buyer) or "retake" (name: the payment's ref). Only for what the ledger has refused. The
 * order of a win is gone, its key and its number of wins free, its token the buyer's again; a claim number is not given
 * again. Its entry of the log is deleted in the same breath; with entry "" it stays, and the ledger refuses it once more.
 * DONE, NO_SUCH_ORDER (not there, or no longer: done before), NOT_HELD (it has gone on), BAD_INPUT (also: the entry is
 * another's).
 *
 * restock: verdicts as engine_decide_stock(), before them REPEATED or KEY_REUSED (other units) where the id was seen in this
 * epoch. filed: "0" for a withdrawal, which goes gate first. "1" for what the ledger has: that brings the epoch it was filed
 * in, for a later load has it.
 *
 * change: all that a seller sets, as the ledger has it under that version, which rises with each change; one not above the
 * last applied is REPEATED. So a version that is passed over is no change that is lost.
 *
 * peek: DAMAGED, too, where a key has another kind of value than it should have, whatever the epoch (why names the key), and
 * where terms or counts cannot be.
 *
 * load: shut ends all decisions of the epoch, whatever the lineage, so that what stands in the log is all there will be:
 * the answer to everybody is LOADING from then on. It drops keys that have another kind of value. begin forgets all seven
 * keys, the log too, unless the epoch is below the one there (STALE) or is open already (REPEATED). items of a chunk:
 * "order" no state units amount at pay_by nonce buyer key ref, "token" buyer nonce; 1 to GATE_ITEMS_MAX of them; those
 * that were there already are passed over, and of a buyer's tokens all but the last. end says how many of each were sent,
 * and opens the sale if they have all come and their units are those of the counts. A chunk or an end of another epoch is
 * STALE, after the end REPEATED. */
#ifndef STAMPEDE_GATE_SCRIPTS_H
#define STAMPEDE_GATE_SCRIPTS_H

#include "redis/redis.h"

#define GATE_SALE_SCRIPTS(ROW)                                                                                              \
    ROW(GRAB, grab)                                                                                                         \
    ROW(TOKEN, token)                                                                                                       \
    ROW(PAY, pay)                                                                                                           \
    ROW(RETAKE, retake)                                                                                                     \
    ROW(CANCEL, cancel)                                                                                                     \
    ROW(EXPIRE, expire)                                                                                                     \
    ROW(UNDO, undo)                                                                                                         \
    ROW(RESTOCK, restock)                                                                                                   \
    ROW(CHANGE, change)                                                                                                     \
    ROW(LOAD, load)                                                                                                         \
    ROW(PEEK, peek)                                                                                                         \
    ROW(DUE, due)

/* Of what nodes have among themselves; each has one key, and none of what is said above. */
#define GATE_NODE_SCRIPTS(ROW)                                                                                              \
    ROW(OWN, own)                                                                                                           \
    ROW(DISOWN, disown)                                                                                                     \
    ROW(REPORT, report)

#define GATE_SCRIPT_ENUM(upper, lower) GATE_SCRIPT_##upper,
enum gate_script_name { GATE_SALE_SCRIPTS(GATE_SCRIPT_ENUM) GATE_NODE_SCRIPTS(GATE_SCRIPT_ENUM) GATE_SCRIPT_COUNT };
#undef GATE_SCRIPT_ENUM
#define GATE_SALE_SCRIPT_COUNT GATE_SCRIPT_OWN /* those of nodes come after them */

extern const struct redis_script gate_scripts[GATE_SCRIPT_COUNT];

#define GATE_KEYS 7

/* The numbers of a sale, in the order in which load takes and peek tells them. From price to late_payment they are the nine
 * terms of change. t is the time of the last decision; log_max the most entries that the log may have. */
#define GATE_SALE_NUMBERS(ROW)                                                                                              \
    ROW(t)                                                                                                                  \
    ROW(offered)                                                                                                            \
    ROW(available)                                                                                                          \
    ROW(held)                                                                                                               \
    ROW(sold)                                                                                                               \
    ROW(orders_made)                                                                                                        \
    ROW(tokens_given)                                                                                                       \
    ROW(price)                                                                                                              \
    ROW(units_max)                                                                                                          \
    ROW(grabs_max)                                                                                                          \
    ROW(opens)                                                                                                              \
    ROW(closes)                                                                                                             \
    ROW(pay_within)                                                                                                         \
    ROW(admission)                                                                                                          \
    ROW(tokens_max)                                                                                                         \
    ROW(late_payment)                                                                                                       \
    ROW(paused)                                                                                                             \
    ROW(closed)                                                                                                             \
    ROW(log_max)                                                                                                            \
    ROW(version)

/* Entries of the log: takes. All have kind, epoch and at; what else, by kind. */
#define GATE_LOG_KINDS(ROW)                                                                                                 \
    ROW(won, "no order")                                                                                                    \
    ROW(token_given, "no buyer") /* no: the nonce */                                                                        \
    ROW(retaken, "no units ref")                                                                                            \
    ROW(stock_added, "id add")

/* What follows is written into the scripts by its name, as the bounds of bounds.h are. */
#define GATE_ITEMS_MAX 200
#define GATE_GRABS_MAX 16
#define GATE_GRAB_WORDS 7
#define GATE_ID_BYTES_MAX 64
#define GATE_LOG_MAX 100000000
#define GATE_ADMISSION_OPEN 0
#define GATE_ADMISSION_TOKEN 2
#define GATE_ADMISSION_LAST 3
#define GATE_LATE_PAYMENT_RETAKE 0
#define GATE_LATE_PAYMENT_LAST 1
/* struct.pack() of Lua: doubles, then the lineage and the epoch, each after a byte with its length. */
#define GATE_TERMS_FORMAT ">ddddddddddddddBc0Bc0"
#define GATE_COUNTS_FORMAT ">ddddddd"
#define GATE_COUNTS_BYTES 56

#endif
