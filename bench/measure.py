"""Statistics, and the writing of results."""

import datetime
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def commit():
    dirty = subprocess.run(["git", "status", "--porcelain", "--", ":!results"], capture_output=True, text=True, cwd=HERE).stdout
    head = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=HERE).stdout.strip()
    return head + ("+changes" if dirty.strip() else "")


class Results:
    """The figures of one run, written as JSON for programs and Markdown for people."""

    def __init__(self, name, command):
        self.name, self.command, self.rows, self.missed = name, command, [], []

    def add(self, what, values, unit, aim=None, aim_text=""):
        """Adds a figure; `aim` says of the median whether it is good enough."""
        values = sorted(values)
        row = {"what": what, "median": statistics.median(values), "min": values[0], "max": values[-1], "unit": unit, "n": len(values)}
        if aim is not None:
            row["aim"], row["met"] = aim_text, bool(aim(row["median"]))
            if not row["met"]:
                self.missed.append(what)
        self.rows.append(row)
        verdict = "" if aim is None else f"  aim {aim_text}: {'met' if row['met'] else 'MISSED'}"
        print(f"{what:60} {row['median']:10.2f} {unit:6} ({row['min']:.2f} to {row['max']:.2f}, n={row['n']}){verdict}", flush=True)

    def write(self):
        folder = os.path.join(HERE, "results")
        os.makedirs(folder, exist_ok=True)
        document = {"name": self.name, "command": self.command, "commit": commit(),
                    "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "rows": self.rows}
        with open(os.path.join(folder, f"{self.name}.json"), "w") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
        with open(os.path.join(folder, f"{self.name}.md"), "w") as file:
            file.write(f"# {self.name}\n\n`{self.command}` at {document['commit']}, {document['at']}\n\n")
            file.write("| what | median | min | max | unit | n | aim |\n|---|---|---|---|---|---|---|\n")
            for row in self.rows:
                aim = "" if "aim" not in row else f"{row['aim']}: {'met' if row['met'] else 'MISSED'}"
                file.write(f"| {row['what']} | {row['median']:.2f} | {row['min']:.2f} | {row['max']:.2f} | {row['unit']} | {row['n']} | {aim} |\n")


def say(text):
    print(text, file=sys.stderr, flush=True)
