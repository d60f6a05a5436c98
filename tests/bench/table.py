"""Results as lines: tab-separated for programs, Markdown for docs/benchmarks.md."""

import dataclasses
import statistics


@dataclasses.dataclass
class Run:
    """One turn of wrk against one server."""

    name: str
    per_s: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    errors: int
    ratio: float
    cpu_us: float
    rss_mb: float


@dataclasses.dataclass
class Figure:
    """A measurement that is one number; aim is what design asks of it, as text, empty for none."""

    name: str
    value: float
    unit: str
    aim: str = ""
    met: bool = True


COLUMNS = ("name", "requests/s", "mean ms", "p50 ms", "p95 ms", "p99 ms", "errors", "ratio to nginx",
           "CPU us/request", "RSS MB")
FIGURE_COLUMNS = ("name", "value", "unit", "aim", "reached")


def median_run(runs):
    """Medians over rounds, except errors, which add up: one error in one round is an error."""
    def middle(field):
        return statistics.median(getattr(run, field) for run in runs)
    fields = [field.name for field in dataclasses.fields(Run) if field.name not in ("name", "errors")]
    return Run(name=runs[0].name, errors=sum(run.errors for run in runs), **{field: middle(field) for field in fields})


def number(value):
    """Three digits that matter, no exponent."""
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def run_cells(run):
    return (run.name, f"{run.per_s:.0f}", f"{run.mean_ms:.2f}", f"{run.p50_ms:.2f}", f"{run.p95_ms:.2f}",
            f"{run.p99_ms:.2f}", str(run.errors), f"{run.ratio:.2f}", f"{run.cpu_us:.2f}", f"{run.rss_mb:.0f}")


def figure_cells(figure):
    reached = "" if not figure.aim else "yes" if figure.met else "no"
    return (figure.name, number(figure.value), figure.unit, figure.aim, reached)


def line(cells):
    return "\t".join(cells)


def markdown(columns, rows):
    left = ":--"
    right = "--:"
    out = ["| " + " | ".join(columns) + " |", "|" + "|".join([left] + [right] * (len(columns) - 1)) + "|"]
    out += ["| " + " | ".join(cells) + " |" for cells in rows]
    return "\n".join(out) + "\n"
