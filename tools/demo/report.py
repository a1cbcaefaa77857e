#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tell what the demonstration showed: a table, a timeline, a picture, a verdict.

usage: report.py DIR

DIR has stock.log and aligned.log, which guest.sh and its programs wrote (demo.h
lists what a line can be). Prints the table and the timeline, and writes
timeline.svg beside the logs. The exit status is 0 only if the aligned side
realigned, and did so sooner than stock, and no data differ on either.
"""
import itertools
import pathlib
import sys
from html import escape

SIDES = ("stock", "aligned")
STORIES = {
    "rc": "A program on librdmacm: one RC connection, 4 KiB requests, each checked",
    "nvme": "The kernel's nvme_rdma against nvmet_rdma: 16 KiB blocks, each checked",
}
# What carries the data after each step, on the aligned side.
EXPECTED_PATHS = {
    "rc": ("rx_c1", "rx_c1", "rx_c1", "rx_c0"),
    "nvme": ("rx_c1", "rx_c1", "rx_c0"),
}
# The steps whose news stock has later than aligned, or never.
EXPECTED_NEWS = {"rc": (0, 3), "nvme": (0, 2)}


class Step:
    """A change of the network, and what came of it. Times are microseconds."""

    def __init__(self, start, text):
        self.start = start
        self.text = text
        self.end = None
        self.path = ""
        self.heard = []  # (time, text)
        self.gaps = []  # (start, end)
        self.events = []  # (time, text), for the timeline

    def told_ms(self):
        return (self.heard[0][0] - self.start) // 1000 if self.heard else None

    def pause_ms(self):
        return max((end - start for start, end in self.gaps), default=0) // 1000


class Story:
    """One story on one side."""

    def __init__(self):
        self.steps = []
        self.start = self.end = None
        self.path = ""
        self.paths = []  # (time, device); while parsing (time, who, device)
        self.gaps = []
        self.rates = []  # (time, count)
        self.sums = []
        self.bad = []
        self.gave_up = False

    def step_at(self, start, end):
        """The step that lasted for most of the time from start to end."""

        def overlap(step):
            return min(end, step.end or end) - max(start, step.start)

        best = max(self.steps, key=overlap, default=None)
        return best if best and overlap(best) > 0 else None


def changed(story, time, who):
    """When the path changed: a program knows, the script looks after the step."""
    step = story.step_at(time - 1, time)
    if who == "script" and step and step.gaps:
        return step.gaps[0][1]
    return time


def parse(path):
    """Read a log. Its lines come from several programs: sort them by time."""
    stories = {name: Story() for name in STORIES}
    lines = []
    for line in path.read_text().splitlines():
        fields = line.split(" ", 3)
        if len(fields) == 4 and fields[0].isdigit():
            lines.append((int(fields[0]), *fields[1:]))
    lines.sort(key=lambda line: line[0])

    story = Story()
    for time, who, kind, text in lines:
        if kind == "story":
            story = stories[text]
        elif kind == "start":
            story.start = time
        elif kind == "end":
            story.end = time
            if story.steps:
                story.steps[-1].end = time
        elif kind == "step":
            if story.steps:
                story.steps[-1].end = time
            story.steps.append(Step(time, text))
            story.steps[-1].path = story.path
        elif kind == "path":
            story.path = text.strip()
            story.paths.append((time, who, story.path))
            if story.steps:
                story.steps[-1].path = story.path
                if who != "script":
                    story.steps[-1].events.append((time, f"data go over {story.path}"))
        elif kind == "heard" and story.steps:
            step = story.steps[-1]
            if who == "server":
                text = f"(server) {text}"
            else:
                step.heard.append((time, text))
            step.events.append((time, text))
        elif kind == "did" and story.steps:
            story.steps[-1].events.append((time, text))
        elif kind == "gap":
            story.gaps.append(tuple(map(int, text.split())))
        elif kind == "rate":
            story.rates.append(tuple(map(int, text.split())))
        elif kind == "gaveup":
            story.gave_up = True
            if story.steps:
                story.steps[-1].events.append((time, f"no data for {text} s: given up"))
        elif kind == "sum":
            story.sums.append(text)
        elif kind == "bad":
            story.bad.append(text)

    for story in stories.values():
        for start, end in story.gaps:
            step = story.step_at(start, end)
            if step:
                step.gaps.append((start, end))
                ms = (end - start) // 1000
                step.events.append((end, f"data flow again, after {ms} ms"))
        for step in story.steps:
            step.events.sort()
        story.paths = [(changed(story, time, who), path) for time, who, path in story.paths]
    return stories


def both_sides(name, told):
    """The steps of a story, (stock's, aligned's); None where a side has fewer."""
    return list(itertools.zip_longest(*(told[side][name].steps for side in SIDES)))


def number(value):
    return str(value) if value else "-"


def print_table(told):
    for name, title in STORIES.items():
        print(f"\n{title}\n")
        print(f"{'':38}{'told after':>17}{'no data for':>17}{'carried by':>15}")
        print(f"{'':38}{'[ms]':>17}{'[ms]':>17}{'afterwards':>15}")
        print(f"{'':38}" + f"{'stock':>8}{'aligned':>9}" * 2 + f"{'stock':>7}{'aligned':>8}")
        for both in both_sides(name, told):
            row = f"{next(step for step in both if step).text:38}"
            for width, cell in (
                ((8, 9), lambda step: number(step.told_ms())),
                ((8, 9), lambda step: number(step.pause_ms())),
                ((7, 8), lambda step: step.path.removeprefix("rx_") or "-"),
            ):
                for step, columns in zip(both, width):
                    row += f"{cell(step) if step else '?':>{columns}}"
            print(row)
    print("\n-: not told; no pause of 150 ms or more")


def print_timeline(told):
    for name, title in STORIES.items():
        print(f"\nTimeline, in ms since each change. {title.split(':')[0]}\n")
        print(f"  {'stock':58}aligned")
        for i, both in enumerate(both_sides(name, told), 1):
            print(f"{i}. {next(step for step in both if step).text}")
            columns = [
                [f"{(time - step.start) // 1000:>+7} {text}" for time, text in step.events]
                if step
                else []
                for step in both
            ]
            for left, right in itertools.zip_longest(*columns, fillvalue=""):
                print(f"{left[:59]:60}{right[:60]}".rstrip())
    print()
    for name in STORIES:
        for side in SIDES:
            for line in told[side][name].sums:
                print(f"{side:8} {line}")


def complaints(told):
    """What went wrong, a sentence each."""
    for name, side in itertools.product(STORIES, SIDES):
        story = told[side][name]
        for text in story.bad:
            yield f"{side}, {name}: {text}"
        if not story.end:
            yield f"{side}, {name}: the story did not end"
        elif not story.sums and not (side == "stock" and story.gave_up):
            yield f"{side}, {name}: the result is missing"
    for name in STORIES:
        stock, aligned = (told[side][name] for side in SIDES)
        if aligned.gave_up:
            yield f"aligned, {name}: data did not flow again"
        for i, expected in enumerate(EXPECTED_PATHS[name]):
            path = aligned.steps[i].path if i < len(aligned.steps) else "nothing"
            if path != expected:
                yield f"aligned, {name}, step {i + 1}: data go over {path}, not {expected}"
        for i in EXPECTED_NEWS[name]:
            if i >= len(stock.steps) or i >= len(aligned.steps):
                continue
            theirs, ours = stock.steps[i].told_ms(), aligned.steps[i].told_ms()
            if ours is None:
                yield f"aligned, {name}, step {i + 1}: was told nothing"
            elif theirs is not None and theirs <= ours:
                yield f"aligned, {name}, step {i + 1}: was told later than stock"


# --- the picture -----------------------------------------------------------

WIDTH, LEFT, RIGHT, LANE, BAND = 1000, 90, 20, 90, 8
COLOURS = {"rx_c0": "#4477aa", "rx_c1": "#ee9944"}
STYLE = """text { font: 12px sans-serif; fill: #222 }
.title { font-weight: bold; font-size: 14px }
.small { font-size: 10px; fill: #555 }
.num { font-size: 10px; fill: #fff; text-anchor: middle }
.right { text-anchor: end }
.middle { text-anchor: middle }"""


def svg_lane(out, story, y, x_of, top_rate):
    """The rate of answers, where it stopped, who was told what, and the path."""
    base = y + LANE
    right = x_of(story.end)
    out.append(f'<rect x="{LEFT}" y="{y}" width="{right - LEFT:.1f}" height="{LANE}" fill="#f4f4f4"/>')
    for start, end in story.gaps:
        left, stop = max(x_of(start), LEFT), min(x_of(end), right)
        if stop > left:
            out.append(
                f'<rect x="{left:.1f}" y="{y}" width="{stop - left:.1f}" height="{LANE}" fill="#f6c9c9"/>'
            )
            if stop - left > 45:
                out.append(
                    f'<text x="{(left + stop) / 2:.1f}" y="{y + LANE / 2:.1f}" class="small middle">'
                    f"{(end - start) // 1000} ms</text>"
                )
    # A sample says how many answers came in the 100 ms from its start on.
    for time, count in story.rates:
        if story.start <= time < story.end:
            height = count / top_rate * (LANE - 14)
            out.append(
                f'<rect x="{x_of(time):.1f}" y="{base - height:.1f}" '
                f'width="{x_of(time + 90000) - x_of(time):.1f}" height="{height:.1f}" fill="#88aa77"/>'
            )
    for time, device in story.paths:
        left = max(x_of(time), LEFT)
        if left < right:
            colour = COLOURS.get(device, "#999")
            out.append(
                f'<rect x="{left:.1f}" y="{base}" width="{right - left:.1f}" height="{BAND}" fill="{colour}"/>'
            )
    for i, step in enumerate(story.steps, 1):
        x = x_of(step.start)
        out.append(f'<line x1="{x:.1f}" y1="{y - 6}" x2="{x:.1f}" y2="{base + BAND}" stroke="#222"/>')
        out.append(f'<circle cx="{x:.1f}" cy="{y - 6}" r="7" fill="#222"/>')
        out.append(f'<text x="{x:.1f}" y="{y - 2.5}" class="num">{i}</text>')
        for time, text in step.heard:
            x = x_of(time)
            out.append(
                f'<path d="M{x:.1f} {y + 12} l-4 -9 h8 z" fill="#aa3377">'
                f"<title>{escape(text)}, {(time - step.start) // 1000} ms after {i}</title></path>"
            )


def svg(told):
    out = []
    y = 30
    for name, title in STORIES.items():
        both = [(side, told[side][name]) for side in SIDES if told[side][name].end]
        if not both:
            continue
        span = max(story.end - story.start for _, story in both)
        top_rate = max((count for _, story in both for _, count in story.rates), default=1)
        out.append(f'<text x="{LEFT}" y="{y}" class="title">{escape(title)}</text>')
        y += 28
        for side, story in both:

            def x_of(time, zero=story.start):
                return LEFT + (time - zero) / span * (WIDTH - LEFT - RIGHT)

            svg_lane(out, story, y, x_of, top_rate)
            out.append(f'<text x="{LEFT - 8}" y="{y + LANE / 2}" class="right">{side}</text>')
            y += LANE + BAND + 24
        y -= 12
        for second in range(0, int(span / 1e6) + 1, 2):
            x = LEFT + second * 1e6 / span * (WIDTH - LEFT - RIGHT)
            out.append(f'<text x="{x:.1f}" y="{y}" class="small middle">{second} s</text>')
        y += 18
        for i, step in enumerate(both[-1][1].steps, 1):
            out.append(f'<text x="{LEFT}" y="{y}">{i}  {escape(step.text)}</text>')
            y += 16
        y += 30
    x = LEFT
    for colour, text in (
        ("#88aa77", "answers in 100 ms"),
        ("#f6c9c9", "no data"),
        ("#aa3377", "the program is told"),
        (COLOURS["rx_c0"], "carried by rx_c0"),
        (COLOURS["rx_c1"], "carried by rx_c1"),
    ):
        out.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        out.append(f'<text x="{x + 18}" y="{y}">{text}</text>')
        x += 175
    y += 20
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" '
            f'viewBox="0 0 {WIDTH} {y}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>',
            *out,
            "</svg>\n",
        ]
    )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    where = pathlib.Path(sys.argv[1])
    try:
        told = {side: parse(where / f"{side}.log") for side in SIDES}
    except OSError as error:
        sys.exit(f"report.py: {error}")
    print_table(told)
    print_timeline(told)
    (where / "timeline.svg").write_text(svg(told))
    problems = list(complaints(told))
    for problem in problems:
        print(f"FAILED: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
