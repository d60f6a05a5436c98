#include "courier/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define AT "\"timestamp\":\"1970-01-01T00:00:09.000Z\""
#define HEAD "\"order\":\"7\",\"sale\":\"3\",\"buyer\":\"ann\",\"units\":2,\"amount\":500,\"state\":"
#define TAIL ",\"won_at\":\"1970-01-01T00:00:05.000Z\",\"pay_by\":\"1970-01-01T00:01:05.000Z\""

/* The row is as it is at the end of its life; a message says what was true at its time. */
static void a_message_says_what_was_true_when_it_happened(void **state)
{
    (void)state;
    static const struct {
        enum notice_kind kind;
        const char *body;
    } script[] = {
        { NOTICE_ORDER_WON, "{\"type\":\"order.won\"," AT ",\"data\":{" HEAD "\"held\"" TAIL "}}" },
        { NOTICE_ORDER_PAID,
          "{\"type\":\"order.paid\"," AT ",\"data\":{" HEAD "\"paid\"" TAIL ",\"payment_ref\":\"pay-1\",\"late\":false}}" },
        { NOTICE_ORDER_PAID_LATE,
          "{\"type\":\"order.paid\"," AT ",\"data\":{" HEAD "\"paid\"" TAIL ",\"payment_ref\":\"pay-1\",\"late\":true}}" },
        { NOTICE_ORDER_CANCELLED, "{\"type\":\"order.cancelled\"," AT ",\"data\":{" HEAD "\"cancelled\"" TAIL
                                  ",\"cancelled_by\":\"seller\",\"reason\":\"broken\"}}" },
        { NOTICE_ORDER_EXPIRED, "{\"type\":\"order.expired\"," AT ",\"data\":{" HEAD "\"expired\"" TAIL "}}" },
        { NOTICE_ORDER_REFUND_DUE,
          "{\"type\":\"order.refund_due\"," AT ",\"data\":{" HEAD "\"refund_due\"" TAIL ",\"payment_ref\":\"pay-1\"}}" },
    };
    const struct ledger_order order = {
        .order = { .no = 7,
                   .sale_id = 3,
                   .buyer = "ann",
                   .units = 2,
                   .amount = 500,
                   .state = ORDER_REFUND_DUE,
                   .won_ms = 5000,
                   .pay_by_ms = 65000 },
        .payment_ref = "pay-1",
        .canceller = CANCELLER_SELLER,
        .reason = "broken",
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        const struct notice notice = { .kind = script[i].kind, .sale_id = 3, .order_no = 7, .at_ms = 9000 };
        char body[MESSAGE_BYTES_MAX];
        size_t len = message_render(body, &notice, &order);
        assert_int_equal(len, strlen(script[i].body));
        assert_memory_equal(body, script[i].body, len);
    }
}

static void sales_and_tests_are_named(void **state)
{
    (void)state;
    static const struct {
        struct notice notice;
        const char *body;
    } script[] = {
        { { .kind = NOTICE_SALE_SOLD_OUT, .sale_id = 3, .at_ms = 9000 },
          "{\"type\":\"sale.sold_out\"," AT ",\"data\":{\"sale\":\"3\"}}" },
        { { .kind = NOTICE_SALE_CLOSED, .sale_id = 3, .at_ms = 9000 },
          "{\"type\":\"sale.closed\"," AT ",\"data\":{\"sale\":\"3\",\"closed_by\":\"seller\"}}" },
        { { .kind = NOTICE_SALE_TIMED_OUT, .sale_id = 3, .at_ms = 9000 },
          "{\"type\":\"sale.closed\"," AT ",\"data\":{\"sale\":\"3\",\"closed_by\":\"time\"}}" },
        { { .kind = NOTICE_TEST, .at_ms = 9000 }, "{\"type\":\"webhook.test\"," AT ",\"data\":{}}" },
    };
    for (size_t i = 0; i < sizeof script / sizeof *script; i++) {
        char body[MESSAGE_BYTES_MAX];
        size_t len = message_render(body, &script[i].notice, NULL);
        assert_int_equal(len, strlen(script[i].body));
        assert_memory_equal(body, script[i].body, len);
    }
}

static void the_longest_message_fits(void **state)
{
    (void)state;
    struct ledger_order order = {
        .order = { .no = INT64_MAX,
                   .sale_id = INT64_MAX,
                   .units = UINT32_MAX,
                   .amount = AMOUNT_MAX,
                   .won_ms = TIME_MS_MAX,
                   .pay_by_ms = TIME_MS_MAX },
        .canceller = CANCELLER_SELLER,
    };
    memset(order.order.buyer, '"', BUYER_BYTES_MAX);
    memset(order.reason, '\\', CANCEL_REASON_BYTES_MAX);
    memset(order.payment_ref, '"', PAYMENT_REF_BYTES_MAX);
    char body[MESSAGE_BYTES_MAX];
    const struct notice notice = { .kind = NOTICE_ORDER_CANCELLED, .sale_id = 1, .order_no = 1, .at_ms = TIME_MS_MAX };
    assert_in_range(message_render(body, &notice, &order), 600, MESSAGE_BYTES_MAX);
}

static void both_secrets_sign_while_one_takes_over(void **state)
{
    (void)state;
    struct hook hook = { .before_until_ms = 1000 };
    signature_secret_make(hook.secret);
    signature_secret_make(hook.secret_before);
    char id[MESSAGE_ID_BYTES_MAX], signatures[MESSAGE_SIGNATURES_BYTES_MAX];
    const uint8_t uuid[16] = { 0xab, 1, 2, 3, 4, 5, 6, 7, 8 };
    message_id(id, uuid, 42);
    assert_string_equal(id, "msg_ab01020304050607_42");
    const struct signed_message message = { slice_of(id), 5, SLICE("{}") };
    struct signature_secret now, before;
    assert_true(signature_secret_parse(slice_of(hook.secret), &now));
    assert_true(signature_secret_parse(slice_of(hook.secret_before), &before));

    assert_true(message_sign(signatures, &hook, &message, 999));
    assert_true(signature_fits(&now, 1, &message, slice_of(signatures)));
    assert_true(signature_fits(&before, 1, &message, slice_of(signatures)));
    assert_true(message_sign(signatures, &hook, &message, 1000));
    assert_true(signature_fits(&now, 1, &message, slice_of(signatures)));
    assert_false(signature_fits(&before, 1, &message, slice_of(signatures)));
    snprintf(hook.secret, sizeof hook.secret, "whsec_");
    assert_false(message_sign(signatures, &hook, &message, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_says_what_was_true_when_it_happened),
        cmocka_unit_test(sales_and_tests_are_named),
        cmocka_unit_test(the_longest_message_fits),
        cmocka_unit_test(both_secrets_sign_while_one_takes_over),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
