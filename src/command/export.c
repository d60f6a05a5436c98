/* export: orders or sales out of the ledger, one row each, as they were at one moment. It reads beside a running server and
 * never waits for it; what the clerk has not filed yet is not in it. */
#include "base/clock.h"
#include "base/text.h"
#include "command/command.h"
#include "command/sheet.h"
#include "ledger/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_ROWS 1024
#define PROGRESS_NS UINT64_C(100000000)
#define PROGRESS_CELLS 24

struct export_options {
    bool orders; /* else sales */
    enum sheet_format format;
    uint64_t sale_id; /* 0: all */
    const char *output;
};

struct exporter {
    struct sheet sheet;
    uint64_t now_ms;
    bool progress; /* standard error is a terminal, and the rows do not go to one */
    const char *what;
    uint64_t rows, rows_total, start_ns, shown_ns;
};

static void progress_show(struct exporter *exporter, uint64_t now_ns)
{
    static const char full[] = "########################", empty[] = "------------------------";
    uint64_t total = exporter->rows_total > 0 ? exporter->rows_total : 1;
    uint64_t part = exporter->rows < total ? exporter->rows : total;
    int cells = (int)(part * PROGRESS_CELLS / total);
    uint64_t spent_ms = (now_ns - exporter->start_ns) / 1000000;
    fprintf(stderr, "\r%s %.*s%.*s %3" PRIu64 " %%  %" PRIu64 " of %" PRIu64 "  %" PRIu64 "/s\x1b[K", exporter->what, cells,
            full, PROGRESS_CELLS - cells, empty, part * 100 / total, exporter->rows, exporter->rows_total,
            exporter->rows * 1000 / (spent_ms > 0 ? spent_ms : 1));
    exporter->shown_ns = now_ns;
}

static enum fault row_done(struct exporter *exporter)
{
    exporter->rows++;
    if (exporter->progress && exporter->rows % PROGRESS_ROWS == 0) {
        uint64_t now_ns = mono_ns();
        if (now_ns - exporter->shown_ns >= PROGRESS_NS) progress_show(exporter, now_ns);
    }
    return FAULT_NONE;
}

static void order_write(struct sheet *sheet, const struct ledger_order *row)
{
    const struct order *order = &row->order;
    sheet_id(sheet, "no", order->no);
    sheet_id(sheet, "sale", order->sale_id);
    sheet_text(sheet, "buyer", order->buyer);
    sheet_number(sheet, "units", order->units);
    sheet_amount(sheet, "amount", order->amount);
    sheet_text(sheet, "state", order_state_word(order->state));
    sheet_time(sheet, "won_at", order->won_ms);
    sheet_time_or_none(sheet, "pay_by", order->pay_by_ms);
    sheet_time_or_none(sheet, "ended_at", row->ended_ms);
    sheet_text_or_none(sheet, "payment_ref", row->payment_ref);
    sheet_text_or_none(sheet, "cancelled_by", canceller_word(row->canceller));
    sheet_text_or_none(sheet, "reason", row->reason);
    sheet_text_or_none(sheet, "key", order->key);
}

/* An object in JSON, as in the API; cells of its own in CSV. */
static void line_write(struct sheet *sheet, const struct sale_terms *terms)
{
    if (sheet->format == SHEET_CSV) {
        sheet_text_or_none(sheet, "line", terms->line_name);
        sheet_number_or_none(sheet, "line_rate_per_s", terms->line_rate_per_s);
        sheet_number_or_none(sheet, "line_size", terms->line_size);
        sheet_number_or_none(sheet, "line_timeout_ms", terms->line_timeout_ms);
    } else if (terms->line_rate_per_s == 0) {
        sheet_text_or_none(sheet, "line", terms->line_name);
    } else {
        json_key(&sheet->json, "line");
        json_object(&sheet->json);
        sheet_number(sheet, "rate_per_s", terms->line_rate_per_s);
        sheet_number(sheet, "size", terms->line_size);
        sheet_number(sheet, "timeout_ms", terms->line_timeout_ms);
        json_object_end(&sheet->json);
    }
}

static void sale_write(struct sheet *sheet, const struct sale *sale, uint64_t now_ms)
{
    const struct sale_terms *terms = &sale->terms;
    sheet_id(sheet, "id", sale->id);
    sheet_text(sheet, "seller", sale->seller);
    sheet_text(sheet, "name", terms->name);
    sheet_text(sheet, "description", terms->description);
    sheet_amount(sheet, "price", terms->price);
    sheet_text_or_none(sheet, "currency", terms->currency);
    sheet_text(sheet, "state", sale_state_word(sale_state_at(sale, now_ms)));
    sheet_number(sheet, "offered", sale->counts.offered);
    sheet_number(sheet, "available", sale->counts.available);
    sheet_number(sheet, "held", sale->counts.held);
    sheet_number(sheet, "sold", sale->counts.sold);
    sheet_number(sheet, "units_per_grab_max", terms->units_per_grab_max);
    sheet_number(sheet, "grabs_per_buyer_max", terms->grabs_per_buyer_max);
    sheet_time(sheet, "opens_at", terms->opens_ms);
    sheet_time_or_none(sheet, "closes_at", terms->closes_ms);
    sheet_number_or_none(sheet, "pay_within_s", terms->pay_within_s);
    sheet_text(sheet, "late_payment", late_payment_word(terms->late_payment));
    sheet_text(sheet, "admission", admission_word(terms->admission));
    sheet_number_or_none(sheet, "tokens_max", terms->tokens_max);
    sheet_number_or_none(sheet, "admit_max", terms->admit_max);
    line_write(sheet, terms);
    sheet_id_or_none(sheet, "event", terms->event_id);
}

static enum fault order_row(void *arg, const struct ledger_order *row)
{
    struct exporter *exporter = arg;
    sheet_row(&exporter->sheet);
    order_write(&exporter->sheet, row);
    enum fault fault = sheet_row_end(&exporter->sheet);
    return fault == FAULT_NONE ? row_done(exporter) : fault;
}

static enum fault sale_row(void *arg, const struct sale *sale)
{
    struct exporter *exporter = arg;
    sheet_row(&exporter->sheet);
    sale_write(&exporter->sheet, sale, exporter->now_ms);
    enum fault fault = sheet_row_end(&exporter->sheet);
    return fault == FAULT_NONE ? row_done(exporter) : fault;
}

static enum fault header_write(struct sheet *sheet, bool orders)
{
    static const struct ledger_order no_order;
    static const struct sale no_sale;
    if (sheet->format != SHEET_CSV) return FAULT_NONE;
    sheet->heading = true;
    sheet_row(sheet);
    if (orders) {
        order_write(sheet, &no_order);
    } else {
        sale_write(sheet, &no_sale, 0);
    }
    enum fault fault = sheet_row_end(sheet);
    sheet->heading = false;
    return fault;
}

static enum fault rows_write(struct exporter *exporter, struct ledger *ledger, const struct export_options *options)
{
    struct sale sale = { 0 };
    bool found = true;
    enum fault fault = FAULT_NONE;
    if (options->sale_id != 0) {
        fault = ledger_sale(ledger, options->sale_id, &sale, &found);
        if (fault == FAULT_NONE && !found) {
            fprintf(stderr, "stampede: there is no sale %" PRIu64 "\n", options->sale_id);
            return FAULT_LEDGER;
        }
        exporter->rows_total = options->orders ? sale.orders_made : 1;
    }
    if (fault == FAULT_NONE) fault = header_write(&exporter->sheet, options->orders);
    if (fault != FAULT_NONE) return fault;
    if (options->sale_id == 0)
        return options->orders ? ledger_each_order(ledger, order_row, exporter)
                               : ledger_each_sale(ledger, sale_row, exporter);
    return options->orders ? ledger_each_order_of(ledger, sale.id, order_row, exporter) : sale_row(exporter, &sale);
}

static enum fault export_write(struct exporter *exporter, struct ledger *ledger, const struct export_options *options)
{
    struct ledger_size size;
    struct ledger_point point;
    enum fault fault = ledger_snapshot_begin(ledger, &size);
    if (fault != FAULT_NONE) return fault;
    fault = ledger_point(ledger, &point);
    if (fault == FAULT_NONE) {
        uint64_t now_ms = wall_ms();
        exporter->now_ms = now_ms > point.at_ms ? now_ms : point.at_ms;
        exporter->rows_total = options->orders ? size.orders : size.sales;
        fault = rows_write(exporter, ledger, options);
    }
    ledger_snapshot_end(ledger);
    return fault;
}

static int export_run(const struct config *config, const struct export_options *options)
{
    static struct command_places places;
    struct ledger *ledger = NULL;
    struct exporter exporter = { .what = options->orders ? "orders" : "sales", .start_ns = mono_ns() };
    if (!command_places(&places, config)) return EXIT_USAGE;
    struct ledger_place *place = places.replica ? &places.read : &places.ledger;
    place->patient = true;
    if (place->path != NULL && access(place->path, R_OK) != 0) {
        fprintf(stderr, "stampede: cannot read %s: %s; name the data folder with --data\n", place->path, strerror(errno));
        return EXIT_FAILED;
    }
    signal(SIGPIPE, SIG_IGN); /* a reader who has gone away is an error of the next write */
    exporter.progress = isatty(STDERR_FILENO) && (options->output != NULL || !isatty(STDOUT_FILENO));

    enum fault fault = ledger_open(&ledger, place, LEDGER_READER);
    bool opened = fault == FAULT_NONE;
    if (fault == FAULT_NONE) fault = sheet_open(&exporter.sheet, options->format, options->output);
    if (fault == FAULT_NONE) fault = export_write(&exporter, ledger, options);
    if (exporter.progress && fault == FAULT_NONE) progress_show(&exporter, mono_ns());
    if (exporter.progress && exporter.shown_ns != 0) fputc('\n', stderr);
    if (opened) {
        enum fault closed = sheet_close(&exporter.sheet, fault == FAULT_NONE);
        if (fault == FAULT_NONE) fault = closed;
        ledger_close(ledger);
    }
    if (fault == FAULT_NONE) return EXIT_OK;
    fprintf(stderr, "stampede: the export is not complete\n");
    return EXIT_FAILED;
}

/* Takes --NAME VALUE or --NAME=VALUE out of the arguments, which other flags share; *value stays where it is not given. */
static bool flag_cut(int *argc, char **argv, const char *name, const char **value)
{
    size_t len = strlen(name);
    for (int i = 0; i < *argc;) {
        bool whole = strchr(argv[i], '=') != NULL;
        int width = whole || i + 1 == *argc ? 1 : 2;
        bool ours = strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, name, len) == 0 &&
                    (argv[i][2 + len] == '=' || argv[i][2 + len] == '\0');
        if (!ours) {
            i += strncmp(argv[i], "--", 2) == 0 ? width : 1;
            continue;
        }
        if (*value != NULL || (!whole && width == 1)) {
            fprintf(stderr, "stampede: flag --%s: %s\n", name,
                    *value != NULL ? "it was given before" : "its value is missing");
            return false;
        }
        *value = whole ? argv[i] + 3 + len : argv[i + 1];
        memmove(argv + i, argv + i + width, (size_t)(*argc - i - width) * sizeof *argv);
        *argc -= width;
    }
    return true;
}

static bool options_take(struct export_options *options, int *argc, char **argv)
{
    const char *format = NULL, *sale = NULL;
    if (!flag_cut(argc, argv, "format", &format) || !flag_cut(argc, argv, "sale", &sale) ||
        !flag_cut(argc, argv, "output", &options->output))
        return false;
    if (format == NULL || (strcmp(format, "csv") != 0 && strcmp(format, "jsonl") != 0)) {
        fprintf(stderr, "stampede: flag --format: it is csv or jsonl\n");
        return false;
    }
    options->format = strcmp(format, "csv") == 0 ? SHEET_CSV : SHEET_JSONL;
    if (sale != NULL && (!text_to_u64(slice_of(sale), &options->sale_id) || options->sale_id == 0)) {
        fprintf(stderr, "stampede: flag --sale: it is the id of a sale\n");
        return false;
    }
    return true;
}

int command_export(int argc, char **argv)
{
    struct config config;
    struct export_options options = { 0 };
    if (argc < 1 || (strcmp(argv[0], "orders") != 0 && strcmp(argv[0], "sales") != 0)) {
        fprintf(stderr, "usage: stampede export orders|sales --format csv|jsonl [--data DIR] [--sale ID] [--output FILE]\n");
        return EXIT_USAGE;
    }
    options.orders = strcmp(argv[0], "orders") == 0;
    argc--;
    argv++;
    if (!options_take(&options, &argc, argv) || !command_options(&config, argc, argv)) return EXIT_USAGE;
    return export_run(&config, &options);
}
