#include "tests/sim/journal_model.h"

#include "base/log.h"
#include "base/random.h"
#include "journal/commit.h"
#include "journal/record.h"
#include "tests/sim/disk_sim.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t decision_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t model_seed(void)
{
    uint64_t seed;
    random_bytes(&seed, sizeof seed);
    const char *given = getenv("STAMPEDE_SEED");
    if (given != NULL && *given != 0) {
        char *end;
        seed = strtoull(given, &end, 10);
        assert(*end == 0);
    }
    printf("STAMPEDE_SEED=%" PRIu64 "\n", seed);
    fflush(stdout);
    return seed;
}

void model_init(struct model *model)
{
    memset(model, 0, sizeof *model);
    model->segment_bytes = MODEL_SEGMENT_BYTES;
    /* Thousands of faults are put in on purpose; their log lines would hide the one that matters. */
    log_set_level((enum log_level)(LOG_ERROR + 1));
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * UINT64_C(0x9E3779B97F4A7C15) + b;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t model_digest(uint64_t seq, uint64_t salt)
{
    return mix(seq, salt ^ 0x55);
}

static void text_fill(char *out, size_t len, uint64_t from)
{
    for (size_t i = 0; i < len; i++) out[i] = (char)('a' + mix(from, i) % 26);
}

static void terms_fill(struct sale_terms *terms, uint64_t from)
{
    memset(terms, 0, sizeof *terms);
    text_fill(terms->name, 1 + from % SALE_NAME_BYTES_MAX, from);
    text_fill(terms->description, mix(from, 1) % (SALE_DESCRIPTION_BYTES_MAX + 1), from + 1);
    if (from % 2 == 0) memcpy(terms->currency, "EUR", 3);
    terms->price = (int64_t)(from % 1000) - 1;
    terms->units_per_grab_max = 1 + (uint32_t)(from % 7);
    terms->grabs_per_buyer_max = 1;
    terms->opens_ms = from % TIME_MS_MAX;
    terms->admission = (enum admission)(from % 4);
    terms->tokens_max = (uint32_t)(from % 1000);
    terms->admit_max = (uint32_t)(from % 999);
    terms->line_rate_per_s = (uint32_t)(from % 998);
    terms->line_size = (uint32_t)(from % 997);
    terms->line_timeout_ms = (uint32_t)(from % 996);
    text_fill(terms->line_name, from % (LINE_NAME_BYTES_MAX + 1), from + 3);
    terms->late_payment = (enum late_payment)(from / 4 % (LATE_PAYMENT_LAST + 1));
    terms->event_id = from % 5;
}

static void ended_fill(struct decision *out, uint64_t from)
{
    out->ended.order_no = 1 + from % out->seq;
    out->ended.units = 1 + (uint32_t)(from % 5);
}

void model_decision(uint64_t seq, uint64_t salt, struct model_scratch *scratch, struct decision *out)
{
    const uint64_t r = mix(seq, salt);
    memset(out, 0, sizeof *out);
    out->seq = seq;
    out->at_ms = UINT64_C(1700000000000) + seq * 3 + salt % 2;
    out->sale_id = 1 + r % 3;
    const uint64_t dice = (r >> 8) % 64;
    out->kind = dice < 6    ? (enum decision_kind)(dice + 1)
                : dice < 16 ? DECISION_TOKEN_GIVEN
                : dice < 36 ? (enum decision_kind)(DECISION_PAID + dice % 5)
                            : DECISION_WON;
    switch (out->kind) {
    case DECISION_SALE_CREATED:
        terms_fill(&scratch->terms, r);
        text_fill(scratch->seller, 1 + r % USERNAME_BYTES_MAX, r);
        out->created.seller = (struct slice){ scratch->seller, 1 + r % USERNAME_BYTES_MAX };
        out->created.terms = &scratch->terms;
        out->created.stock = (uint32_t)(r % STOCK_MAX);
        break;
    case DECISION_SALE_CHANGED:
        terms_fill(&scratch->terms, r);
        out->changed = &scratch->terms;
        break;
    case DECISION_STOCK_ADDED:
        out->stock_added = (int64_t)(r % 2000) - 1000;
        break;
    case DECISION_WON:
        text_fill(scratch->buyer, 1 + r % BUYER_BYTES_MAX, r);
        text_fill(scratch->key, r % 3 == 0 ? r % IDEMPOTENCY_KEY_BYTES_MAX : 0, r + 2);
        out->won.buyer = (struct slice){ scratch->buyer, 1 + r % BUYER_BYTES_MAX };
        out->won.key = (struct slice){ scratch->key, r % 3 == 0 ? r % IDEMPOTENCY_KEY_BYTES_MAX : 0 };
        out->won.units = 1 + (uint32_t)(r % 5);
        out->won.amount = (int64_t)(r % 100000) - 1;
        out->won.pay_by_ms = r % 2 == 0 ? 0 : out->at_ms + 1000;
        out->won.token_nonce = r % 3 == 0 ? r : 0;
        break;
    case DECISION_TOKEN_GIVEN:
        text_fill(scratch->buyer, 1 + r % BUYER_BYTES_MAX, r);
        out->token_given.buyer = (struct slice){ scratch->buyer, 1 + r % BUYER_BYTES_MAX };
        break;
    case DECISION_PAID:
    case DECISION_RETAKEN:
    case DECISION_REFUND_DUE:
        text_fill(scratch->key, 1 + r % PAYMENT_REF_BYTES_MAX, r + 3);
        out->ended.ref = (struct slice){ scratch->key, 1 + r % PAYMENT_REF_BYTES_MAX };
        ended_fill(out, r);
        break;
    case DECISION_CANCELLED:
        text_fill(scratch->terms.description, r % (CANCEL_REASON_BYTES_MAX + 1), r + 4);
        out->ended.reason = (struct slice){ scratch->terms.description, r % (CANCEL_REASON_BYTES_MAX + 1) };
        out->ended.by = (enum canceller)(CANCELLER_BUYER + r % 3);
        ended_fill(out, r);
        break;
    case DECISION_EXPIRED:
        ended_fill(out, r);
        break;
    default:
        break;
    }
}

static bool decision_equal(const struct decision *a, const struct decision *b)
{
    uint8_t bytes_a[RECORD_BYTES_MAX], bytes_b[RECORD_BYTES_MAX];
    const size_t len_a = record_encode(a, bytes_a), len_b = record_encode(b, bytes_b);
    return a->seq == b->seq && len_a == len_b && memcmp(bytes_a, bytes_b, len_a) == 0;
}

static const char *reader_decision(void *arg, const struct decision *decision)
{
    struct model *model = arg;
    struct model_scratch scratch;
    struct decision due;
    if (decision->seq != model->seen + 1)
        model->lie = "a number is missing or comes twice";
    else if (decision->seq > model->appended)
        model->lie = "more came back than was appended";
    else {
        model_decision(decision->seq, model->salts[decision->seq], &scratch, &due);
        if (!decision_equal(decision, &due)) model->lie = "a decision came back changed";
    }
    model->seen = decision->seq;
    return model->lie;
}

static const char *reader_batch_end(void *arg, uint64_t seq, uint64_t digest)
{
    struct model *model = arg;
    if (model->lie == NULL && seq != model->seen)
        model->lie = "a batch does not end where its decisions do";
    else if (model->lie == NULL && digest != model_digest(seq, model->salts[seq]))
        model->lie = "a digest came back changed";
    return model->lie;
}

static void acknowledged(void *arg, uint64_t seq_durable)
{
    struct model *model = arg;
    if (journal_poisoned(model->journal)) {
        model->poison_calls++;
        return;
    }
    assert(seq_durable > model->acked && seq_durable <= model->appended);
    model->acked = seq_durable;
}

struct journal_reader model_reader(struct model *model)
{
    return (struct journal_reader){ .decision = reader_decision, .batch_end = reader_batch_end, .arg = model };
}

enum fault model_open(struct model *model)
{
    assert(model->journal == NULL);
    const struct journal_options options = {
        .folder = MODEL_FOLDER,
        .segment_bytes = model->segment_bytes,
        .space_bytes_min = 1 << 20,
        .lock = &decision_lock,
        .on_durable = acknowledged,
        .arg = model,
    };
    const struct journal_reader reader = model_reader(model);
    model->seen = model->point.seq;
    model->lie = NULL;
    model->poison_calls = 0;
    const enum fault fault = journal_open(&model->journal, &options, &model->point, &reader, &model->damage);
    if (fault != FAULT_NONE) {
        model->journal = NULL;
        return fault;
    }
    if (journal_seq_durable(model->journal) != model->seen) model->lie = "the durable mark is not where the replay ended";
    if (model->seen < model->acked) model->lie = "an acknowledged decision is lost";
    model->appended = model->acked = model->seen;
    return FAULT_NONE;
}

const char *model_wrong(const struct model *model)
{
    return model->lie;
}

void model_close(struct model *model)
{
    if (model->journal != NULL) journal_close(model->journal);
    model->journal = NULL;
}

uint32_t model_append(struct model *model, uint32_t count)
{
    uint32_t done = 0;
    pthread_mutex_lock(&decision_lock);
    while (done < count && model->appended < MODEL_DECISIONS_MAX && journal_has_room(model->journal)) {
        const uint64_t seq = ++model->appended;
        model->salts[seq] = sim_random();
        struct model_scratch scratch;
        struct decision decision;
        model_decision(seq, model->salts[seq], &scratch, &decision);
        journal_append(model->journal, &decision, model_digest(seq, model->salts[seq]));
        done++;
    }
    pthread_mutex_unlock(&decision_lock);
    return done;
}

enum fault model_commit(struct model *model)
{
    const enum fault fault = journal_commit_open(model->journal);
    return fault == FAULT_NONE ? journal_prepare_spare(model->journal) : fault;
}

void model_file(struct model *model)
{
    if (model->acked == 0) return;
    model->point.seq = model->acked;
    model->point.digest = model_digest(model->acked, model->salts[model->acked]);
    memcpy(model->point.uuid, journal_uuid(model->journal), sizeof model->point.uuid);
}

void model_work(struct model *model, uint32_t turns)
{
    for (uint32_t i = 0; i < turns && !journal_poisoned(model->journal); i++) {
        (void)model_append(model, (uint32_t)(sim_random() % 12));
        /* Whatever failed has poisoned the journal, or will at the next commit; the caller looks. */
        const enum fault fault = model_commit(model);
        if (fault == FAULT_NONE && sim_random() % 16 == 0) model_file(model);
    }
}

enum fault model_scan(struct model *model, const struct journal *live, uint64_t seq_after, uint64_t *seq_last)
{
    const struct journal_reader reader = model_reader(model);
    struct journal_scan *scan;
    model->seen = seq_after;
    model->lie = NULL;
    enum fault fault = journal_scan_open(&scan, MODEL_FOLDER, live, seq_after, &model->damage);
    if (fault != FAULT_NONE) return fault;
    bool more = true;
    while (fault == FAULT_NONE && more) fault = journal_scan_batch(scan, &reader, &more, &model->damage);
    journal_scan_close(scan);
    *seq_last = model->seen;
    return fault;
}
