"""The built site: no warning, the pages of `_toc.yml` and no others, links that lead somewhere."""

import html
import json
import posixpath
import re
import runpy
import shutil
import sys
from functools import cache
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import tinycss2
import yaml
from conftest import ROOT, Site, build_book
from fontTools.ttLib import TTFont
from pygments.styles import get_style_by_name

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from term_list import Term, terms

# What Sphinx writes beside the pages of the table of contents.
GENERATED = {"index", "py-modindex", "search"}

# Attributes through which a page loads something by itself; links that a reader follows are not.
LOADING = {"src", "srcset", "data", "poster"}


def toc_pages() -> list[str]:
    """Return the pages of `_toc.yml` in order, without suffix."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [toc["root"]] + [
        entry["file"] for part in toc["parts"] for entry in part.get("chapters", [])
    ]


@cache
def pages(site: Site) -> dict[str, str]:
    """Return the built pages by name without suffix."""
    return {
        path.relative_to(site.html).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(site.html.rglob("*.html"))
    }


class ElementParser(HTMLParser):
    """Collects the elements of a page as (tag, attributes)."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


@cache
def elements(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the elements of a page as (tag, attributes)."""
    parser = ElementParser()
    parser.feed(text)
    return parser.found


@cache
def anchors(text: str) -> set[str]:
    """Return the ids that a link into this page can name."""
    return {attrs["id"] for _, attrs in elements(text) if "id" in attrs}


def test_the_build_ends_without_a_warning(site: Site) -> None:
    assert site.exit_code == 0, site.complaints


def test_the_pages_are_those_of_the_table_of_contents(site: Site) -> None:
    assert set(pages(site)) - GENERATED == set(toc_pages())


def test_every_notebook_is_in_the_table_of_contents() -> None:
    notebooks = {f"notebooks/{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert notebooks == {page for page in toc_pages() if page.startswith("notebooks/")}


@pytest.mark.slow  # builds a site: 5 s
def test_an_entry_without_a_file_fails_the_build(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "book", source / "book", ignore=_all_pages_but_welcome)
    shutil.copy(ROOT / "_config.yml", source)
    toc = {"format": "jb-book", "root": "book/welcome", "chapters": [{"file": "book/renamed"}]}
    (source / "_toc.yml").write_text(yaml.safe_dump(toc), encoding="utf-8")
    broken = build_book(source, tmp_path / "site")
    assert broken.exit_code != 0
    assert "book/renamed" in broken.complaints


def _all_pages_but_welcome(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(".md") and name != "welcome.md"]


def test_links_inside_the_book_lead_to_a_place_that_exists(site: Site) -> None:
    built = pages(site)
    lost = []
    for name, text in built.items():
        for tag, attrs in elements(text):
            target = urlsplit(attrs.get("href", "") if tag == "a" else "")
            if target.scheme or target.netloc or not (target.path or target.fragment):
                continue
            path = (site.html / name).parent / unquote(target.path) if target.path else None
            if path is not None and not path.is_file():
                lost.append(f"{name}: {attrs['href']}")
            elif target.fragment:
                page = path.resolve().relative_to(site.html.resolve()) if path else Path(name)
                if unquote(target.fragment) not in anchors(built[page.with_suffix("").as_posix()]):
                    lost.append(f"{name}: {attrs['href']}")
    assert lost == []


def test_chapter_links_in_raw_html_are_resolved(site: Site) -> None:
    assert [name for name, text in pages(site).items() if "data-doc" in text] == []


def test_the_map_links_to_the_chapters_in_the_book(site: Site) -> None:
    linked = set(re.findall(r'href="\.\./(notebooks/[^"#]+)\.html"', pages(site)["book/welcome"]))
    assert linked >= {page for page in toc_pages() if page.startswith("notebooks/")}


def test_nothing_is_loaded_from_another_host(site: Site) -> None:
    foreign = []
    for name, text in pages(site).items():
        for tag, attrs in elements(text):
            loaded = [attrs[attribute] for attribute in LOADING & attrs.keys()]
            loaded += [attrs.get("href", "")] * (tag in {"link", "image", "use"})
            foreign += [f"{name}: {url}" for url in loaded if urlsplit(url).netloc]
    for path in site.html.rglob("*.css"):
        style = path.read_text(encoding="utf-8")
        urls = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)", style)
        foreign += [f"{path.name}: {url}" for url in urls]
    assert foreign == []


@pytest.mark.parametrize("page", [p for p in toc_pages() if p.startswith("notebooks/")])
def test_a_chapter_offers_its_notebook(site: Site, page: str) -> None:
    links = [attrs for tag, attrs in elements(pages(site)[page]) if tag == "a"]
    (button,) = [a for a in links if "download" in a and a["href"].endswith(".ipynb")]
    offered = (site.html / page).parent / button["href"]
    source = ROOT / f"{page}.ipynb"
    assert json.loads(offered.read_text("utf-8")) == json.loads(source.read_text("utf-8"))


def test_every_page_names_the_version_of_gptlib(site: Site) -> None:
    footer = f"Built with gptlib {version('gptlib')}."
    assert [name for name in toc_pages() if footer not in pages(site)[name]] == []


def test_the_site_carries_no_dead_weight(site: Site) -> None:
    size = sum(path.stat().st_size for path in (site.html / "_static").rglob("*") if path.is_file())
    assert size < 3.5e6, f"{size / 1e6:.1f} MB of scripts, styles and fonts"


def loaded_files(site: Site, page: str) -> set[Path]:
    """Return the page's own file and those it loads: scripts, styles and pictures."""
    found = [
        attrs[name] for _, attrs in elements(pages(site)[page]) for name in LOADING & attrs.keys()
    ]
    for tag, attrs in elements(pages(site)[page]):
        if tag == "link" and {"stylesheet", "icon", "preload"} & set(attrs["rel"].split()):
            found.append(attrs["href"])
    beside = (site.html / page).parent
    return {site.html / f"{page}.html", *((beside / urlsplit(url).path).resolve() for url in found)}


@pytest.mark.parametrize("page", [*toc_pages(), "search", "genindex"])
def test_a_page_weighs_at_most_1_2_megabytes_beside_the_shared_model(site: Site, page: str) -> None:
    sizes = {path.name: path.stat().st_size for path in loaded_files(site, page)}
    assert len(sizes) > 10
    sizes.pop("panel-weights.js", None)
    assert sum(sizes.values()) <= 1.2e6, sorted(sizes.items(), key=lambda each: -each[1])


def test_no_page_loads_a_script_for_mathematics(site: Site) -> None:
    assert not list(site.html.rglob("*mathjax*"))
    for name, text in pages(site).items():
        assert not re.search(r"<script[^>]*mathjax|window\.MathJax", text, re.IGNORECASE), name


def test_a_formula_carries_its_tex(site: Site) -> None:
    text = pages(site)["notebooks/07_residual"]
    assert r'<math alttext="\frac{dy}{dx} = 1 + f&#x27;(x)," display="block">' in text
    assert r'<annotation encoding="application/x-tex">\sqrt{2N}</annotation>' in text


def test_a_formula_keeps_its_full_stop_at_the_end_of_a_line(site: Site) -> None:
    parted = [
        name for name, text in pages(site).items() if re.search(r"</math></span>[.,;:)]", text)
    ]
    assert parted == []
    assert "</math>.</span>" in pages(site)["notebooks/07_residual"]


@pytest.mark.slow  # builds a site: 5 s
def test_a_formula_that_cannot_be_set_fails_the_build_with_its_page(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "book", source / "book", ignore=_all_pages_but_welcome)
    shutil.copy(ROOT / "_config.yml", source)
    (source / "page.md").write_text("# Formulas\n\n$\\frac{1}$ and $\\unheard{x}$, but $x^2$.\n")
    (source / "_toc.yml").write_text("format: jb-book\nroot: page\n", encoding="utf-8")
    broken = build_book(source, tmp_path / "site")
    assert broken.exit_code != 0
    complaints = [line for line in broken.complaints.splitlines() if "formula" in line]
    assert len(complaints) == 2
    assert all("page.md" in line for line in complaints)
    assert r"\unheard" in complaints[1]


def test_the_font_of_the_formulas_has_measures_letters_and_its_licence(site: Site) -> None:
    font = TTFont(site.html / "_static" / "STIXTwoMath.woff")
    assert "MATH" in font
    assert font.getBestCmap().keys() >= set(map(ord, "x=∑√−⋅≈()μ𝑥𝜀Φ′"))
    assert "SIL Open Font License" in font["name"].getDebugName(13)
    written = "".join(
        html.unescape(re.sub(r"<annotation.*?</annotation>|<[^>]*>", "", formula))
        for text in pages(site).values()
        for formula in re.findall(r"<math.*?</math>", text, re.DOTALL)
    )
    assert set(map(ord, written)) - font.getBestCmap().keys() <= {0x0A, 0x2061}  # they draw nothing


def test_styles_lose_only_rules_that_match_nothing() -> None:
    used_rules = runpy.run_path(str(ROOT / "book" / "_ext" / "lean_site.py"))["used_rules"]
    style = """
        a, .seen b, .gone i { x: 1 } .gone { x: 2 } #gone .seen { x: 3 } p:not(.gone) { x: 4 }
        @media print { .gone { x: 5 } .seen\\:wide { x: 6 } } @media screen { .gone { x: 7 } }
        @font-face { x: 8 }
    """
    rules = tinycss2.parse_stylesheet(style, True, True)
    left = used_rules(rules, {"seen", "seen:wide"})
    assert re.findall(r"x: (\d)", left) == ["1", "4", "6", "8"]
    assert left.startswith("a,.seen b{")


def luminance(colour: str) -> float:
    """Return the relative luminance of `rrggbb`, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_of_code_stands_out_from_its_ground(theme: str) -> None:
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    options = config["sphinx"]["config"]["html_theme_options"]
    css = (ROOT / "book" / "_static" / "book.css").read_text(encoding="utf-8")
    variables = re.search(rf'html\[data-theme="{theme}"\] {{(.*?)}}', css, re.DOTALL)
    ground = re.search(r"--pst-color-surface: #([0-9a-f]{6})", variables[1])[1]
    style = get_style_by_name(options[f"pygments_{theme}_style"])
    for token, look in style:
        if look["color"]:
            low, high = sorted((luminance(look["color"]), luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 4.5, f"{token}: {look['color']} on {ground}"


@pytest.mark.parametrize("page", ["welcome", "how_to_use"])
def test_the_code_on_a_page_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})
    assert ("print(" in text) == bool(capsys.readouterr().out)


def test_figures_are_drawn_in_the_page_itself(site: Site) -> None:
    for name, page in pages(site).items():
        body = page.partition("<article")[2]
        assert body.count('<figure class="gpt-figure') == len(
            re.findall(r'<figure class="gpt-figure[^>]*><svg role="img" aria-label="[^"]+"', body)
        ), name
        assert 'src="data:' not in body, name


def test_a_chapter_is_named_by_the_one_list(site: Site) -> None:
    listed = yaml.safe_load((ROOT / "book" / "chapters.yml").read_text(encoding="utf-8"))
    entries = [entry for part in listed for entry in part["chapters"]]
    assert [f"notebooks/{entry['file']}" for entry in entries] == [
        page for page in toc_pages() if re.match(r"notebooks/\d", page)
    ]
    index = (site.html / "searchindex.js").read_text(encoding="utf-8")
    for number, entry in enumerate(entries, start=1):
        page = (site.html / f"notebooks/{entry['file']}.html").read_text(encoding="utf-8")
        assert f"<title>{number}. {entry['title']}: " in page
        assert f"Chapter {number} · {entry['title']}</p>" in page
        assert f'"{number}. {entry["title"]}: ' in index


def places_of(site: Site, term: Term) -> set[tuple[str, str]]:
    """Return the pages that the glossary's entry names, each with the id it leads to."""
    entry = re.search(
        rf'<dt id="{re.escape(term.anchor)}">.*?</dd>', pages(site)["book/glossary"], re.DOTALL
    )
    line = entry[0].partition('class="gpt-way-back"')[2]
    links = re.findall(r'href="([^"]+)\.html#([^"]+)"', line)
    return {(posixpath.normpath(f"book/{page}"), anchor) for page, anchor in links}


def test_the_index_knows_each_term_and_what_learners_call_it(site: Site) -> None:
    index = pages(site)["genindex"]
    listed = set(re.findall(r"<a [^>]*>(?:<strong>)?([^<]+)(?:</strong>)?</a>|<td>([^<]+)", index))
    words = {word for pair in listed for word in pair}
    assert [t.term for t in terms() if not {t.term, *t.search} <= words] == []


def test_the_general_index_is_in_the_navigation(site: Site) -> None:
    linked = [
        name
        for name in toc_pages()
        if re.search(r'href="[^"]*genindex.html">Index<', pages(site)[name])
    ]
    assert set(toc_pages()) - set(linked) == {"genindex"}  # a page's own entry is "#"


def test_a_link_to_an_entry_and_the_entrys_way_back_belong_together(site: Site) -> None:
    for term in terms():
        there = places_of(site, term)
        linking = {
            name
            for name, text in pages(site).items()
            if name != "genindex" and f'glossary.html#{term.anchor}"' in text
        }
        assert linking <= {page for page, _ in there}, term.term
        for page, anchor in there:
            assert anchor in {f"defines-{term.anchor}", f"uses-{term.anchor}"}
            assert anchor in anchors(pages(site)[page])


def test_an_entry_names_the_chapter_that_defines_its_term_and_those_that_use_it(site: Site) -> None:
    softmax = next(term for term in terms() if term.term == "softmax")
    assert ("notebooks/01_the_whole_machine", "defines-term-softmax") in places_of(site, softmax)
    assert ("notebooks/04_attention", "uses-term-softmax") in places_of(site, softmax)
    assert "Defined in chapter <a" in pages(site)["book/glossary"]
