"""`python -m tests.campaigns.misra`: check every variant of target c, and write the table of docs/results/misra.md.

Exit code: 0 every violation is listed and every deviation occurs, 1 otherwise, 3 cppcheck is missing or fails.
"""

from __future__ import annotations

import itertools
import re
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import targets
from harness.core.console import Console
from harness.core.installation import BOARDS_FILE, ROOT
from tests.campaigns import today
from tests.campaigns.misra.check import (
    CPPCHECK,
    NETWORKS,
    Violation,
    counts,
    deviations,
    network,
    unlisted,
    violations,
    write,
)
from tests.support.programs.c_variants import EVERY

PAGE = ROOT / "docs" / "results" / "misra.md"
START, END = "<!-- deviations -->\n", "<!-- end -->"


def main() -> int:
    """Check all programs; the page is written only if all is well."""
    console = Console.open(as_json=False)
    if CPPCHECK is None:
        console.note("cppcheck is not on this machine; run: tools/system-packages --tests")
        return 3
    jobs = list(itertools.product(NETWORKS, EVERY))
    with console.progress("programs checked", len(jobs)) as bar, ThreadPoolExecutor(2) as pool:
        found: set[Violation] = set()
        for each in pool.map(_checked, jobs):
            found |= each
            bar.advance(1)
    listed = deviations()
    missing, occurring = unlisted(found, listed), counts(found, listed)
    for one in sorted(missing, key=lambda each: (each.file, each.line, each.rule)):
        console.note(f"not listed: rule {one.rule} in {one.file}:{one.line}: {one.text}")
    stale = [deviation for deviation, count in occurring.items() if not count]
    for deviation in stale:
        console.note(f"no longer occurs: rule {deviation.rule} in {deviation.files}, lines with {deviation.lines!r}")
    if missing or stale:
        return 1
    rules = Counter(one.rule for one in found)
    rows = [
        f"| {each.rule} | `{each.files}` | {count} | {each.justification} |"
        for each, count in sorted(occurring.items(), key=lambda pair: _order(pair[0].rule))
    ]
    table = ["| rule | files | places | justification |", "|---|---|---|---|", *rows]
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    before = re.sub(r"^\d{4}-\d\d-\d\d, revision .*$", f"{today()}.", before, count=1, flags=re.MULTILINE)
    PAGE.write_text(f"{before}{START}{chr(10).join(table)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    console.note(f"{len(jobs)} programs, {sum(rules.values())} places of {len(rules)} rules, all listed")
    return 0


def _order(rule: str) -> tuple[int, ...]:
    return tuple(map(int, rule.split(".")))


def _checked(job: tuple[str, str]) -> set[Violation]:
    name, target = job
    host = targets.load_boards(ROOT / BOARDS_FILE).board("host")
    with tempfile.TemporaryDirectory() as folder:
        write(network(name), target, host, Path(folder))
        return violations(Path(folder))


if __name__ == "__main__":
    sys.exit(main())
