/* All SQL that runs after the schema is made. Values are bound, never written into the text. */
#include "ledger/database.h"
#include "ledger/events.h"
#include "ledger/outbox.h"
#include "ledger/schema.h"

/* As sale_state_at() of the engine: the first that applies. The numbers are those of enum sale_state. ?1 is now. */
#define STATE_AT                                                                                                            \
    "CASE WHEN over_ms <= ?1 THEN 4 WHEN opens_ms > ?1 THEN 0 WHEN paused THEN 2 WHEN available = 0 THEN 3 ELSE 1 END"
_Static_assert(SALE_UPCOMING == 0 && SALE_RUNNING == 1 && SALE_PAUSED == 2 && SALE_SOLD_OUT == 3 && SALE_CLOSED == 4,
               "STATE_AT has the numbers of enum sale_state");

/* Ids of the sales that are not over at ?1, or hold something: two indexes that hold only few, however many sales there
 * were. */
#define NOT_OVER_IDS                                                                                                        \
    "(SELECT id FROM sales INDEXED BY sales_by_end WHERE over_ms > ?1"                                                      \
    " UNION SELECT id FROM sales INDEXED BY sales_holding WHERE held > 0)"

/* In every list of orders: ?1 seller, ?2 below, ?3 state or -1, ?4 limit, ?5 buyer, ?6 sale, ?7 era, ?8 from.
 *
 * The seller's newest orders of each sale, then the newest of those: no scan of other sellers' orders, and none of all
 * orders of a big sale. */
#define SELLER_NEWEST                                                                                                       \
    "SELECT n.no FROM orders AS n WHERE n.sale = s.id AND n.no < ?2 AND n.no >= ?8 AND (?3 < 0 OR n.state = ?3)"            \
    " ORDER BY n.no DESC LIMIT ?4"
#define SELLER_NEWEST_ENDED                                                                                                 \
    "SELECT n.no FROM orders AS n INDEXED BY orders_ended"                                                                  \
    " WHERE n.state = ?3 AND n.state > 1 AND n.sale = s.id AND n.no < ?2 AND n.no >= ?8 ORDER BY n.no DESC LIMIT ?4"

/* What schema.c has an index for, in the same words: a ledger of an earlier release that is only read has none, and all of
 * these orders are looked through. */
#define OF_NODES "no >= " TEXT_OF(ORDERS_OF_NODES)
#define OF_BUYER                                                                                                            \
    "no < ?2 AND no >= ?8 AND (?3 < 0 OR state = ?3) AND (?6 = 0 OR sale = ?6)"                                             \
    " AND (?1 = '' OR (SELECT seller FROM sales WHERE id = sale) = ?1) ORDER BY no DESC LIMIT ?4"

/* A hold ends once (P6): a row changes only from the state the decision found. */
#define ORDER_AS_IT_WAS " WHERE no = ?1 AND sale = ?2 AND units = ?3"
_Static_assert(ORDER_HELD == 0 && ORDER_PAID == 1 && ORDER_CANCELLED == 2 && ORDER_EXPIRED == 3,
               "the statements have the numbers of enum order_state");

/* A row of the outbox is what it is about, and what became of it: it is due at once unless its stream has one before it that
 * is still pending. The number of a stream has what it is about in its two lowest bits: see outbox.c. */
#define OUTBOX_PARKED "9223372036854775807"
#define OUTBOX_FIELDS                                                                                                       \
    "(seller, kind, stream, sale, order_no, event, at_ms, state, since_ms, next_ms, attempts, status, error)"
#define STREAM_PENDING(stream) " FROM outbox AS o INDEXED BY outbox_by_stream WHERE o.stream = " stream " AND o.state = 0"
#define DUE_OR_PARKED(stream, due_ms)                                                                                       \
    "CASE WHEN EXISTS (SELECT 1" STREAM_PENDING(stream) ") THEN " OUTBOX_PARKED " ELSE " due_ms " END"
_Static_assert(NOTICE_PARKED == UINT64_C(9223372036854775807), "the statements have the time of a parked notice");
_Static_assert(NOTICE_TEST == 11, "the statements have the number of a test");
_Static_assert(NOTICE_PENDING == 0 && NOTICE_FAILED == 1, "the statements have the numbers of enum notice_state");

/* Notices are filed as things happen: the first one pending of a seller is the oldest. */
#define FIRST_PENDING_MS                                                                                                    \
    "(SELECT at_ms FROM outbox INDEXED BY outbox_by_seller WHERE outbox.seller = outbox_counts.seller AND state = 0"        \
    " ORDER BY id LIMIT 1)"

/* Sales that closes_at has closed in ?1 < time <= ?2 and whose seller had a hook by then. over_ms of one that its seller
 * closed is 0. */
#define CLOSINGS                                                                                                            \
    " FROM sales INDEXED BY sales_by_end JOIN hooks ON hooks.seller = sales.seller"                                         \
    " WHERE over_ms > ?1 AND over_ms <= ?2 AND over_ms > hooks.since_ms"

/* Events that have opened by now and are not told yet; and into how many parts their subscribers fall. */
#define OPENINGS(now) " FROM events INDEXED BY events_not_told WHERE told = 0 AND opens_ms <= " now
#define PARTS "(subscribers + 499) / 500"
_Static_assert(EVENT_PART_MAX == 500, "PARTS and NOTICE_HAPPENED have the size of a part");

/* Whether the kind of a notice n is told by its order o, its sale s or its event e. When an end was is known only of the
 * last one; a payment told twice may have told of its refund twice. */
#define NOTICE_HAPPENED                                                                                                     \
    "CASE n.kind WHEN 1 THEN n.at_ms = o.won_ms"                                                                            \
    " WHEN 2 THEN o.state = 1 AND o.pay_by_ms > 0 AND n.at_ms = o.ended_ms"                                                 \
    " WHEN 3 THEN o.state = 1 AND o.pay_by_ms > 0 AND n.at_ms = o.ended_ms AND n.at_ms >= o.pay_by_ms"                      \
    " WHEN 4 THEN o.canceller > 0 AND n.at_ms <= o.ended_ms AND (o.state = 4 OR n.at_ms = o.ended_ms)"                      \
    " WHEN 5 THEN o.canceller = 0 AND o.pay_by_ms > 0 AND o.state IN (1, 3, 4) AND n.at_ms <= o.ended_ms"                   \
    " AND n.at_ms >= o.pay_by_ms"                                                                                           \
    " AND (o.state <> 3 OR n.at_ms = o.ended_ms)"                                                                           \
    " WHEN 6 THEN o.state = 4 AND n.at_ms >= o.ended_ms"                                                                    \
    " WHEN 7 THEN n.order_no = 0 AND (s.epoch > 0 OR n.at_ms <= (SELECT at_ms FROM point))"                                 \
    " WHEN 8 THEN n.order_no = 0 AND s.closed"                                                                              \
    " WHEN 9 THEN n.order_no = 0 AND s.closes_ms > 0 AND n.at_ms = s.closes_ms"                                             \
    " WHEN 10 THEN e.told AND n.at_ms = e.opens_ms AND (n.part = 0 OR n.part * 500 < e.subscribers)"                        \
    " ELSE n.kind = 11 END"
_Static_assert(NOTICE_ORDER_WON == 1 && NOTICE_ORDER_REFUND_DUE == 6 && NOTICE_SALE_SOLD_OUT == 7 &&
                   NOTICE_SALE_TIMED_OUT == 9 && NOTICE_EVENT_OPENED == 10 && NOTICE_TEST == 11,
               "NOTICE_HAPPENED has the numbers of enum notice_kind");

/* clang-format off */
const char *const statement_sql[STATEMENT_COUNT] = {
    [STATEMENT_BEGIN] = "BEGIN IMMEDIATE",
    [STATEMENT_BEGIN_READ] = "BEGIN",
    [STATEMENT_COMMIT] = "COMMIT",
    [STATEMENT_POINT] = "SELECT seq, digest, at_ms, sale_id_last, uuid FROM point",
    [STATEMENT_POINT_MOVE] =
        "UPDATE point SET seq = ?1, digest = ?2, at_ms = ?3, sale_id_last = ?4, uuid = ?5 WHERE seq = ?6 AND digest = ?7",

    [STATEMENT_SALE_INSERT] = "INSERT INTO sales (" SALE_COLUMNS ") VALUES "
                              "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
                              " ?19, ?20, ?21, ?21, 0, 0, 0, 0, 0, 0)",
    [STATEMENT_SALE_TERMS] =
        "UPDATE sales SET name = ?3, description = ?4, currency = ?5, price = ?6, units_per_grab_max = ?7,"
        " grabs_per_buyer_max = ?8, opens_ms = ?9, closes_ms = ?10, pay_within_s = ?11, admission = ?12,"
        " tokens_max = ?13, admit_max = ?14, line_rate_per_s = ?15, line_size = ?16, line_timeout_ms = ?17,"
        " line_name = ?18, late_payment = ?19, event_id = ?20 WHERE id = ?1",
    [STATEMENT_SALE_COUNTS] =
        "UPDATE sales SET offered = offered + ?2, available = available + ?3, held = held + ?4, sold = sold + ?5,"
        " orders_made = orders_made + ?6, tokens_given = tokens_given + ?7, holds_made = holds_made + ?8,"
        " holds_paid = holds_paid + ?9, orders_cancelled = orders_cancelled + ?10, orders_expired = orders_expired + ?11,"
        " orders_refund_due = orders_refund_due + ?12, units_cancelled = units_cancelled + ?13,"
        " units_expired = units_expired + ?14, units_refund_due = units_refund_due + ?15,"
        " units_returned = units_returned + ?16, sold_out_ms = ?17 WHERE id = ?1",
    [STATEMENT_SALE_LEFT] = "SELECT " SALE_LEFT_COLUMNS " FROM sales WHERE id = ?1",
    [STATEMENT_SALE_LEFT_NOW] = "SELECT " SALE_LEFT_COLUMNS " FROM sales WHERE id = ?1",
    [STATEMENT_SALE_NUMBERS] =
        "SELECT holds_made, holds_paid, orders_cancelled, orders_expired, orders_refund_due, units_cancelled,"
        " units_expired, units_refund_due, units_returned, sold_out_ms, orders_made, held, sold FROM sales WHERE id = ?1",
    [STATEMENT_SALE_PAUSED] = "UPDATE sales SET paused = ?2 WHERE id = ?1",
    [STATEMENT_SALE_CLOSED] = "UPDATE sales SET closed = 1 WHERE id = ?1",
    [STATEMENT_ORDER_INSERT] = "INSERT INTO orders (" ORDER_COLUMNS ") VALUES "
                               "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, '', 0, 0, '')",
    [STATEMENT_ORDER_INSERT_NTH] = "INSERT INTO orders (" ORDER_COLUMNS ", nth) VALUES "
                                   "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, '', 0, 0, '', ?11)",
    [STATEMENT_ORDER_NTH] = "UPDATE orders SET nth = nullif(?2, 0) WHERE no = ?1",
    [STATEMENT_ORDER_PAY] =
        "UPDATE orders SET state = ?4, ended_ms = ?5, payment_ref = ?6" ORDER_AS_IT_WAS
        " AND (state = ?7 OR state = ?8) AND payment_ref = ''",
    [STATEMENT_ORDER_CANCEL] =
        "UPDATE orders SET state = 2, ended_ms = ?5, canceller = ?6, reason = ?7" ORDER_AS_IT_WAS " AND state = 0",
    [STATEMENT_ORDER_EXPIRE] = "UPDATE orders SET state = 3, ended_ms = ?5" ORDER_AS_IT_WAS " AND state = 0",
    [STATEMENT_TOKEN_INSERT] = "INSERT INTO tokens (" TOKEN_COLUMNS ") VALUES (?1, ?2, ?3, ?4, 0)",
    [STATEMENT_TOKEN_SPEND] =
        "UPDATE tokens SET spent = ?4 WHERE nonce = ?1 AND sale = ?2 AND buyer = ?3 AND spent = 0",
    [STATEMENT_TOKEN] = "SELECT " TOKEN_COLUMNS " FROM tokens WHERE nonce = ?1",

    [STATEMENT_SALE] = "SELECT " SALE_COLUMNS " FROM sales WHERE id = ?1",
    [STATEMENT_ORDER] = "SELECT " ORDER_COLUMNS " FROM orders WHERE no = ?1",
    [STATEMENT_ORDER_BY_KEY] =
        "SELECT " ORDER_COLUMNS " FROM orders WHERE sale = ?1 AND buyer = ?2 AND key = ?3 AND key <> ''",

    [STATEMENT_SALES_EACH] = "SELECT " SALE_COLUMNS " FROM sales ORDER BY id",
    [STATEMENT_SALES_NOT_OVER] = "SELECT " SALE_COLUMNS " FROM sales WHERE id IN " NOT_OVER_IDS " ORDER BY id",
    [STATEMENT_NAMES_EACH] = "SELECT seller, name, id FROM sales",
    [STATEMENT_ORDERS_EACH] = "SELECT " ORDER_COLUMNS " FROM orders ORDER BY no",
    [STATEMENT_ORDERS_EACH_OF] =
        "SELECT " ORDER_COLUMNS " FROM orders INDEXED BY orders_by_sale WHERE sale = ?1 ORDER BY no",
    [STATEMENT_SIZE] = "SELECT count(*), coalesce(sum(orders_made), 0) FROM sales",
    [STATEMENT_SALES_UNEVEN] =
        "SELECT s.id, coalesce(o.held, 0), coalesce(o.sold, 0) FROM sales AS s LEFT JOIN"
        " (SELECT sale, sum(units * (state = 0)) AS held, sum(units * (state = 1)) AS sold FROM orders GROUP BY sale) AS o"
        " ON o.sale = s.id WHERE s.held <> coalesce(o.held, 0) OR s.sold <> coalesce(o.sold, 0) ORDER BY s.id",
    [STATEMENT_SALES_MISCOUNTED] =
        "SELECT s.id FROM sales AS s LEFT JOIN (SELECT sale, count(*) AS made, sum(pay_by_ms > 0) AS holds,"
        " sum(pay_by_ms > 0 AND state = 1) AS paid, sum(state = 2) AS cancelled, sum(state = 3) AS expired,"
        " sum(state = 4) AS due, sum(units * (state = 2)) AS cancelled_units, sum(units * (state = 3)) AS expired_units,"
        " sum(units * (state = 4)) AS due_units FROM orders GROUP BY sale) AS o ON o.sale = s.id"
        " WHERE s.orders_made <> coalesce(o.made, 0) OR s.holds_made <> coalesce(o.holds, 0)"
        " OR s.holds_paid <> coalesce(o.paid, 0) OR s.orders_cancelled <> coalesce(o.cancelled, 0)"
        " OR s.orders_expired <> coalesce(o.expired, 0) OR s.orders_refund_due <> coalesce(o.due, 0)"
        " OR s.units_cancelled <> coalesce(o.cancelled_units, 0) OR s.units_expired <> coalesce(o.expired_units, 0)"
        " OR s.units_refund_due <> coalesce(o.due_units, 0)"
        " OR s.units_returned < s.units_cancelled + s.units_expired + s.units_refund_due ORDER BY s.id",
    [STATEMENT_OUTBOX_WRONG] =
        "SELECT wrong FROM (SELECT n.id, 'notice ' || n.id || ': ' || CASE"
        " WHEN n.kind NOT BETWEEN 1 AND 11 THEN 'there is no kind ' || n.kind"
        " WHEN n.kind <= 6 AND o.no IS NULL THEN 'order ' || n.order_no || ' is not in the ledger'"
        " WHEN n.kind <= 6 AND o.sale <> n.sale THEN 'order ' || n.order_no || ' is of another sale'"
        " WHEN n.kind <= 9 AND s.id IS NULL THEN 'sale ' || n.sale || ' is not in the ledger'"
        " WHEN n.kind <= 9 AND s.seller <> n.seller THEN 'sale ' || n.sale || ' is another seller''s'"
        " WHEN n.kind = 10 AND e.id IS NULL THEN 'event ' || n.event || ' is not in the ledger'"
        " WHEN n.kind = 10 AND e.seller <> n.seller THEN 'event ' || n.event || ' is another seller''s'"
        " WHEN n.kind <> 11 AND h.seller IS NULL THEN 'its seller has no webhook'"
        " WHEN n.kind <> 11 AND n.at_ms < h.since_ms THEN 'it is older than the webhook'"
        " WHEN NOT coalesce(" NOTICE_HAPPENED ", 0) THEN 'what it tells did not happen'"
        " WHEN n.stream <> CASE WHEN n.kind <= 6 THEN n.order_no * 4 WHEN n.kind <= 9 THEN n.sale * 4 + 1"
        " WHEN n.kind = 10 THEN n.event * 4 + 2 ELSE n.stream END THEN 'it is in the stream of something else' END AS wrong"
        " FROM outbox AS n LEFT JOIN hooks AS h ON h.seller = n.seller LEFT JOIN orders AS o ON o.no = n.order_no"
        " LEFT JOIN sales AS s ON s.id = n.sale LEFT JOIN events AS e ON e.id = n.event) AS judged"
        " WHERE wrong IS NOT NULL ORDER BY id",
    [STATEMENT_OUTBOX_TWICE] =
        "SELECT 'notice ' || max(id) || ': it tells what another tells' FROM outbox"
        " WHERE kind NOT IN (6, 7, 11) GROUP BY kind, sale, order_no, event, part HAVING count(*) > 1",
    [STATEMENT_EVENTS_WRONG] =
        "SELECT wrong FROM (SELECT id, 'event ' || id || ': ' || CASE WHEN subscribers <> found THEN 'it has ' || found ||"
        " ' subscribers and counts ' || subscribers WHEN found <> place_next"
        " THEN 'the places of its subscribers have a gap' END AS wrong FROM"
        " (SELECT id, subscribers, (SELECT count(*) FROM subscriptions WHERE event = events.id) AS found,"
        " (SELECT coalesce(max(place) + 1, 0) FROM subscriptions WHERE event = events.id) AS place_next FROM events)"
        " AS counted) AS judged WHERE wrong IS NOT NULL ORDER BY id",
    [STATEMENT_SUBSCRIPTIONS_WRONG] =
        "SELECT 'event ' || event || ': it has ' || count(*) || ' subscribers and is not there' FROM subscriptions"
        " WHERE event NOT IN (SELECT id FROM events) GROUP BY event",
    [STATEMENT_SALES_EVENTLESS] =
        "SELECT 'sale ' || id || ': its event ' || event_id || ' is not there' FROM sales INDEXED BY sales_by_event"
        " WHERE event_id > 0 AND event_id NOT IN (SELECT id FROM events) ORDER BY id",
    [STATEMENT_ORDERS_SPAN] =
        "SELECT coalesce(sum(orders_made), 0),"
        " coalesce(min((SELECT min(no) FROM orders WHERE sale = sales.id)), 0),"
        " coalesce((SELECT max(no) FROM orders), 0) FROM sales WHERE id IN " NOT_OVER_IDS,
    [STATEMENT_ORDERS_NOT_OVER] =
        "SELECT " ORDER_COLUMNS " FROM orders NOT INDEXED"
        " WHERE no >= ?2 AND sale IN " NOT_OVER_IDS " ORDER BY no",
    [STATEMENT_ORDERS_NOT_OVER_FEW] =
        "SELECT " ORDER_COLUMNS " FROM orders INDEXED BY orders_by_sale"
        " WHERE sale IN " NOT_OVER_IDS " ORDER BY no",
    [STATEMENT_TOKENS_NOT_OVER] =
        "SELECT " TOKEN_COLUMNS " FROM tokens INDEXED BY tokens_not_spent"
        " WHERE spent = 0 AND sale IN " NOT_OVER_IDS,
    [STATEMENT_TOKENS_EACH] = "SELECT " TOKEN_COLUMNS " FROM tokens ORDER BY nonce",

    [STATEMENT_ORDER_PLACE] = "SELECT count(*) FROM orders INDEXED BY orders_by_sale WHERE sale = ?1 AND no <= ?2",
    [STATEMENT_ORDERS_LAST] = "SELECT coalesce(max(no), 0) FROM orders WHERE no < ?1",
    [STATEMENT_ORDERS_FROM] = "SELECT no, won_ms FROM orders WHERE no >= ?1 ORDER BY no LIMIT 1",

    [STATEMENT_SALES_LIST] = "SELECT " SALE_COLUMNS " FROM sales WHERE id < ?2 AND (?3 < 0 OR " STATE_AT " = ?3)"
                             " ORDER BY id DESC LIMIT ?4",
    [STATEMENT_SALES_LIST_LIVE] = "SELECT " SALE_COLUMNS " FROM sales INDEXED BY sales_by_end"
                                  " WHERE over_ms > ?1 AND id < ?2 AND " STATE_AT " = ?3 ORDER BY id DESC LIMIT ?4",
    [STATEMENT_SALES_LIST_SELLER] = "SELECT " SALE_COLUMNS " FROM sales INDEXED BY sales_by_seller"
                                    " WHERE seller = ?5 AND id < ?2 AND (?3 < 0 OR " STATE_AT " = ?3)"
                                    " ORDER BY id DESC LIMIT ?4",
    [STATEMENT_SALES_LIST_EVENT] = "SELECT " SALE_COLUMNS " FROM sales INDEXED BY sales_by_event"
                                   " WHERE event_id = ?6 AND event_id > 0 AND id < ?2 AND (?5 = '' OR seller = ?5)"
                                   " AND (?3 < 0 OR " STATE_AT " = ?3) ORDER BY id DESC LIMIT ?4",

    [STATEMENT_SALES_PAGE] = "SELECT " SALE_COLUMNS " FROM sales INDEXED BY sales_by_seller"
                             " WHERE seller = ?1 ORDER BY id LIMIT ?2 OFFSET ?3",
    [STATEMENT_SALES_WON] = "SELECT " SALE_COLUMNS " FROM orders CROSS JOIN sales ON id = sale"
                            " WHERE buyer = ?1 AND " OF_NODES " AND state <= 1 ORDER BY no",
    [STATEMENT_SALES_WON_ERA] = "SELECT " SALE_COLUMNS " FROM orders INDEXED BY orders_by_buyer"
                                " CROSS JOIN sales ON id = sale WHERE era = ?2 AND buyer = ?1 AND state <= 1 ORDER BY no",

    [STATEMENT_ORDERS_LIST] = "SELECT " ORDER_COLUMNS " FROM orders"
                              " WHERE no < ?2 AND no >= ?8 AND (?3 < 0 OR state = ?3) ORDER BY no DESC LIMIT ?4",
    [STATEMENT_ORDERS_LIST_BUYER] = "SELECT " ORDER_COLUMNS " FROM orders WHERE buyer = ?5 AND " OF_NODES " AND " OF_BUYER,
    [STATEMENT_ORDERS_LIST_BUYER_ERA] =
        "SELECT " ORDER_COLUMNS " FROM orders INDEXED BY orders_by_buyer WHERE era = ?7 AND buyer = ?5 AND " OF_BUYER,
    [STATEMENT_ORDERS_LIST_SALE] =
        "SELECT " ORDER_COLUMNS " FROM orders INDEXED BY orders_by_sale"
        " WHERE sale = ?6 AND no < ?2 AND no >= ?8 AND (?3 < 0 OR state = ?3)"
        " AND (?1 = '' OR EXISTS (SELECT 1 FROM sales WHERE id = ?6 AND seller = ?1)) ORDER BY no DESC LIMIT ?4",
    [STATEMENT_ORDERS_LIST_SELLER] =
        "SELECT " ORDER_COLUMNS " FROM orders WHERE no IN"
        " (SELECT o.no FROM sales AS s CROSS JOIN orders AS o ON o.no IN (" SELLER_NEWEST ") WHERE s.seller = ?1)"
        " ORDER BY no DESC LIMIT ?4",
    [STATEMENT_ORDERS_LIST_ENDED] =
        "SELECT " ORDER_COLUMNS " FROM orders WHERE no IN (SELECT no FROM orders INDEXED BY orders_ended"
        " WHERE state = ?3 AND state > 1 AND no < ?2 AND no >= ?8 ORDER BY no DESC LIMIT ?4) ORDER BY no DESC",
    [STATEMENT_ORDERS_LIST_SALE_ENDED] =
        "SELECT " ORDER_COLUMNS " FROM orders INDEXED BY orders_ended"
        " WHERE state = ?3 AND state > 1 AND sale = ?6 AND no < ?2 AND no >= ?8"
        " AND (?1 = '' OR EXISTS (SELECT 1 FROM sales WHERE id = ?6 AND seller = ?1)) ORDER BY no DESC LIMIT ?4",
    [STATEMENT_ORDERS_LIST_SELLER_ENDED] =
        "SELECT " ORDER_COLUMNS " FROM orders WHERE no IN"
        " (SELECT o.no FROM sales AS s CROSS JOIN orders AS o ON o.no IN (" SELLER_NEWEST_ENDED ") WHERE s.seller = ?1)"
        " ORDER BY no DESC LIMIT ?4",

    /* A name that owns sales and has no user is that of a backend's account, or of a provider's user: nobody may take it. */
    [STATEMENT_USER_INSERT] =
        "INSERT INTO users (username, role, password_hash, created_ms) SELECT ?1, ?2, ?3, ?4"
        " WHERE NOT EXISTS (SELECT 1 FROM sales INDEXED BY sales_by_seller WHERE seller = ?1)",
    [STATEMENT_USER] = "SELECT username, role, password_hash FROM users WHERE username = ?1",
    [STATEMENT_SELLS] =
        "SELECT EXISTS (SELECT 1 FROM users WHERE username = ?1 AND role >= 2)"
        " OR EXISTS (SELECT 1 FROM sales INDEXED BY sales_by_seller WHERE seller = ?1)"
        " OR EXISTS (SELECT 1 FROM events INDEXED BY events_by_seller WHERE seller = ?1)",
    [STATEMENT_REVOKED_INSERT] = "INSERT INTO revoked (token_id, expires_ms) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    [STATEMENT_REVOKED_EACH] = "SELECT token_id, expires_ms FROM revoked WHERE expires_ms > ?1",
    [STATEMENT_REVOKED_DELETE] = "DELETE FROM revoked WHERE expires_ms <= ?1",

    [STATEMENT_HOOK] = "SELECT " HOOK_COLUMNS " FROM hooks WHERE seller = ?1",
    [STATEMENT_HOOK_PUT] =
        "INSERT INTO hooks (" HOOK_COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, '') ON CONFLICT (seller) DO UPDATE SET"
        " url = ?2, secret = ?3, secret_before = ?4, before_until_ms = ?5",
    [STATEMENT_HOOK_FAILED] = "UPDATE hooks SET failed_ms = ?2, error = ?3 WHERE seller = ?1",
    [STATEMENT_HOOK_DELETE] = "DELETE FROM hooks WHERE seller = ?1",
    [STATEMENT_HOOKS_EACH] = "SELECT " HOOK_COLUMNS " FROM hooks",
    [STATEMENT_HOOKS_WORST] =
        "SELECT hooks.seller, url, since_ms, failed_ms, error, coalesce(pending, 0), coalesce(failed, 0) FROM hooks"
        " LEFT JOIN outbox_counts ON outbox_counts.seller = hooks.seller"
        " ORDER BY 7 DESC, 6 DESC, hooks.seller LIMIT ?1",
    [STATEMENT_HOOKS_CHANGED] = "UPDATE outbox_mark SET hooks_version = hooks_version + 1",

    [STATEMENT_OUTBOX_MARK] = "SELECT hooks_version, told_ms, EXISTS (SELECT 1 FROM hooks) FROM outbox_mark",
    [STATEMENT_OUTBOX_TOLD] = "UPDATE outbox_mark SET told_ms = ?2 WHERE told_ms <= ?1",
    [STATEMENT_OUTBOX_SALE] =
        "SELECT seller, available, coalesce((SELECT since_ms FROM hooks WHERE hooks.seller = sales.seller), -1)"
        " FROM sales WHERE id = ?1",
    [STATEMENT_OUTBOX_INSERT] = "INSERT INTO outbox " OUTBOX_FIELDS " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?7, "
                                DUE_OR_PARKED("?3", "?7") ", 0, 0, '')",
    [STATEMENT_OUTBOX_INSERT_FIRST] =
        "INSERT INTO outbox " OUTBOX_FIELDS " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?7, ?7, 0, 0, '')",
    [STATEMENT_OUTBOX_CLOSINGS] = "SELECT EXISTS (SELECT 1" CLOSINGS ") OR EXISTS (SELECT 1" OPENINGS("?2") ")",
    [STATEMENT_OUTBOX_FILE_CLOSINGS] =
        "INSERT INTO outbox " OUTBOX_FIELDS " SELECT sales.seller, ?3, id * 4 + 1, id, 0, 0, over_ms, 0, over_ms, "
        DUE_OR_PARKED("sales.id * 4 + 1", "over_ms") ", 0, 0, ''" CLOSINGS " ORDER BY over_ms, id",
    [STATEMENT_OUTBOX_FILE_OPENINGS] =
        "INSERT INTO outbox (seller, kind, stream, sale, order_no, event, at_ms, state, since_ms, next_ms, attempts, status,"
        " error, part) WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 <"
        " (SELECT max(" PARTS ")" OPENINGS("?1") ")) SELECT events.seller, ?2, id * 4 + 2, 0, 0, id, opens_ms, 0, opens_ms,"
        " CASE WHEN n = 0 THEN opens_ms ELSE " OUTBOX_PARKED " END, 0, 0, '', n FROM events INDEXED BY events_not_told"
        " JOIN hooks ON hooks.seller = events.seller AND hooks.since_ms <= opens_ms JOIN numbers ON n < max(" PARTS ", 1)"
        " WHERE told = 0 AND opens_ms <= ?1 ORDER BY opens_ms, id, n",
    [STATEMENT_EVENTS_TOLD] = "UPDATE events SET told = 1 WHERE told = 0 AND opens_ms <= ?1",
    [STATEMENT_OUTBOX_SELLER] =
        "SELECT seller FROM outbox INDEXED BY outbox_due WHERE state = 0 AND seller > ?1"
        " AND next_ms <> " OUTBOX_PARKED " ORDER BY seller LIMIT 1",
    [STATEMENT_OUTBOX_DUE] = "SELECT " NOTICE_COLUMNS " FROM outbox INDEXED BY outbox_due"
                             " WHERE state = 0 AND seller = ?1 AND next_ms <= ?2 ORDER BY next_ms, id LIMIT ?3",
    [STATEMENT_OUTBOX_STREAM] = "SELECT stream FROM outbox WHERE id = ?1",
    [STATEMENT_OUTBOX_DELETE] = "DELETE FROM outbox WHERE id = ?1",
    [STATEMENT_OUTBOX_FAILED] = "UPDATE outbox SET attempts = attempts + 1, state = ?2, next_ms = ?3, status = ?4,"
                                " error = ?5 WHERE id = ?1 AND state = 0 AND since_ms = ?6",
    [STATEMENT_OUTBOX_NEXT] = "UPDATE outbox SET next_ms = ?2 WHERE next_ms = " OUTBOX_PARKED
                              " AND id = (SELECT min(o.id)" STREAM_PENDING("?1") ")",
    [STATEMENT_OUTBOX_STALE_SPAN] =
        "SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM (SELECT id FROM outbox INDEXED BY outbox_by_seller"
        " WHERE seller = ?1 AND state = 0 AND since_ms <= ?2 ORDER BY id LIMIT ?3)",
    [STATEMENT_OUTBOX_FAILED_SPAN] =
        "SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM (SELECT id FROM outbox INDEXED BY outbox_by_seller"
        " WHERE seller = ?1 AND state = 1 AND since_ms <= ?2 ORDER BY id LIMIT ?3)",
    [STATEMENT_OUTBOX_GIVE_UP] = "UPDATE outbox INDEXED BY outbox_by_seller SET state = 1 WHERE seller = ?1 AND state = 0"
                                 " AND id >= ?3 AND id <= ?4 AND since_ms <= ?2",
    [STATEMENT_OUTBOX_UNPARK] =
        "UPDATE outbox SET next_ms = ?2 WHERE next_ms = " OUTBOX_PARKED " AND id IN (SELECT (SELECT min(o.id)"
        STREAM_PENDING("b.stream") ") FROM outbox AS b INDEXED BY outbox_by_seller"
        " WHERE b.seller = ?1 AND b.state = ?5 AND b.id >= ?3 AND b.id <= ?4)",
    [STATEMENT_OUTBOX_RETRY] =
        "UPDATE outbox SET state = 0, attempts = 0, since_ms = ?3, next_ms = "
        DUE_OR_PARKED("outbox.stream AND o.id < ?2", "?3") " WHERE seller = ?1 AND id = ?2 AND state = 1",
    [STATEMENT_OUTBOX_RETRY_ALL] =
        "UPDATE outbox INDEXED BY outbox_by_seller SET state = 0, attempts = 0, since_ms = ?2, next_ms = " OUTBOX_PARKED
        " WHERE seller = ?1 AND state = 1 AND id >= ?3 AND id <= ?4 AND since_ms < ?2",
    [STATEMENT_OUTBOX_COUNTS] =
        "SELECT coalesce(sum(pending), 0), coalesce(sum(failed), 0), coalesce(min(" FIRST_PENDING_MS "), 0)"
        " FROM outbox_counts",
    [STATEMENT_OUTBOX_COUNTS_SELLER] =
        "SELECT pending, failed, coalesce(" FIRST_PENDING_MS ", 0) FROM outbox_counts WHERE seller = ?1",
    [STATEMENT_OUTBOX_LIST] = "SELECT " NOTICE_COLUMNS " FROM outbox INDEXED BY outbox_by_seller"
                              " WHERE seller = ?1 AND state = ?2 AND id < ?3 ORDER BY id DESC LIMIT ?4",
    [STATEMENT_OUTBOX_PURGE] =
        "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox INDEXED BY outbox_by_seller WHERE seller = ?1 LIMIT ?2)",
    [STATEMENT_OUTBOX_DROP] = "DELETE FROM outbox WHERE seller = ?1 AND id = ?2 AND state = 1",
    [STATEMENT_OUTBOX_DROP_ALL] =
        "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox INDEXED BY outbox_by_seller WHERE seller = ?1 AND state = 1"
        " ORDER BY id LIMIT ?2)",
    [STATEMENT_OUTBOX_TESTS_DROP] =
        "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox INDEXED BY outbox_tests"
        " WHERE kind = 11 AND seller = ?1 AND state = 1)",
    [STATEMENT_OUTBOX_TESTS] =
        "SELECT count(*) FROM outbox INDEXED BY outbox_tests WHERE kind = 11 AND seller = ?1 AND state = 0",

    [STATEMENT_EVENT_INSERT] = "INSERT INTO events (seller, name, description, opens_ms, created_ms, subscribers, told)"
                               " VALUES (?1, ?2, ?3, ?4, ?5, 0, 0)",
    [STATEMENT_EVENT] = "SELECT " EVENT_COLUMNS " FROM events WHERE id = ?1",
    [STATEMENT_EVENT_CHANGE] = "UPDATE events SET name = ?2, description = ?3, opens_ms = ?4 WHERE id = ?1",
    [STATEMENT_EVENT_COUNT] = "UPDATE events SET subscribers = subscribers + ?2 WHERE id = ?1",
    [STATEMENT_EVENT_PART] = "SELECT buyer FROM subscriptions INDEXED BY subscriptions_by_place"
                             " WHERE event = ?1 AND place >= ?2 AND place < ?3 ORDER BY place",
    [STATEMENT_EVENTS_LIST] = "SELECT " EVENT_COLUMNS " FROM events WHERE id < ?1 ORDER BY id DESC LIMIT ?2",
    [STATEMENT_EVENTS_LIST_SELLER] = "SELECT " EVENT_COLUMNS " FROM events INDEXED BY events_by_seller"
                                     " WHERE seller = ?3 AND id < ?1 ORDER BY id DESC LIMIT ?2",
    [STATEMENT_SUBSCRIBED] = "SELECT place FROM subscriptions WHERE event = ?1 AND buyer = ?2",
    [STATEMENT_SUBSCRIBE] = "INSERT INTO subscriptions (event, buyer, place) VALUES (?1, ?2, ?3)",
    [STATEMENT_PLACE_FILL] = "UPDATE subscriptions SET place = ?2 WHERE event = ?1 AND place = ?3",
    [STATEMENT_UNSUBSCRIBE] = "DELETE FROM subscriptions WHERE event = ?1 AND buyer = ?2",
    [STATEMENT_GOODS_OF_EVENT] = "SELECT id FROM sales INDEXED BY sales_by_event"
                                 " WHERE event_id = ?1 AND event_id > 0 AND name = ?2 LIMIT 1",
    [STATEMENT_GOODS_OF_EVENT_NAME] =
        "SELECT s.id FROM events AS e INDEXED BY events_by_name CROSS JOIN sales AS s INDEXED BY sales_by_event"
        " ON s.event_id = e.id AND s.event_id > 0 WHERE e.name = ?1 AND s.name = ?2"
        " ORDER BY s.over_ms > ?3 DESC, e.id LIMIT 1",

    [STATEMENT_PUBLISHING] =
        "SELECT name, state, waiting_max, told_ms, dropped, coalesce((SELECT min(id) FROM publications), 0),"
        " coalesce((SELECT max(id) FROM publications), 0) FROM publishing",
    [STATEMENT_PUBLISHING_SET] = "UPDATE publishing SET name = ?1, state = ?2, waiting_max = ?3, told_ms = ?4",
    [STATEMENT_PUBLISHING_TOLD] = "UPDATE publishing SET told_ms = ?2 WHERE told_ms <= ?1",
    [STATEMENT_PUBLICATION_INSERT] = "INSERT INTO publications (kind, sale, order_no, at_ms) VALUES (?1, ?2, ?3, ?4)",
    [STATEMENT_PUBLICATION_DELETE] = "DELETE FROM publications WHERE id = ?1",
    [STATEMENT_PUBLICATIONS] = "SELECT id, kind, sale, order_no, at_ms FROM publications"
                               " WHERE id > ?1 ORDER BY id LIMIT ?2",
    [STATEMENT_PUBLICATIONS_DROPPED] = "UPDATE publishing SET dropped = dropped + ?1",
    [STATEMENT_PUBLICATIONS_OLDEST] = "SELECT at_ms FROM publications ORDER BY id LIMIT 1",
    [STATEMENT_PUBLICATIONS_CLOSINGS] = "SELECT EXISTS (SELECT 1 FROM sales WHERE over_ms > ?1 AND over_ms <= ?2)",
    [STATEMENT_PUBLICATIONS_FILE_CLOSINGS] =
        "INSERT INTO publications (kind, sale, order_no, at_ms) SELECT ?3, id, 0, over_ms FROM sales"
        " WHERE over_ms > ?1 AND over_ms <= ?2 ORDER BY over_ms, id",
    [STATEMENT_PUBLICATIONS_WRONG] =
        "SELECT wrong FROM (SELECT n.id, 'publication ' || n.id || ': ' || CASE"
        " WHEN n.kind NOT BETWEEN 1 AND 9 THEN 'there is no kind ' || n.kind"
        " WHEN n.kind <= 6 AND o.no IS NULL THEN 'order ' || n.order_no || ' is not in the ledger'"
        " WHEN n.kind <= 6 AND o.sale <> n.sale THEN 'order ' || n.order_no || ' is of another sale'"
        " WHEN s.id IS NULL THEN 'sale ' || n.sale || ' is not in the ledger'"
        " WHEN NOT coalesce(" NOTICE_HAPPENED ", 0) THEN 'what it tells did not happen' END AS wrong"
        " FROM (SELECT id, kind, sale, order_no, at_ms, 0 AS part FROM publications) AS n"
        " LEFT JOIN orders AS o ON o.no = n.order_no LEFT JOIN sales AS s ON s.id = n.sale"
        " LEFT JOIN events AS e ON e.id = 0) AS judged WHERE wrong IS NOT NULL ORDER BY id",
    [STATEMENT_BUYER_LAST] = "SELECT nth FROM orders INDEXED BY orders_by_nth"
                             " WHERE sale = ?1 AND buyer = ?2 AND nth IS NOT NULL ORDER BY nth DESC LIMIT 1",
    [STATEMENT_BUYER_NTHS] = "SELECT nth, no FROM orders INDEXED BY orders_by_nth"
                             " WHERE sale = ?1 AND buyer = ?2 AND nth IS NOT NULL ORDER BY nth",
    [STATEMENT_WITHDRAWAL_INSERT] = "INSERT INTO withdrawals (no, sale, units, at_ms) VALUES (?1, ?2, ?3, ?4)",
    [STATEMENT_WITHDRAWAL] = "SELECT sale, units FROM withdrawals WHERE no = ?1",
    [STATEMENT_WITHDRAWALS_AFTER] = "SELECT no, units FROM withdrawals WHERE sale = ?1 AND no > ?2 ORDER BY no",
    [STATEMENT_ORDERS_DUE] =
        "SELECT no, units FROM orders INDEXED BY orders_by_sale"
        " WHERE sale = ?1 AND pay_by_ms > 0 AND pay_by_ms <= ?2 AND state = 0 AND nth IS NOT NULL"
        " ORDER BY pay_by_ms LIMIT ?3",
    [STATEMENT_ORDERS_NUMBER] =
        "UPDATE orders SET nth = wins.nth FROM (SELECT no, row_number() OVER (PARTITION BY buyer ORDER BY no) AS nth"
        " FROM orders INDEXED BY orders_by_sale WHERE sale = ?1 AND state <= 1) AS wins WHERE orders.no = wins.no",
    [STATEMENT_ERRAND_INSERT] =
        "INSERT INTO errands (kind, sale, epoch, order_no, units, made_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    [STATEMENT_ERRANDS] =
        "SELECT id, kind, sale, epoch, order_no, units, made_ms FROM errands WHERE id > ?1 AND made_ms < ?2"
        " ORDER BY id LIMIT ?3",
    [STATEMENT_ERRANDS_OF] =
        "SELECT id, kind, sale, epoch, order_no, units, made_ms FROM errands WHERE sale = ?1 ORDER BY id",
    [STATEMENT_ERRAND_DELETE] = "DELETE FROM errands WHERE id = ?1",
    [STATEMENT_AGREE] = "INSERT INTO agreed (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
    [STATEMENT_AGREE_ANEW] =
        "INSERT INTO agreed (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
    [STATEMENT_AGREED] = "SELECT value FROM agreed WHERE name = ?1",
    [STATEMENT_BUYERS_OVER] =
        "SELECT sale, count(*), max(grabs_per_buyer_max) FROM orders JOIN sales ON sales.id = sale WHERE state <= 1"
        " GROUP BY sale, buyer HAVING count(*) > max(grabs_per_buyer_max) ORDER BY sale",
    [STATEMENT_FENCE] = "SELECT number FROM fences WHERE job = ?1",
    [STATEMENT_FENCE_RAISE] =
        "INSERT INTO fences (job, number) VALUES (?1, 1) ON CONFLICT (job) DO UPDATE SET number = number + 1",
    [STATEMENT_SHELF_MOVE] = "UPDATE shelf SET version = version + 1",
    [STATEMENT_SHELF_VERSION] = "SELECT version FROM shelf",
    [STATEMENT_SALE_VERSION] = "UPDATE sales SET version = ?2 WHERE id = ?1",
    [STATEMENT_SALE_EPOCH] = "UPDATE sales SET epoch = epoch + 1, version = ?2 WHERE id = ?1",
    [STATEMENT_SALE_ID_LAST] = "SELECT coalesce(max(id), 0) FROM sales",
    [STATEMENT_SALES_LIVE_COUNT] =
        "SELECT count(*), coalesce(sum(seller = ?2), 0) FROM sales INDEXED BY sales_by_end WHERE over_ms > ?1",
    [STATEMENT_SALE_NAMED] = "SELECT id FROM sales WHERE seller = ?1 AND name = ?2",
    [STATEMENT_SHELVED] = "SELECT " SHELVED_COLUMNS " FROM sales WHERE id = ?1",
    [STATEMENT_SHELVED_NOT_OVER] = "SELECT " SHELVED_COLUMNS " FROM sales WHERE id IN " NOT_OVER_IDS " ORDER BY version",
    [STATEMENT_SHELVED_CHANGED] = "SELECT " SHELVED_COLUMNS " FROM sales INDEXED BY sales_by_version WHERE version > ?1"
                                  " ORDER BY version",
    [STATEMENT_REBUILD_ORDERS] = "SELECT " ORDER_COLUMNS ", coalesce(nth, 0) FROM orders INDEXED BY orders_by_sale"
                                 " WHERE sale = ?1 ORDER BY no",
    [STATEMENT_REBUILD_TOKENS] = "SELECT " TOKEN_COLUMNS " FROM tokens INDEXED BY tokens_not_spent"
                                 " WHERE sale = ?1 AND spent = 0",
    [STATEMENT_REVOKED_AFTER] = "SELECT id, token_id, expires_ms FROM revoked WHERE id > ?1 ORDER BY id",
    [STATEMENT_REFUSAL] = "SELECT no FROM refusals WHERE no = ?1",
    [STATEMENT_REFUSAL_INSERT] = "INSERT INTO refusals (no, sale) VALUES (?1, ?2) ON CONFLICT (no) DO NOTHING",
    [STATEMENT_REFUSAL_DELETE] = "DELETE FROM refusals WHERE no = ?1",
    [STATEMENT_REFUSALS_DELETE] = "DELETE FROM refusals WHERE sale = ?1",
    [STATEMENT_SALE_REFUSED] = "UPDATE sales SET refused_epoch = epoch WHERE id = ?1",
};
/* clang-format on */
