from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from harness.core.errors import RequestError
from harness.core.outcome import Ending, Outcome
from harness.report import site
from harness.report.site import OutOfUse, QuarantineState
from harness.report.site.files import COPIED
from harness.report.site.nights import OpenSince
from harness.report.site.trends import Days
from harness.runs.history import night_record as record
from harness.runs.history.night_record import Attempt, Result
from tests.integration.report.site.conftest import BOARDS, HOSTILE
from tests.support.history.laboratory import Board, make, make_wrong, run_document

NOWHERE = Path("nowhere")  # instead of the mutation table, which is long
VOID = {"meta", "link", "br", "path", "rect", "img"}
BLOCKS = {"p", "td", "th", "li", "h1", "h2", "small", "div"}


class Page(HTMLParser):
    """Its tags, attributes and text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag not in VOID:
            self.open.append(tag)
        if tag in BLOCKS:
            self.text += " "

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += text

    @property
    def links(self) -> list[str]:
        return [value for tag, name, value in self.attributes if (tag, name) == ("a", "href")]


def page(path: Path) -> Page:
    found = Page(path.read_text(encoding="utf-8"))
    assert found.open == []
    return found


def pages(folder: Path) -> dict[str, Page]:
    """All but the reports, which have tests of their own."""
    paths = [path for path in folder.rglob("*.html") if path.name != "report.html"]
    return {path.relative_to(folder).as_posix(): page(path) for path in paths}


def words(found: Page) -> str:
    return " ".join(found.text.split())


def build(runs: Path, folder: Path, nights: int = 30, quarantine: QuarantineState | None = None) -> site.LabContent:
    laboratory = site.gather(runs, nights, NOWHERE, quarantine)
    site.build(folder, laboratory)
    return laboratory


def test_the_site_has_its_pages(built: Path) -> None:
    found = set(pages(built))
    nights = {f"nights/202610{day}-020000.html" for day in range(24, 29)}
    assert {"index.html", "runs-1.html", "mutation.html", "boards/xavier.html"} | nights < found
    assert len([one for one in found if one.startswith("boards/")]) == len(BOARDS)


def test_every_link_leads_to_a_file_of_the_site(built: Path) -> None:
    count = 0
    for name, found in pages(built).items():
        for target in found.links:
            assert not re.match(r"[a-z]+:|/|\\", target), target
            if not target.startswith("#"):
                there = (built / name).parent / unquote(target)
                assert there.resolve().is_relative_to(built.resolve()), target
                assert there.is_file(), target
                count += 1
    assert count > 300


def test_nothing_is_loaded_and_only_our_script_runs(built: Path) -> None:
    for name, found in pages(built).items():
        assert not {"img", "iframe", "object", "form", "base"} & set(found.tags), name
        assert found.tags.count("script") == 1, name
        assert not [one for one in found.attributes if one[1].startswith("on") or one[1] in {"src", "srcset"}], name
        policy = [value for _, key, value in found.attributes if key == "content" and "default-src" in value]
        source = (built / name).read_text(encoding="utf-8")
        [script] = re.findall(r"<script>(.*?)</script>", source, re.DOTALL)
        sha256 = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        permitted = (
            f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{sha256}'; img-src data:; "
            "base-uri 'none'; form-action 'none'"
        )
        assert policy == [permitted]
        assert not re.findall(r"url\((?!#)|@import", source)
        assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in source


def test_hostile_names_are_text(built: Path) -> None:
    for name in ("index.html", "runs-1.html", "nights/20261028-020000.html"):
        assert HOSTILE in page(built / name).text
    hostile = [found for name, found in pages(built).items() if name.startswith("boards/img-src")]
    assert len(hostile) == 1
    assert HOSTILE in hostile[0].text


def test_characters_that_deceive_are_left_out(runs: Path, tmp_path: Path) -> None:
    folder = runs / "one"
    shutil.copytree(next(path.parent for path in runs.glob("*_xavier_*/run.json")), folder)
    text = json.loads((folder / "run.json").read_text())
    text["board"]["name"] = "rev\u202eersed\x1b[31m"
    (folder / "run.json").write_text(json.dumps(text))
    build(runs, tmp_path / "site")
    everything = "".join(path.read_text() for path in (tmp_path / "site").glob("*.html"))
    assert "reversed[31m" in everything
    assert "\u202e" not in everything
    assert "\x1b" not in everything


def test_what_changed_comes_first_and_then_the_grid(built: Path) -> None:
    text = words(page(built / "index.html")).split("Nights Runs")[1]
    order = ["This night", "10 of 20 entries ended", "What changed", "Newly slower: xavier acas_sl",
             "Quarantined boards", "Board x model", "Trends", "Nights before", "Latest runs"]  # fmt: skip
    places = [text.index(one) for one in order]
    assert places == sorted(places)


def test_every_verdict_has_its_word_its_colour_and_its_report(built: Path) -> None:
    source = (built / "index.html").read_text()
    for tone, sign, word in (("good", "=", "identical"), ("measured", "~", "measured"), ("bad", "≠", "regressed")):
        expected = (
            rf'<span class="word {tone}"><i aria-hidden="true">{sign}</i> <a href="runs/\S+/report.html">{word}</a>'
        )
        assert re.search(expected, source), word
    assert re.search(r'<span class="word idle"><i aria-hidden="true">-</i> not yet</span>', source)
    assert "begun" in source


def test_what_is_as_expected_does_not_alarm_and_what_is_not_does(runs: Path, tmp_path: Path) -> None:
    night = record.folders(runs)[-1]
    document = json.loads((night / "night.json").read_text())
    first, second = document["entries"][:2]
    first["expect"], second["expect"] = "differs", "regressed"  # the first is identical, the second regressed
    (night / "night.json").write_text(json.dumps(document))
    build(runs, tmp_path / "site")
    page = (tmp_path / "site" / "index.html").read_text()
    assert re.search(r"Newly wrong:</strong> .*<a href=[^>]*>differs, expected identical</a>: 7 of 4,110,000", page)
    assert re.search(r"Repaired:</strong> .*<a href=[^>]*>regressed</a>: slower", page)
    grid = page.split('class="grid stack"')[1]
    assert re.search(
        r'<div class="cell bad">\s*<span class="word bad"><i aria-hidden="true">=</i>[^·]*· [\d.]+s, expected differs',
        grid,
    )
    assert re.search(
        r'<div class="cell expected">\s*<span class="word expected">[^·]*regressed[^·]*· [\d.]+s, as expected', grid
    )


def test_a_running_night_is_shown_as_running_and_asks_to_be_loaded_again(built: Path) -> None:
    found = pages(built)
    live = {name for name, one in found.items() if ("meta", "content", "7") in one.attributes}
    assert live == {"index.html", "nights/20261028-020000.html"}
    assert "runs now" in words(found["index.html"])
    assert "10 not yet" in words(found["index.html"])
    assert "runs now" not in words(found["nights/20261027-020000.html"])


def test_emulated_boards_are_marked_wherever_they_stand(built: Path) -> None:
    for name in pages(built):
        if name == "mutation.html":
            continue
        source = (built / name).read_text()
        named = [*re.finditer(r">kv260</a>|>kv260<|kv260 (?=acas|run|measure|<img)", source)]
        assert named or name.startswith("boards/"), name
        for one in named:
            around = source[one.start() : one.end() + 200]
            assert (
                'class="emulated"' in around or "Cannot" in around or "<title>" in source[one.start() - 90 : one.end()]
            ), around
    text = words(page(built / "boards" / "kv260.html"))
    assert "An emulated board: no time of it is MET" in text
    assert "instructions, not times: emulated board" in text
    assert not re.search(r"(?<!not )(?<!is )MET", text)


def test_of_hardware_the_trends_are_met_with_their_band(built: Path) -> None:
    source = (built / "boards" / "xavier.html").read_text()
    assert source.count('<svg class="chart"') == 2
    assert source.count('class="gate"') == 3  # of median, maximum and jitter
    text = words(page(built / "boards" / "xavier.html"))
    assert re.search(r"median last [\d.]+ µs, above its noise; maximum \(MET\) last", source)
    assert "above its noise" in text


def test_a_quarantined_board_says_why_and_when(built: Path) -> None:
    reason = "no answer on port 22, also after a power cycle"
    assert reason in words(page(built / "index.html"))
    text = words(page(built / "boards" / "tda4vm.html"))
    assert f"27 October 2026, 02:00 UTC {reason}" in text
    assert f"{reason} (since 27 October)" in words(page(built / "index.html"))
    assert "Newly quarantined: tda4vm" in words(page(built / "nights" / "20261027-020000.html"))


def test_retries_are_shown_with_their_reasons(built: Path) -> None:
    nights = [words(found) for name, found in pages(built).items() if name.startswith("nights/")]
    told = "inconclusive (network): kv260: the connection was cut, 8s"
    assert any(told in text and "1 retry" in text for text in nights)


def test_only_what_has_changed_is_written_again(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    build(runs, folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.suffix in {".html", ".xml", ".csv"}}
    written = site.build(folder, site.gather(runs, 30, NOWHERE))
    assert (written.pages, written.reports, written.removed) == (0, 0, 0)
    assert before == {path: path.stat().st_mtime_ns for path in before}
    last = record.folders(runs)[-1]
    ending = Ending(Outcome.DIFFERS, "wrong", "")
    record.keep_result(last, Result(19, ending, (Attempt(1.0, 2.0, ending),)))
    written = site.build(folder, site.gather(runs, 30, NOWHERE))
    changed = {path.relative_to(folder).as_posix() for path in before if path.stat().st_mtime_ns != before[path]}
    assert changed == {"index.html", "nights/20261028-020000.html"}
    assert written.pages == 2


def test_a_page_that_was_damaged_is_written_again(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    build(runs, folder)
    right = (folder / "index.html").read_text()
    (folder / "index.html").write_text("")
    (folder / "runs-1.html").unlink()
    assert site.build(folder, site.gather(runs, 30, NOWHERE)).pages == 2
    assert (folder / "index.html").read_text() == right


def test_what_has_vanished_leaves_no_dead_link(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    build(runs, folder)
    [gone] = runs.glob("20261027-*_xavier_acas_wl")
    shutil.rmtree(gone)
    shutil.rmtree(runs / "nights" / "20261024-020000")
    (folder / "runs" / "mine.txt").write_text("not the site's")
    build(runs, folder)
    assert not (folder / "runs" / gone.name).exists()
    assert not (folder / "nights" / "20261024-020000.html").exists()
    assert (folder / "runs" / "mine.txt").exists()
    assert f"its evidence is missing: runs/{gone.name}" in words(page(folder / "nights" / "20261027-020000.html"))
    test_every_link_leads_to_a_file_of_the_site(folder)


def test_of_a_run_only_what_is_for_people_is_copied(built: Path) -> None:
    names = {path.name for path in (built / "runs").rglob("*") if path.is_file()}
    assert names == set(COPIED)


def test_links_and_pipes_among_reports_are_not_followed(runs: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password")
    first, second = sorted(runs.glob("*_xavier_acas_wl"))[:2]
    for folder in (first, second):
        (folder / "report.html").unlink()
    (first / "report.html").symlink_to(secret)
    os.mkfifo(second / "report.html")
    build(runs, tmp_path / "site")
    assert not (tmp_path / "site" / "runs" / first.name / "report.html").exists()
    assert not (tmp_path / "site" / "runs" / second.name / "report.html").exists()
    test_every_link_leads_to_a_file_of_the_site(tmp_path / "site")


def test_a_folder_of_somebody_else_is_left_alone(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "index.html").write_text("mine")
    with pytest.raises(RequestError, match="is not empty and not a site of harness"):
        build(runs, tmp_path / "home")
    assert (tmp_path / "home" / "index.html").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="cannot write the site to"):
        build(runs, tmp_path / "file")


def test_where_there_was_no_night_the_latest_runs_are_shown(runs: Path, tmp_path: Path) -> None:
    shutil.rmtree(runs / "nights")
    build(runs, tmp_path / "site")
    text = words(page(tmp_path / "site" / "index.html"))
    assert "There is no night yet: harness nightly makes one" in text
    assert "xavier" in text
    assert "Trends" in text
    build(tmp_path / "nowhere", tmp_path / "empty")
    assert "None yet: harness run" in words(page(tmp_path / "empty" / "index.html"))


def test_older_nights_and_their_runs_are_left_out_and_it_is_said(runs: Path, tmp_path: Path) -> None:
    laboratory = build(runs, tmp_path / "site", nights=2)
    assert [night.name for night in laboratory.nights] == ["20261027-020000", "20261028-020000"]
    assert {run.started[:10] for run in laboratory.runs} == {"2026-10-27", "2026-10-28"}
    assert "since 2026-10-27; older ones: harness history" in words(page(tmp_path / "site" / "index.html"))


def damage_time(folder: Path) -> None:
    _change(folder / "night.json", began_s="yesterday")


def damage_name(folder: Path) -> None:
    entries = json.loads((folder / "night.json").read_text())["entries"]
    _change(folder / "night.json", entries=[entries[0] | {"board": {"a": 1}}])


def damage_reason(folder: Path) -> None:
    _change(folder / "entries" / "00000.json", ending={"outcome": "identical", "reason": 7, "part": ""})


def damage_far(folder: Path) -> None:
    _change(folder / "night.json", began_s=1e300)


def damage_text(folder: Path) -> None:
    (folder / "night.json").write_text("{")


def _change(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.half_of_cases
@pytest.mark.parametrize("damage", [damage_time, damage_name, damage_reason, damage_far, damage_text])
def test_a_night_that_cannot_be_read_is_listed_as_such(runs: Path, tmp_path: Path, damage: object) -> None:
    damage(record.folders(runs)[1])  # type: ignore[operator] # one of the above
    laboratory = build(runs, tmp_path / "site")
    assert [name for name, _ in laboratory.unreadable] == ["20261025-020000"]
    text = words(page(tmp_path / "site" / "index.html"))
    assert text.index("20261025-020000 cannot be read:") < text.index("What changed")


def test_a_result_that_its_run_contradicts_is_not_shown(runs: Path, tmp_path: Path) -> None:
    [wrong] = runs.glob("20261028-*_xavier_acas_wl")
    document = json.loads((wrong / "run.json").read_text())
    make_wrong(document)
    (wrong / "run.json").write_text(json.dumps(document))
    build(runs, tmp_path / "site")
    text = words(page(tmp_path / "site" / "index.html"))
    assert f"differs, expected identical: the night reports identical, but runs/{wrong.name} differs" in text
    assert "Newly wrong: xavier acas_wl run" in text


def test_what_is_still_wrong_is_on_the_first_page_every_morning(runs: Path, tmp_path: Path) -> None:
    for night in record.folders(runs)[1:3]:
        ending = Ending(Outcome.DIFFERS, "7 activations differ", "")
        record.keep_result(night, Result(0, ending, (Attempt(1.0, 2.0, ending),)))
    for night in record.folders(runs)[3:]:
        ending = Ending(Outcome.INCONCLUSIVE, "no answer", "network")
        record.keep_result(night, Result(0, ending, (Attempt(1.0, 2.0, ending),)))
    build(runs, tmp_path / "site")
    text = words(page(tmp_path / "site" / "index.html"))
    told = "differs: 7 activations differ (since 25 October; now inconclusive (network)"
    assert told in text
    assert "Still wrong: xavier acas_wl run" in text
    assert text.index("What changed") < text.index("Still wrong") < text.index("Board x model")
    assert "Still wrong" not in words(page(tmp_path / "site" / "nights" / "20261025-020000.html"))


def test_a_quarantined_board_that_was_not_looked_at_again_is_shown(runs: Path, tmp_path: Path) -> None:
    (record.folders(runs)[-1] / "boards" / "tda4vm.json").unlink()
    build(runs, tmp_path / "site")
    text = words(page(tmp_path / "site" / "index.html"))
    assert "power cycle (on 27 October, not checked since)" in text


def test_what_has_no_verdict_again_is_told_with_its_reason_and_since_when(runs: Path, tmp_path: Path) -> None:
    ending = Ending(Outcome.INCONCLUSIVE, "no answer", "network")
    for night in record.folders(runs)[2:]:
        record.keep_result(night, Result(0, ending, (Attempt(1.0, 2.0, ending),)))
    record.end(record.folders(runs)[-1], 1.0)
    build(runs, tmp_path / "site")
    for name in ("index.html", "nights/20261027-020000.html"):
        text = words(page(tmp_path / "site" / name))
        assert "Still inconclusive: xavier acas_wl run" in text
        assert "inconclusive (network): no answer (since 26 October)" in text
    news = words(page(tmp_path / "site" / "nights" / "20261026-020000.html"))
    assert "Newly inconclusive: xavier acas_wl run" in news
    assert "Still inconclusive: xavier acas_wl run" not in news
    assert "Still not run" not in words(page(tmp_path / "site" / "index.html"))  # as tda4vm is quarantined


def test_a_night_of_another_file_ends_nothing_that_lasts(runs: Path) -> None:
    first, second = (record.read(folder) for folder in record.folders(runs)[-2:])
    assert OpenSince().after(first).quarantined == {"tda4vm": first.name}
    other = replace(second, entries=(), results={}, boards={})
    lasting = OpenSince({"run tda4vm": "a night"}).after(first).after(other).after(second)
    assert lasting.quarantined == {"tda4vm": first.name}
    assert lasting.unsettled["run tda4vm"] == "a night"
    well = replace(second, boards={"tda4vm": replace(second.boards["tda4vm"], quarantined="")})
    assert lasting.after(well).quarantined == {}


def test_what_the_locks_say_now_stands_beside_what_the_night_found(runs: Path, tmp_path: Path) -> None:
    seen_s = datetime(2026, 10, 28, 13, 46, tzinfo=UTC).timestamp()
    out = OutOfUse("xavier", "fan stands still", seen_s - 60, "ana")
    build(runs, tmp_path / "site", quarantine=QuarantineState(("xavier", "tda4vm"), (out,), seen_s))
    text = words(page(tmp_path / "site" / "index.html"))
    assert "Quarantined boards now, according to the locks on 28 October 2026, 13:46 UTC" in text
    assert "power cycle (since 27 October; now no longer quarantined)" in text
    assert (
        "fan stands still (since 28 October 2026, 13:45 UTC; now quarantined by ana, not by a night on this page)"
        in text
    )
    still = OutOfUse("tda4vm", "no answer on port 22", float("inf"), "bo")
    build(
        runs, tmp_path / "site", quarantine=QuarantineState(("tda4vm",), (still, replace(still, board="kv260")), seen_s)
    )
    text = words(page(tmp_path / "site" / "index.html"))
    assert "power cycle (since 27 October; now still quarantined)" in text
    assert "no answer on port 22 (now quarantined by bo, not by a night on this page)" in text  # a time that is none
    build(runs, tmp_path / "site")
    text = words(page(tmp_path / "site" / "index.html"))
    assert "power cycle (since 27 October)" in text
    assert "according to the locks" not in text


def test_when_the_locks_were_read_makes_no_page_anew_where_no_board_is_out_of_use(runs: Path, tmp_path: Path) -> None:
    shutil.rmtree(runs / "nights")
    build(runs, tmp_path / "site", quarantine=QuarantineState(("xavier",), (), 1.0))
    laboratory = site.gather(runs, 30, NOWHERE, QuarantineState(("xavier",), (), 1e9))
    assert site.build(tmp_path / "site", laboratory).pages == 0
    assert laboratory == replace(laboratory, quarantine=QuarantineState(("xavier",), (), 2e9))
    out = QuarantineState(("xavier",), (OutOfUse("xavier", "fan stands still", 1.0, "ana"),), 1e9)
    build(runs, tmp_path / "site", quarantine=out)
    assert "fan stands still" in words(page(tmp_path / "site" / "index.html"))  # also before the first night


def test_measurements_of_one_day_are_drawn_with_that_day() -> None:
    assert [tick.label for tick in Days("day", 100.0, 200.0, 0, 330).ticks] == ["1 Jan"]
    assert [tick.label for tick in Days("day", 100.0, 86_500.0, 0, 330).ticks] == ["2 Jan"]


def test_a_night_that_nobody_works_on_does_not_run(runs: Path, tmp_path: Path) -> None:
    shutil.copyfile(runs / "nights" / "lock", runs / "copy")
    (runs / "copy").replace(runs / "nights" / "lock")  # which nobody holds
    build(runs, tmp_path / "site")
    text = words(page(tmp_path / "site" / "index.html"))
    assert "Latest night, interrupted 28 October" in text
    assert "runs now" not in text


def test_a_report_that_was_edited_and_dated_back_is_copied_again(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    build(runs, folder)
    report = next(runs.glob("*_xavier_acas_wl/report.html"))
    before = report.stat()
    report.write_bytes(report.read_bytes().replace(b"identical", b"different"))
    os.utime(report, ns=(before.st_atime_ns, before.st_mtime_ns))
    build(runs, folder)
    assert (folder / "runs" / report.parent.name / "report.html").read_bytes() == report.read_bytes()


def test_unreadable_runs_are_listed_with_the_reason(runs: Path, tmp_path: Path) -> None:
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text('{"verdict": "identical"')
    build(runs, tmp_path / "site")
    assert "unreadable" in words(page(tmp_path / "site" / "runs-1.html"))
    assert "JSONDecodeError" in words(page(tmp_path / "site" / "runs-1.html"))


def test_many_runs_have_several_pages_and_full_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.report.site.pages.PER_PAGE", 4)
    runs = tmp_path / "runs"
    make(runs, (Board("xavier"), Board("kv260", "emulated")), 3, models=("acas_wl", "acas_wr"))
    build(runs, tmp_path / "site")
    full = (tmp_path / "site" / "runs-1.html").read_text()
    assert "Later runs" in full
    assert "Earlier runs" not in full
    assert full.count("<tr><td") == 4
    shutil.copytree(next(runs.glob("20261026-*")), runs / "20261101-000000_kv260_x")
    build(runs, tmp_path / "site")
    assert (tmp_path / "site" / "runs-4.html").is_file()
    assert (tmp_path / "site" / "runs-1.html").read_text() == full


def banner(runs: Path, folder: Path) -> str:
    build(runs, folder)
    found = re.search(r'<div class="verdict.*?</div></div>', (folder / "index.html").read_text(), re.DOTALL)
    assert found
    return found[0]


def add_run(runs: Path, day: int, *, wrong: bool) -> str:
    """A run that no night started."""
    name = f"202611{day:02}-090000_xavier_acas_coc"
    document = run_document("xavier", "acas_coc") | {"started": f"2026-11-{day:02}T09:00:00Z"}
    if wrong:
        make_wrong(document)
    (runs / name).mkdir()
    (runs / name / "run.json").write_text(json.dumps(document))
    (runs / name / "report.html").write_text("<!DOCTYPE html>")
    return name


def test_no_green_banner_above_a_newer_run_that_differs(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make(runs, (Board("xavier"),), 2, models=("acas_coc",))
    assert 'class="verdict good"' in banner(runs, tmp_path / "site")
    name = add_run(runs, 3, wrong=True)
    found = banner(runs, tmp_path / "site")
    assert '<div class="verdict bad"><div><strong>1 newer run wrong</strong>' in found
    assert "The night: All as expected: 1 entry." in found
    assert f'<a href="runs/{name}/report.html">differs</a>' in found
    add_run(runs, 4, wrong=False)
    assert 'class="verdict good"' in banner(runs, tmp_path / "site"), "the next run of the same model was right"


def test_a_night_of_measurements_is_not_green(tmp_path: Path) -> None:
    make(tmp_path / "runs", (Board("xavier"),), 1, models=("acas_sl",))
    found = banner(tmp_path / "runs", tmp_path / "site")
    assert '<div class="verdict measured">' in found
    assert '<li class="word measured"><i aria-hidden="true">~</i> 1 measured</li>' in found
