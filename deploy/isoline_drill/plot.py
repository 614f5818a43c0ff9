"""A timeline as a picture: one strip a region, appends above and reads below, the drill's marks across all. PNG or SVG, by the file's name."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from isoline_drill.timeline import BUCKET_MS, Timeline, What

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS: Final = (".png", ".svg")
_COLOURS: Final[dict[What, str]] = {
    "acknowledged": "#1b7837",
    "errors": "#d7191c",
    "local": "#2b83ba",
    "leader": "#7570b3",
    "stale": "#fdae61",
}
_LABELS: Final[dict[What, str]] = {
    "acknowledged": "appends acknowledged",
    "errors": "errors and unknown outcomes",
    "local": "reads, local replica",
    "leader": "reads, leader",
    "stale": "reads, stale",
}


def draw(timeline: Timeline, title: str, target: Path) -> None:
    """Write the picture. Raises ``OSError``."""
    import matplotlib as mpl

    mpl.use("agg")  # a file, not a window
    mpl.rcParams["svg.hashsalt"] = "isoline"  # the same timeline gives the same file
    from matplotlib import pyplot as plt

    figure, strips = plt.subplots(
        len(timeline.counts),
        1,
        sharex=True,
        figsize=(11, 2.2 * len(timeline.counts) + 1 + 0.16 * len(timeline.marks)),
        squeeze=False,
    )
    for axes, region in zip(strips[:, 0], timeline.counts, strict=True):
        _strip(axes, timeline, region)
    _name_marks(strips[0, 0], timeline)
    strips[-1, 0].set_xlabel("seconds")
    handles, labels = strips[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None)
    plt.close(figure)


def _strip(axes: "Axes", timeline: Timeline, region: str) -> None:
    per_s = 1000 / BUCKET_MS
    times = [index / per_s for index in range(timeline.buckets)]
    counts = timeline.counts[region]
    width = 0.95 / per_s
    rates = {what: [count * per_s for count in counts[what]] for what in counts}
    axes.bar(
        times, rates["acknowledged"], width, align="edge", color=_COLOURS["acknowledged"], label=_LABELS["acknowledged"]
    )
    below = [0.0] * timeline.buckets
    reads: tuple[What, ...] = ("local", "leader", "stale")
    for what in reads:
        heights = [-rate for rate in rates[what]]
        axes.bar(times, heights, width, bottom=below, align="edge", color=_COLOURS[what], label=_LABELS[what])
        below = [a + b for a, b in zip(below, heights, strict=True)]
    axes.bar(
        times,
        rates["errors"],
        width,
        bottom=rates["acknowledged"],
        align="edge",
        color=_COLOURS["errors"],
        label=_LABELS["errors"],
    )
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_ylabel(f"{region}\nper second", fontsize=9)
    axes.tick_params(labelsize=8)
    for mark in timeline.marks:
        axes.axvline(timeline.seconds(mark.at_us), color="black", linestyle=":", linewidth=0.9)


def _name_marks(axes: "Axes", timeline: Timeline) -> None:
    """A line for each, the first one highest, so that no two are written over each other."""
    bottom, top = axes.get_ylim()
    line = (top - bottom) * 0.085
    for index, mark in enumerate(reversed(timeline.marks)):
        place = (timeline.seconds(mark.at_us), top + line * (index + 0.3))
        axes.annotate(f" {mark.what}", place, fontsize=7, annotation_clip=False)
        axes.plot([place[0], place[0]], [top, place[1]], color="black", linestyle=":", linewidth=0.9, clip_on=False)
    axes.set_ylim(bottom, top)
