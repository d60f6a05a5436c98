/* bounds: every maximum of the server in one place, with the relations between them asserted. Not named limits.h, which
 * would hide the C library's.
 *
 * A limit that an operator may turn is an option (config/options.h); its upper bound still stands here. */
#ifndef STAMPEDE_BOUNDS_H
#define STAMPEDE_BOUNDS_H

#include <stdint.h>

/* Names and texts, in bytes of UTF-8. Arrays that hold them have one byte more, for the NUL. */
#define BUYER_BYTES_MAX 64
#define USERNAME_BYTES_MAX 64
#define SALE_NAME_BYTES_MAX 128
#define SALE_DESCRIPTION_BYTES_MAX 2000
#define CURRENCY_BYTES 3
#define IDEMPOTENCY_KEY_BYTES_MAX 64
#define PAYMENT_REF_BYTES_MAX 64
#define CANCEL_REASON_BYTES_MAX 200
#define EVENT_NAME_BYTES_MAX 128
#define EVENT_DESCRIPTION_BYTES_MAX 2000
#define HOOK_URL_BYTES_MAX 500
#define HOOK_SECRET_BYTES_MAX 94
#define NOTICE_ERROR_BYTES_MAX 160
#define PASSWORD_CHARS_MIN 8
#define PASSWORD_CHARS_MAX 128

/* Sales and orders. */
#define STOCK_MAX UINT32_C(1000000000)
#define UNITS_PER_GRAB_MAX STOCK_MAX
#define GRABS_PER_BUYER_MAX UINT32_C(1000000)
/* Orders of one buyer in a sale that were cancelled or have expired. They stay in memory while the sale is open, so without
 * a bound one buyer who grabs and gives back would take the memory for everyone's; who shops in earnest stays far below. */
#define RETURNS_PER_BUYER_MAX 16
#define PRICE_MAX INT64_C(1000000000000)
#define AMOUNT_MAX INT64_C(9007199254740991) /* price x units_per_grab_max: exact in every JSON reader */
#define PAY_WITHIN_S_MAX UINT32_C(31536000)
#define TOKENS_MAX UINT32_C(1000000000) /* of one sale */
#define ADMIT_MAX UINT32_C(1000000000)
#define SALES_OPEN_MAX UINT32_C(16384)
#define SALE_NAMES_MAX UINT32_C(4194304)
#define ORDERS_OPEN_MAX UINT32_C(100000000)
#define TIME_MS_MAX UINT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

/* Journal. */
#define SECTOR_BYTES 512
#define RECORD_BYTES_MAX 4096
#define BATCH_BYTES_MAX (4u << 20)
#define SEGMENT_BYTES_MIN (1u << 20)
#define SEGMENT_BYTES_MAX (1u << 30)

/* HTTP. */
#define HTTP_HEAD_BYTES_MAX 8192
#define HTTP_HEADERS_MAX 64
#define HTTP_BODY_BYTES_MAX 65536
#define HTTP_HEAD_WAIT_MS_MAX 5000
#define HTTP_BODY_WAIT_MS_MAX 10000
#define HTTP_IDLE_WAIT_MS_MAX 30000
/* How long a server behind a proxy goes on answering when it is told to stop. deploy/nginx.conf has less for an idle
 * connection to us, so that no request is on its way to one that ends; and for leaving a node alone that did not answer, so
 * that one that was restarted is asked again by the time the next one ends. */
#define HTTP_LEAVE_MS_MAX 5000
#define TOKEN_BYTES_MAX 1024
#define EXTERNAL_TOKEN_BYTES_MAX 4096 /* of the operator's own provider */
#define PURCHASE_TOKEN_BYTES_MAX 160
#define LIST_LIMIT_MAX 200
#define LIST_LIMIT_DEFAULT 50

/* Lines. */
#define LINES_MAX 1024
#define LINES_DECLARED_MAX 16
#define LINE_NAME_BYTES_MAX 32
#define LINE_RATE_MAX UINT32_C(1000000)
#define LINE_SIZE_MAX UINT32_C(1000000)
#define LINE_TIMEOUT_MS_MAX UINT32_C(3600000)
#define LINE_PLACES_MAX UINT32_C(1000000)

/* Block list: lines of its file, with room for the list before it. */
#define BLOCKS_MAX UINT32_C(16000000)
#define BLOCKS_FILE_BYTES_MAX (512u << 20)

/* Threads. */
#define REACTORS_MAX 64
#define THREADS_MAX (REACTORS_MAX + 32)

_Static_assert(UNITS_PER_GRAB_MAX <= STOCK_MAX, "a grab never asks for more than a sale can offer");
_Static_assert(PRICE_MAX <= AMOUNT_MAX, "one unit of the dearest thing has an amount");
_Static_assert(SALE_DESCRIPTION_BYTES_MAX + SALE_NAME_BYTES_MAX + USERNAME_BYTES_MAX + LINE_NAME_BYTES_MAX + 256 <=
                   RECORD_BYTES_MAX,
               "the largest decision fits a record");
_Static_assert(HTTP_LEAVE_MS_MAX < HTTP_IDLE_WAIT_MS_MAX, "an idle connection of a proxy outlasts a leave");
_Static_assert(RECORD_BYTES_MAX < SEGMENT_BYTES_MIN / 4, "a batch of one record fits any segment");
_Static_assert(TOKEN_BYTES_MAX <= EXTERNAL_TOKEN_BYTES_MAX && EXTERNAL_TOKEN_BYTES_MAX < HTTP_HEAD_BYTES_MAX,
               "a token fits a head");

#endif
