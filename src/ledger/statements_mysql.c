/* The statements that MySQL has to be told in its own way, with the parameters of those in statements.c. MySQL changes no
 * table that the same statement asks in a question within, and knows neither lists cut off within one: those are joined. */
#include "ledger/mysql_cursor.h"

/* As NOT_OVER_IDS of statements.c. */
#define LIVE                                                                                                                \
    "(SELECT id FROM sales FORCE INDEX (sales_by_end) WHERE over_ms > ?1"                                                   \
    " UNION SELECT id FROM sales FORCE INDEX (sales_holding) WHERE held > 0) AS live"

#define OUTBOX_PARKED "9223372036854775807"
#define OUTBOX_FIELDS                                                                                                       \
    "(seller, kind, stream, sale, order_no, event, at_ms, state, since_ms, next_ms, attempts, status, error)"
#define PARTS "(subscribers + 499) DIV 500"

/* A buyer's key of a sale as the generated column keyed has it. */
#define KEYED "concat(?1, ' ', length(?3), ' ', ?3, ?2)"
/* The orders of a buyer that count, as the generated column counted has them: after the space their nth follows. */
#define COUNTED                                                                                                             \
    " FROM orders FORCE INDEX (orders_by_nth) WHERE counted > concat(?1, ' ', length(?2), ' ', ?2, ' ')"                    \
    " AND counted < concat(?1, ' ', length(?2), ' ', ?2, '!')"

/* clang-format off */
const char *const statement_mysql[STATEMENT_COUNT] = {
    /* Who is about to change a sale's sums holds its row. */
    [STATEMENT_SALE_LEFT] = "SELECT " SALE_LEFT_COLUMNS " FROM sales WHERE id = ?1 FOR UPDATE",
    [STATEMENT_SALE_LEFT_NOW] = "SELECT " SALE_LEFT_COLUMNS " FROM sales WHERE id = ?1 FOR UPDATE NOWAIT",
    [STATEMENT_ORDER_BY_KEY] =
        "SELECT " ORDER_COLUMNS " FROM orders FORCE INDEX (orders_by_key) WHERE keyed = " KEYED " AND sale = ?1"
        " AND buyer = ?2 AND key = ?3 AND key <> ''",

    [STATEMENT_SALES_NOT_OVER] = "SELECT " SALE_COLUMNS " FROM sales JOIN " LIVE " USING (id) ORDER BY id",
    [STATEMENT_ORDERS_SPAN] =
        "SELECT coalesce(sum(orders_made), 0),"
        " coalesce(min((SELECT min(no) FROM orders WHERE sale = sales.id)), 0),"
        " coalesce((SELECT max(no) FROM orders), 0) FROM sales JOIN " LIVE " USING (id)",
    [STATEMENT_ORDERS_NOT_OVER] =
        "SELECT " ORDER_COLUMNS " FROM orders FORCE INDEX (PRIMARY) STRAIGHT_JOIN " LIVE " ON live.id = sale"
        " WHERE no >= ?2 ORDER BY no",
    [STATEMENT_ORDERS_NOT_OVER_FEW] =
        "SELECT " ORDER_COLUMNS " FROM " LIVE " STRAIGHT_JOIN orders FORCE INDEX (orders_by_sale) ON sale = live.id"
        " ORDER BY no",
    [STATEMENT_TOKENS_NOT_OVER] =
        "SELECT " TOKEN_COLUMNS " FROM " LIVE " STRAIGHT_JOIN tokens FORCE INDEX (tokens_not_spent)"
        " ON sale_not_spent = live.id",

    [STATEMENT_SALES_WON] =
        "SELECT " SALE_COLUMNS " FROM orders INDEXED BY orders_by_buyer CROSS JOIN sales ON id = sale"
        " WHERE buyer = ?1 AND state <= 1 ORDER BY no",
    [STATEMENT_ORDERS_LIST_BUYER] =
        "SELECT " ORDER_COLUMNS " FROM orders INDEXED BY orders_by_buyer"
        " WHERE buyer = ?5 AND no < ?2 AND no >= ?8 AND (?3 < 0 OR state = ?3) AND (?6 = 0 OR sale = ?6)"
        " AND (?1 = '' OR (SELECT seller FROM sales WHERE id = sale) = ?1) ORDER BY no DESC LIMIT ?4",
    [STATEMENT_ORDERS_LIST_SELLER] =
        "SELECT " ORDER_COLUMNS " FROM sales CROSS JOIN orders INDEXED BY orders_by_sale ON sale = id"
        " WHERE seller = ?1 AND no < ?2 AND no >= ?8 AND (?3 < 0 OR state = ?3) ORDER BY no DESC LIMIT ?4",
    [STATEMENT_ORDERS_LIST_ENDED] =
        "SELECT " ORDER_COLUMNS " FROM orders INDEXED BY orders_ended"
        " WHERE ended = ?3 AND no < ?2 AND no >= ?8 ORDER BY no DESC LIMIT ?4",
    [STATEMENT_ORDERS_LIST_SALE_ENDED] =
        "SELECT " ORDER_COLUMNS " FROM orders INDEXED BY orders_ended"
        " WHERE ended = ?3 AND sale = ?6 AND no < ?2 AND no >= ?8"
        " AND (?1 = '' OR EXISTS (SELECT 1 FROM sales WHERE id = ?6 AND seller = ?1)) ORDER BY no DESC LIMIT ?4",
    [STATEMENT_ORDERS_LIST_SELLER_ENDED] =
        "SELECT " ORDER_COLUMNS " FROM sales CROSS JOIN orders INDEXED BY orders_ended ON ended = ?3 AND sale = id"
        " WHERE seller = ?1 AND no < ?2 AND no >= ?8 ORDER BY no DESC LIMIT ?4",

    [STATEMENT_USER_INSERT] =
        "INSERT INTO users (username, role, password_hash, created_ms) SELECT ?1, ?2, ?3, ?4 FROM DUAL"
        " WHERE NOT EXISTS (SELECT 1 FROM sales WHERE seller = ?1)",
    [STATEMENT_REVOKED_INSERT] =
        "INSERT INTO revoked (token_id, expires_ms) VALUES (?1, ?2) ON DUPLICATE KEY UPDATE token_id = ?1",
    [STATEMENT_HOOK_PUT] =
        "INSERT INTO hooks (" HOOK_COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, '') ON DUPLICATE KEY UPDATE"
        " url = ?2, secret = ?3, secret_before = ?4, before_until_ms = ?5",

    [STATEMENT_OUTBOX_INSERT] =
        "INSERT INTO outbox " OUTBOX_FIELDS " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?7,"
        " CASE WHEN count(o.id) > 0 THEN " OUTBOX_PARKED " ELSE ?7 END, 0, 0, ''"
        " FROM outbox AS o FORCE INDEX (outbox_by_stream) WHERE o.stream = ?3 AND o.state = 0",
    [STATEMENT_OUTBOX_FILE_CLOSINGS] =
        "INSERT INTO outbox " OUTBOX_FIELDS " SELECT sales.seller, ?3, sales.id * 4 + 1, sales.id, 0, 0, over_ms, 0,"
        " over_ms, CASE WHEN count(o.id) > 0 THEN " OUTBOX_PARKED " ELSE over_ms END, 0, 0, ''"
        " FROM sales FORCE INDEX (sales_by_end) JOIN hooks ON hooks.seller = sales.seller"
        " LEFT JOIN outbox AS o FORCE INDEX (outbox_by_stream) ON o.stream = sales.id * 4 + 1 AND o.state = 0"
        " WHERE over_ms > ?1 AND over_ms <= ?2 AND over_ms > hooks.since_ms"
        " GROUP BY sales.id, sales.seller, over_ms ORDER BY over_ms, sales.id",
    [STATEMENT_OUTBOX_FILE_OPENINGS] =
        "INSERT INTO outbox (seller, kind, stream, sale, order_no, event, at_ms, state, since_ms, next_ms, attempts, status,"
        " error, part) WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 <"
        " (SELECT max(" PARTS ") FROM events FORCE INDEX (events_not_told) WHERE told = 0 AND opens_ms <= ?1))"
        " SELECT events.seller, ?2, id * 4 + 2, 0, 0, id, opens_ms, 0, opens_ms,"
        " CASE WHEN n = 0 THEN opens_ms ELSE " OUTBOX_PARKED " END, 0, 0, '', n FROM events FORCE INDEX (events_not_told)"
        " JOIN hooks ON hooks.seller = events.seller AND hooks.since_ms <= opens_ms"
        " JOIN numbers ON n < greatest(" PARTS ", 1) WHERE told = 0 AND opens_ms <= ?1 ORDER BY opens_ms, id, n",
    [STATEMENT_OUTBOX_NEXT] =
        "UPDATE outbox AS b JOIN (SELECT min(o.id) AS id FROM outbox AS o FORCE INDEX (outbox_by_stream)"
        " WHERE o.stream = ?1 AND o.state = 0) AS first ON first.id = b.id SET b.next_ms = ?2"
        " WHERE b.next_ms = " OUTBOX_PARKED,
    [STATEMENT_OUTBOX_STALE_SPAN] =
        "SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM (SELECT id FROM outbox INDEXED BY outbox_by_seller"
        " WHERE seller = ?1 AND state = 0 AND since_ms <= ?2 ORDER BY id LIMIT ?3) AS some",
    [STATEMENT_OUTBOX_FAILED_SPAN] =
        "SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM (SELECT id FROM outbox INDEXED BY outbox_by_seller"
        " WHERE seller = ?1 AND state = 1 AND since_ms <= ?2 ORDER BY id LIMIT ?3) AS some",
    [STATEMENT_OUTBOX_UNPARK] =
        "UPDATE outbox AS p JOIN (SELECT min(o.id) AS id FROM outbox AS b FORCE INDEX (outbox_by_seller)"
        " STRAIGHT_JOIN outbox AS o FORCE INDEX (outbox_by_stream) ON o.stream = b.stream AND o.state = 0"
        " WHERE b.seller = ?1 AND b.state = ?5 AND b.id >= ?3 AND b.id <= ?4 GROUP BY b.stream) AS first ON first.id = p.id"
        " SET p.next_ms = ?2 WHERE p.next_ms = " OUTBOX_PARKED,
    [STATEMENT_OUTBOX_RETRY] =
        "UPDATE outbox AS b JOIN (SELECT min(o.id) AS id FROM outbox AS me JOIN outbox AS o FORCE INDEX (outbox_by_stream)"
        " ON o.stream = me.stream AND o.state = 0 AND o.id < me.id WHERE me.id = ?2) AS before_it"
        " SET b.state = 0, b.attempts = 0, b.since_ms = ?3,"
        " b.next_ms = CASE WHEN before_it.id IS NULL THEN ?3 ELSE " OUTBOX_PARKED " END"
        " WHERE b.seller = ?1 AND b.id = ?2 AND b.state = 1",
    [STATEMENT_OUTBOX_PURGE] = "DELETE FROM outbox WHERE seller = ?1 LIMIT ?2",
    [STATEMENT_OUTBOX_DROP_ALL] = "DELETE FROM outbox WHERE seller = ?1 AND state = 1 ORDER BY id LIMIT ?2",
    [STATEMENT_OUTBOX_TESTS_DROP] = "DELETE FROM outbox WHERE tested = ?1 AND state = 1",
    [STATEMENT_OUTBOX_TESTS] = "SELECT count(*) FROM outbox INDEXED BY outbox_tests WHERE tested = ?1 AND state = 0",

    [STATEMENT_BUYER_LAST] = "SELECT nth" COUNTED " ORDER BY counted DESC LIMIT 1",
    [STATEMENT_BUYER_NTHS] = "SELECT nth, no" COUNTED " ORDER BY counted",
    [STATEMENT_ORDERS_DUE] =
        "SELECT no, units FROM orders FORCE INDEX (orders_held)"
        " WHERE sale_held = ?1 AND pay_by_ms > 0 AND pay_by_ms <= ?2 ORDER BY pay_by_ms LIMIT ?3",
    [STATEMENT_ORDERS_NUMBER] =
        "UPDATE orders JOIN (SELECT no, row_number() OVER (PARTITION BY buyer ORDER BY no) AS nth"
        " FROM orders FORCE INDEX (orders_by_sale) WHERE sale = ?1 AND state <= 1) AS wins ON orders.no = wins.no"
        " SET orders.nth = wins.nth",
    /* Held until the end of the transaction: nobody gets a higher number before what this one allowed is done. */
    [STATEMENT_AGREE] = "INSERT INTO agreed (name, value) VALUES (?1, ?2) ON DUPLICATE KEY UPDATE name = ?1",
    [STATEMENT_AGREE_ANEW] = "INSERT INTO agreed (name, value) VALUES (?1, ?2) ON DUPLICATE KEY UPDATE value = ?2",
    [STATEMENT_FENCE] = "SELECT number FROM fences WHERE job = ?1 LOCK IN SHARE MODE",
    [STATEMENT_FENCE_RAISE] = "INSERT INTO fences (job, number) VALUES (?1, 1) ON DUPLICATE KEY UPDATE number = number + 1",
    [STATEMENT_REFUSAL_INSERT] = "INSERT INTO refusals (no, sale) VALUES (?1, ?2) ON DUPLICATE KEY UPDATE no = ?1",
    [STATEMENT_SHELVED_NOT_OVER] = "SELECT " SHELVED_COLUMNS " FROM sales JOIN " LIVE " USING (id) ORDER BY version",
    [STATEMENT_REBUILD_TOKENS] =
        "SELECT " TOKEN_COLUMNS " FROM tokens FORCE INDEX (tokens_not_spent) WHERE sale_not_spent = ?1",
};
/* clang-format on */

/* Ends of orders as they come in crowds, with the parameters of their statements. Without the casts MySQL may take a number
 * for text, and find no index. */
#define EACH "CAST(?1 AS SIGNED) AS no, CAST(?2 AS SIGNED) AS sale, CAST(?3 AS SIGNED) AS units, CAST(?5 AS SIGNED) AS at_ms"
#define STATES "CAST(?4 AS SIGNED) AS state, CAST(?7 AS SIGNED) AS before_it, CAST(?8 AS SIGNED) AS before_too"
#define ENDED(set, more)                                                                                                    \
    ") AS d STRAIGHT_JOIN orders AS o ON o.no = d.no SET " set " WHERE o.sale = d.sale AND o.units = d.units AND " more

bool mysql_bulk_of(enum statement id, struct mysql_bulk *out)
{
    static const struct mysql_bulk expire = {
        "UPDATE (", "SELECT " EACH, " UNION ALL ", ENDED("o.state = 3, o.ended_ms = d.at_ms", "o.state = 0"), true,
    };
    static const struct mysql_bulk pay = {
        "UPDATE (",
        "SELECT " EACH ", " STATES ", ?6 AS ref",
        " UNION ALL ",
        ENDED("o.state = d.state, o.ended_ms = d.at_ms, o.payment_ref = d.ref",
              "(o.state = d.before_it OR o.state = d.before_too) AND o.payment_ref = ''"),
        true,
    };
    if (id != STATEMENT_ORDER_EXPIRE && id != STATEMENT_ORDER_PAY) return false;
    *out = id == STATEMENT_ORDER_PAY ? pay : expire;
    return true;
}
