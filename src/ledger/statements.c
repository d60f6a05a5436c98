/* All SQL that runs after the schema is made. Values are bound, never written into the text. */
#include "ledger/sqlite.h"

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

/* A hold ends once (P6): a row changes only from the state the decision found. */
#define ORDER_AS_IT_WAS " WHERE no = ?1 AND sale = ?2 AND units = ?3"
_Static_assert(ORDER_HELD == 0 && ORDER_PAID == 1 && ORDER_CANCELLED == 2 && ORDER_EXPIRED == 3,
               "the statements have the numbers of enum order_state");

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
        " orders_made = orders_made + ?6, tokens_given = tokens_given + ?7 WHERE id = ?1",
    [STATEMENT_SALE_PAUSED] = "UPDATE sales SET paused = ?2 WHERE id = ?1",
    [STATEMENT_SALE_CLOSED] = "UPDATE sales SET closed = 1 WHERE id = ?1",
    [STATEMENT_ORDER_INSERT] = "INSERT INTO orders (" ORDER_COLUMNS ") VALUES "
                               "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, '', 0, 0, '')",
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

    [STATEMENT_ORDERS_LAST] = "SELECT coalesce(max(no), 0) FROM orders",
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

    [STATEMENT_ORDERS_LIST] = "SELECT " ORDER_COLUMNS " FROM orders"
                              " WHERE no < ?2 AND no >= ?8 AND (?3 < 0 OR state = ?3) ORDER BY no DESC LIMIT ?4",
    [STATEMENT_ORDERS_LIST_BUYER] =
        "SELECT " ORDER_COLUMNS " FROM orders INDEXED BY orders_by_buyer"
        " WHERE era = ?7 AND buyer = ?5 AND no < ?2 AND no >= ?8 AND (?3 < 0 OR state = ?3) AND (?6 = 0 OR sale = ?6)"
        " AND (?1 = '' OR (SELECT seller FROM sales WHERE id = sale) = ?1) ORDER BY no DESC LIMIT ?4",
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

    [STATEMENT_USER_INSERT] = "INSERT INTO users (username, role, password_hash, created_ms) VALUES (?1, ?2, ?3, ?4)",
    [STATEMENT_USER] = "SELECT username, role, password_hash FROM users WHERE username = ?1",
    [STATEMENT_REVOKED_INSERT] = "INSERT INTO revoked (token_id, expires_ms) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
    [STATEMENT_REVOKED_EACH] = "SELECT token_id, expires_ms FROM revoked WHERE expires_ms > ?1",
    [STATEMENT_REVOKED_DELETE] = "DELETE FROM revoked WHERE expires_ms <= ?1",
};
/* clang-format on */
