"""Times, paths and the page for teachers: one list says them, and nothing else can."""

import copy
import json
import re
from types import ModuleType
from typing import Any

import pytest
import yaml
from conftest import ROOT, Site

NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def book(name: str) -> str:
    """Return a file of the folder of pages."""
    return (ROOT / "book" / name).read_text(encoding="utf-8")


def notebook(file: str) -> str:
    """Return a notebook as it lies on disk."""
    return (ROOT / "notebooks" / f"{file}.ipynb").read_text(encoding="utf-8")


def prose(file: str) -> str:
    """Return the text cells of a notebook."""
    cells = json.loads(notebook(file))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


@pytest.fixture
def wayfinding(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the tool that makes these texts."""
    for folder in ("tools", "book/_ext"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    import wayfinding

    return wayfinding


@pytest.fixture
def teaching(wayfinding: ModuleType) -> ModuleType:
    """Return the tool that makes the page for teachers."""
    import teaching

    return teaching


def changed(
    wayfinding: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str, change: Any
) -> list[str]:
    """Return the faults found once a list is changed."""
    lists = {n: copy.deepcopy(wayfinding.listed(n)) for n in ("paths.yml", "teaching.yml")}
    change(lists[name])
    monkeypatch.setattr(wayfinding, "listed", lists.__getitem__)
    import teaching

    return [*wayfinding.faults(), *teaching.faults()]


@pytest.mark.parametrize(
    ("minutes", "said"),
    [
        (40, "40 minutes"),
        (60, "an hour"),
        (75, "an hour and a quarter"),
        (80, "an hour and 20 minutes"),
        (120, "two hours"),
        (150, "two and a half hours"),
        (200, "three hours and 20 minutes"),
        (680, "11 hours"),
    ],
)
def test_a_time_is_said_as_one_says_it(wayfinding: ModuleType, minutes: int, said: str) -> None:
    assert wayfinding.spoken(minutes) == said


@pytest.mark.parametrize("file", NOTEBOOKS)
def test_a_notebook_says_the_time_of_the_list(wayfinding: ModuleType, file: str) -> None:
    known = wayfinding.notebooks()[file]
    first = "".join(json.loads(notebook(file))["cells"][0]["source"])
    assert f"\n*About {wayfinding.spoken(known.minutes)}, with the exercises " in first
    assert first.count("; runs in ") == 1
    text = notebook(file)
    assert wayfinding.timed(file, text) == text
    assert wayfinding.timed(file, text.replace("*About ", "*About 9 ", 1)) == text


def test_a_notebook_without_a_time_is_refused(wayfinding: ModuleType) -> None:
    text = notebook("05_layer_norm").replace("; runs in", "; ran in")
    with pytest.raises(ValueError, match="05_layer_norm"):
        wayfinding.timed("05_layer_norm", text)


def test_the_welcome_page_says_the_sum_of_the_chapters() -> None:
    parts = yaml.safe_load(book("chapters.yml"))
    entries = [entry for part in parts for entry in part["chapters"]]
    read = sum(entry["minutes"] for entry in entries)
    together = read + sum(entry["exercises"] for entry in entries)
    said = f"About {read / 60:.0f} hours to read, {together / 60:.0f} hours with every exercise."
    assert said in book("welcome.md")


def test_a_chapter_needs_only_chapters_before_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "book/_ext"))
    from chapter_list import chapters

    path = tmp_path / "chapters.yml"
    path.write_text(book("chapters.yml").replace("{10_gibberish}", "{15_real_weights}"), "utf-8")
    with pytest.raises(ValueError, match="13_sampling needs"):
        chapters(path)


def test_the_lists_agree_with_the_notebooks(wayfinding: ModuleType) -> None:
    import teaching

    assert [*wayfinding.faults(), *teaching.faults()] == []


def test_a_section_that_was_renamed_is_found(
    wayfinding: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(ways: Any) -> None:
        ways["paths"][0]["stops"][1]["sections"][0] = "Guesses"

    found = changed(wayfinding, monkeypatch, "paths.yml", rename)
    assert found == ["book/paths.yml: 02_guess_the_next_letter has no section 'Guesses'"]


def test_a_session_that_is_too_long_is_found(
    wayfinding: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lengthen(ways: Any) -> None:
        ways["sessions"][0]["stops"].append({"tell": "a film", "minutes": 60})

    (found,) = changed(wayfinding, monkeypatch, "paths.yml", lengthen)
    assert "'Pipes and a first guess' takes 150 minutes" in found


def test_a_chapter_in_no_session_is_found(
    wayfinding: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = changed(wayfinding, monkeypatch, "paths.yml", lambda ways: ways["sessions"].pop())
    assert found == ["book/paths.yml: 15_real_weights is in no session"]


def test_a_session_before_what_it_needs_is_found(
    wayfinding: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = changed(wayfinding, monkeypatch, "paths.yml", lambda ways: ways["sessions"].reverse())
    assert any("'Is it really GPT-2?' needs unit 9" in fault for fault in found)


def test_an_exercise_without_a_purpose_is_found(
    wayfinding: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drop(teaching: Any) -> None:
        del teaching["14_kv_cache"]["tests"][5]

    found = changed(wayfinding, monkeypatch, "teaching.yml", drop)
    assert found == ["book/teaching.yml: 14_kv_cache has the exercises [1, 2, 3, 4, 5, 6]"]


def test_every_exercise_of_every_notebook_is_on_the_page_for_teachers() -> None:
    lessons = re.split(r"^### ", book("teachers.md"), flags=re.MULTILINE)[1:]
    told = {}
    for lesson in lessons:
        file = re.search(r"notebooks/(\w+)\.ipynb", lesson)[1]
        told[file] = re.findall(r"^\| (\d+) \| [a-z, ]+ \| .{10,} \|$", lesson, re.MULTILINE)
    asked = {
        file: re.findall(r"^\*\*(\d+)\b", prose(file).partition("## Exercises")[2], re.MULTILINE)
        for file in NOTEBOOKS
    }
    assert all(asked.values())
    assert told == asked


def test_an_exercise_says_once_whether_it_checks_itself(teaching: ModuleType) -> None:
    part = [exercise.grade for exercise in teaching.exercises("06_gelu_feed_forward")]
    itself = "checks itself"  # all but the third, which asks for a proof
    assert part == [f"easy, {itself}", f"medium, {itself}", "medium", f"hard, {itself}"]
    every = [e.grade for file in NOTEBOOKS for e in teaching.exercises(file)]
    assert all(grade.count("checks itself") <= 1 for grade in every)


@pytest.mark.parametrize("file", NOTEBOOKS)
def test_an_exercise_checks_itself_or_has_a_folded_solution(
    teaching: ModuleType, file: str
) -> None:
    _, *exercises = re.split(
        r"^\*\*(?=\d+\b)", prose(file).partition("## Exercises")[2], flags=re.M
    )
    grades = [exercise.grade for exercise in teaching.exercises(file)]
    for text, grade in zip(exercises, grades, strict=True):
        assert "checks itself" in grade or "<details" in text, text


@pytest.mark.parametrize(
    "text",
    [
        "[chapter {}](04_attention.ipynb)",
        "[Chapter {}](../notebooks/04_attention.ipynb#heads)",
        '<a data-doc="notebooks/04_attention">chapter {}</a>',
        'chapters <tspan data-chapter="04_attention">{}</tspan>',
    ],
)
def test_a_chapter_that_moves_takes_its_number_along(wayfinding: ModuleType, text: str) -> None:
    from chapters import renumbered

    assert renumbered(text.format(5), {"04_attention": 7}) == text.format(7)


def test_every_number_of_the_map_is_renewed() -> None:
    drawing = book("_static/machine.svg")
    renewed = re.compile(r'<tspan data-chapter="(\d+)_\w+">(\d+)</tspan>')
    assert len(renewed.findall(drawing)) > 10
    assert all(int(file) == int(number) for file, number in renewed.findall(drawing))
    assert not re.search(r"[Cc]hapters? [\d, ]*\d", renewed.sub("", drawing))


def test_a_session_leads_to_its_sections(site: Site) -> None:
    page = (site.html / "book" / "teachers.html").read_text(encoding="utf-8")
    assert 'href="../notebooks/11_every_gradient.html#break-it"' in page
