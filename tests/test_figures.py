"""Figures: page colours only, escaped words, repeatable bytes, nothing left behind."""

import math
import re
import urllib.parse
from xml.etree import ElementTree

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from gptlib import GPT, GPTConfig, LayerNorm, figures
from gptlib.figures import (
    Picture,
    axes,
    drawings,
    label_small_bars,
    machine,
    pictures,
    show,
    smooth,
    source,
    table,
)

AWKWARD = 'a < b & "c" </svg><script>'


def html_of(picture: Picture) -> str:
    return picture._repr_mimebundle_()["text/html"]


def drawn(title: str = "", label: str = "") -> Picture:
    with axes() as ax:
        ax.plot([1, 2, 3], label=label or "rises")
        ax.set(title=title, xlabel="step", ylabel="loss (nats)")
        ax.legend()
        return show(ax, caption="It rises.", alt="A rising line.")


# --- axes and show


def test_caption_and_alt_text_are_escaped_and_readable() -> None:
    made = html_of(Picture("<svg></svg>", caption=AWKWARD, alt=AWKWARD))
    root = ElementTree.fromstring(figures.inline(made))
    svg = root.find("{http://www.w3.org/2000/svg}svg")
    assert svg is not None
    assert svg.attrib == {"role": "img", "aria-label": AWKWARD}
    assert root.findtext("figcaption") == AWKWARD
    image = ElementTree.fromstring(made.replace("<figcaption", "</img><figcaption")).find("img")
    assert image is not None
    assert image.attrib["alt"] == AWKWARD


@pytest.mark.parametrize("text", [AWKWARD, "100 % #1 'é' \n_$x$", "%22%3C"])
def test_the_page_gets_the_drawing_itself_and_nothing_of_the_image(text: str) -> None:
    picture = drawn(title=text)
    made = html_of(picture)
    page = figures.inline(f"<p>before</p>{made}<p>after</p>{made}")
    svg = picture.svg.replace("<svg", '<svg role="img" aria-label="A rising line."', 1)
    assert page.count(svg) == 2
    assert "<img" not in page
    assert "data:" not in page
    assert pictures.CARD not in page
    assert len(page) < 2 * len(svg) + 400
    assert len(made) < 1.35 * len(svg)


def test_the_page_is_told_how_wide_a_drawing_is_and_must_be() -> None:
    with axes(width=6) as ax:
        ax.set_title("small", fontsize=4.5)
        small = show(ax, caption="", alt="")
    for picture, least in ((small, 4.5), (drawn(), 11), (machine(GPTConfig(), 2, 4), 11)):
        box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture.svg)
        assert box is not None
        width, height = float(box[1]), float(box[2])
        unit = 4 / 3 if "pt" in picture.svg[: picture.svg.index(">")] else 1
        style = ElementTree.fromstring(figures.inline(html_of(picture))).attrib["style"]
        asked = dict(each.split(":") for each in style.split(";"))
        assert float(asked["--gpt-wide"].removesuffix("px")) == pytest.approx(width * unit, abs=1)
        assert float(asked["--gpt-least"].removesuffix("px")) == pytest.approx(
            width * 9 / least, abs=1
        )
        assert float(asked["--gpt-shape"]) == pytest.approx(width / height, abs=0.001)


@pytest.mark.parametrize("lying", [False, True])
def test_bars_too_small_to_be_seen_get_their_number_and_no_other_does(lying: bool) -> None:
    with axes() as ax:
        (ax.barh if lying else ax.bar)(["a", "b", "c", "d"], [100, 0, 0.25, -1.5])
        ax.plot([0, 1], [0, 1])
        label_small_bars(ax)
        svg = show(ax, caption="", alt="").svg
    assert {"0", "0.25", "−1.5"} <= labels_of(svg)
    assert "1e+02" not in labels_of(svg)


def test_the_text_and_the_threshold_of_small_bars_can_be_chosen() -> None:
    with axes() as ax:
        ax.bar([1, 2, 3], [10, 0.4, 0.1])
        label_small_bars(ax, "{:.1%}", below=0.02)
        svg = show(ax, caption="", alt="").svg
    assert "10.0%" in labels_of(svg)
    assert "40.0%" not in labels_of(svg)


def test_the_text_of_small_bars_can_be_turned() -> None:
    for upright, turned in ((True, "rotate(-0 "), (False, "rotate(-90)")):
        with axes() as ax:
            ax.bar([1, 2], [100, 0.25])
            label_small_bars(ax, upright=upright)
            svg = show(ax, caption="", alt="").svg
        assert re.search(rf"{re.escape(turned)}[^>]*>0\.25<", svg)


def test_the_image_is_whole_xml_that_brings_its_own_colours() -> None:
    for picture in (drawn(AWKWARD), machine(GPTConfig(), 2, 4), Picture("<svg></svg>", "", "")):
        [image] = re.findall('src="data:image/svg\\+xml,([^"]*)"', html_of(picture))
        assert not set(image) & set("<>#\"'\n")
        assert image.isascii()
        root = ElementTree.fromstring(urllib.parse.unquote(image))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "background" in (root[0].text or "")


def test_text_plain_is_the_caption_alone() -> None:
    assert drawn()._repr_mimebundle_()["text/plain"] == "Figure: It rises."


def test_labels_inside_a_drawing_are_escaped() -> None:
    svg = drawn(title=AWKWARD, label=AWKWARD).svg
    texts = ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter()]
    assert AWKWARD in texts
    assert "<script" not in svg


def test_a_picture_is_the_same_inside_and_after_the_block_of_its_axes() -> None:
    with axes() as ax:
        ax.set(title="the same", xlabel="step")
        inside = show(ax, caption="", alt="")
    assert show(ax, caption="", alt="").svg == inside.svg


def test_ink_becomes_the_colour_of_the_page() -> None:
    svg = drawn().svg
    assert pictures.INK not in svg
    assert "currentColor" in svg
    assert not re.search(r"(fill|stroke): #(000000|ffffff)", svg)


def test_words_stay_text_in_the_font_of_the_page() -> None:
    svg = drawn().svg
    assert "loss (nats)" in svg
    assert "system-ui" in svg
    assert "DejaVu" not in svg


def test_the_same_figure_gives_the_same_bytes() -> None:
    assert drawn().svg == drawn().svg


def test_a_picture_carries_no_date_and_no_document_header() -> None:
    svg = drawn().svg
    assert svg.startswith("<svg")
    assert "metadata" not in svg
    assert "<?xml" not in svg


def test_settings_are_restored_and_the_figure_is_closed() -> None:
    before = dict(mpl.rcParams)
    drawn()
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def test_settings_are_restored_and_the_figure_is_closed_after_an_error() -> None:
    before = dict(mpl.rcParams)
    with pytest.raises(RuntimeError, match="inside"), axes():
        raise RuntimeError("inside")
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def test_an_error_leaves_other_figures_open() -> None:
    other = plt.figure()
    try:
        with pytest.raises(RuntimeError), axes():
            raise RuntimeError
        assert plt.get_fignums() == [other.number]
    finally:
        plt.close(other)


def test_show_takes_one_axes_many_axes_or_their_figure() -> None:
    with axes(1, 2) as pair:
        pair[0].set_title("left")
        pair[1].set_title("right")
        pictures = [show(d, caption="c", alt="a") for d in (pair, pair[0], pair[0].figure)]
    assert isinstance(pair, np.ndarray)
    assert all("left" in picture.svg and "right" in picture.svg for picture in pictures)


# --- table


def test_a_table_groups_the_digits_of_integers_only() -> None:
    made = table(["part", "n", "on", "mean"], [["head", 38597376, True, 0.25]])
    assert made.rows == [["head", "38,597,376", "True", "0.25"]]


def test_a_row_of_another_length_is_refused_by_its_numbers() -> None:
    with pytest.raises(ValueError, match=r"a row has 3 cells, the header 2: \[1, 2, 3\]"):
        table(["a", "b"], [[1, 2], [1, 2, 3]])


def test_words_in_a_table_are_escaped() -> None:
    page = table([AWKWARD], [[AWKWARD]], caption=AWKWARD)._repr_html_()
    root = ElementTree.fromstring(page)
    texts = [element.text for element in root.iter() if element.text]
    assert texts == [AWKWARD] * 3


def test_a_table_in_a_terminal_aligns_words_left_and_numbers_right() -> None:
    text = str(table(["part", "numbers"], [["norm", 36864], ["attention", 7]], caption="Two parts"))
    assert text.split("\n") == [
        "Two parts",
        "part       numbers",
        "norm        36,864",
        "attention        7",
    ]


def test_columns_of_words_are_set_to_the_left_and_columns_of_numbers_to_the_right() -> None:
    made = table(
        ["n", "what", "size", "shape", "unknown"],
        [[1, "one thing", "2.5 MB", "(2, 4)", "–"], [-20, "7 things, not 8", "≈ 3", "(1,)", "nan"]],
    )
    root = ElementTree.fromstring(made._repr_html_())
    styles = {cell.text: cell.get("style") for cell in root.iter() if cell.tag in ("th", "td")}
    assert styles["what"] == styles["one thing"] == "text-align: left"
    assert styles["size"] is styles["2.5 MB"] is None
    assert str(made).split("\n")[1:] == [
        "1    one thing        2.5 MB  (2, 4)        –",
        "-20  7 things, not 8     ≈ 3    (1,)      nan",
    ]


def test_a_row_stays_one_line_in_a_terminal_whatever_is_in_its_cells() -> None:
    made = table(["token", "count"], [["\n", 1], [" ", 2], ["a\r\n\tb", 3]])
    assert str(made).split("\n") == [
        "token     count",
        "\\n            1",
        "              2",
        "a\\r\\n\\tb      3",
    ]


def test_a_table_without_a_caption_has_none() -> None:
    made = table(["a"], [[1]])
    assert "caption" not in made._repr_html_()
    assert str(made) == "a\n1"


# --- source


def test_source_is_the_code_as_it_stands_in_the_package() -> None:
    shown = source(LayerNorm.forward)
    assert str(shown).startswith("def forward(self, x: Tensor) -> Tensor:")
    assert repr(shown) == str(shown)
    assert 'class="highlight gpt-source"' in shown._repr_html_()


def test_source_escapes_what_html_would_read_as_markup() -> None:
    page = figures.Source("a < b  # </pre><script>")._repr_html_()
    assert "<script" not in page
    assert "&lt;" in page


# --- smooth


def test_smoothing_leaves_a_constant_alone_from_the_first_value_on() -> None:
    assert smooth([3.0] * 5) == pytest.approx([3.0] * 5)


def test_smoothing_starts_at_the_first_value_and_weighs_the_past() -> None:
    assert smooth([1.0, 4.0], weight=0.5) == pytest.approx([1.0, (0.25 * 1 + 0.5 * 4) / 0.75])


def test_smoothing_nothing_gives_nothing() -> None:
    assert smooth([]) == []


# --- machine


def words(picture: Picture) -> list[str]:
    root = ElementTree.fromstring(picture.svg)
    return [element.text or "" for element in root.iter() if element.tag.endswith("text")]


def test_the_machine_shows_the_shape_after_each_stage() -> None:
    shown = words(machine(GPTConfig(), 2, 4))
    assert [text for text in shown if text.startswith("(")] == [
        "(2, 4)",
        *["(2, 4, 768)"] * 5,
        "(2, 4, 50257)",
    ]


def test_the_machine_follows_its_config(tiny: GPTConfig) -> None:
    shown = words(machine(tiny, 3, 5))
    expected = [
        "50 × 16",
        "8 × 16",
        "dropout 0",
        "2 equal blocks",
        "4 heads × 4",
        "to 64 and back",
        "16 to 50",
        "(3, 5)",
        "(3, 5, 16)",
        "(3, 5, 50)",
    ]
    assert [text for text in expected if text not in shown] == []
    assert "768" not in html_of(machine(tiny, 3, 5))


def test_one_block_is_not_called_blocks(tiny: GPTConfig) -> None:
    one = GPTConfig(**{**tiny.to_dict(), "n_layers": 1})
    assert "1 equal block" in words(machine(one, 1, 1))


def test_the_alt_text_of_the_machine_names_every_shape() -> None:
    alt = machine(GPTConfig(), 2, 4).alt
    assert alt.count("(2, 4, 768)") == 5
    assert "token ids (2, 4);" in alt
    assert "logits (2, 4, 50257)." in alt


def test_the_machine_wears_the_component_colours_and_the_ink_of_the_page() -> None:
    svg = machine(GPTConfig(), 2, 4).svg
    colours = set(re.findall(r"#[0-9A-Fa-f]{3,6}", svg))
    palette = {figures.EMBED, figures.ATTENTION, figures.FEED_FORWARD, figures.NORM, figures.HEAD}
    assert colours == palette | {figures.RESIDUAL, "#fff"}
    assert svg.count("#fff") == 3  # the crosses of the three sums, on grey
    assert 'fill="currentColor"' in svg


def test_the_machine_is_drawn_twice_alike_and_fits_its_width() -> None:
    assert machine(GPTConfig(), 2, 4) == machine(GPTConfig(), 2, 4)
    small, large = (ElementTree.fromstring(machine(GPTConfig(), b, 4).svg) for b in (2, 20000))
    assert int(large.attrib["width"]) == int(small.attrib["width"]) + 8 * 4


def test_the_machine_refuses_what_it_would_draw_wrongly() -> None:
    with pytest.raises(ValueError, match="norm_first=True only, got norm_first=False"):
        machine(GPTConfig(norm_first=False), 2, 4)


# --- the river, the block and its norms


def test_the_river_adds_up_what_it_shows() -> None:
    shown = words(drawings.river([0.104, -1.0], [("part", figures.NORM, [0.204, 0.5])]))
    assert [text for text in shown if text[-1].isdigit()] == [
        *("0.10", "−1.00"),
        *("+0.20", "+0.50"),
        *("0.30", "−0.50"),
    ]


@pytest.mark.parametrize("numbers", [[1.0], [1.0, float("nan")]])
def test_the_river_refuses_what_does_not_add_up(numbers: list[float]) -> None:
    with pytest.raises(ValueError, match="part must hold 2 finite numbers"):
        drawings.river([1.0, 2.0], [("part", figures.NORM, numbers)])


def test_the_block_shows_the_shapes_that_the_model_has(tiny: GPTConfig) -> None:
    trace: dict[str, torch.Tensor] = {}
    GPT(tiny)(torch.zeros(3, 5, dtype=torch.int64), trace=trace)
    shown = words(drawings.block(tiny, 3, 5))
    assert str(tuple(trace["blocks.0.attn.weights"].shape)) in shown
    assert shown.count(str(tuple(trace["blocks.0"].shape))) == 6


def test_the_block_refuses_what_it_would_draw_wrongly() -> None:
    with pytest.raises(ValueError, match="norm_first=True only, got norm_first=False"):
        drawings.block(GPTConfig(norm_first=False), 2, 4)


def test_a_post_ln_stream_meets_two_norms_in_each_block() -> None:
    assert "24 in a row in 12 blocks" in drawings.norm_orders(12).caption


# --- prefill and decode


def test_a_decode_step_computes_one_row_and_keeps_those_of_the_cache() -> None:
    picture = drawings.prefill_decode("abc", "d")
    prefill, step = 3 * 9 + 6 + 3 * 3 + 3, 9 + 4 + 3 + 3  # squares
    assert picture.svg.count('fill-opacity="0.85"') == prefill + step + 1  # and the legend's
    assert picture.svg.count('fill-opacity="0.32"') == 3 * 6 + 1
    assert "1 new row; the cache holds 4 afterwards" in words(picture)


@pytest.mark.parametrize(("prompt", "written"), [("", "a"), ("abcdefgh", "ij")])
def test_prefill_needs_a_prompt_that_fits_the_drawing(prompt: str, written: str) -> None:
    with pytest.raises(ValueError, match="need a prompt and at most 9 tokens"):
        drawings.prefill_decode(prompt, written)


# --- drawings of attention

TOY = {
    "words": ["cat", "it"],
    "x": [(1, 0), (0, 1)],
    "q": (2, 0),
    "k": [(1, 0), (0, 0)],
    "v": [(0, 3), (0, 1)],
}


def test_the_flow_of_attention_shows_the_numbers_that_attention_gives() -> None:
    shown = words(figures.drawings.attention_flow(**TOY))
    power = math.exp(2 / math.sqrt(2))
    share = power / (power + 1)
    mean = share * 3 + (1 - share)
    for number in ("1.41", f"{power:.2f}", f"{share:.2f}", f"(0, {mean:.2f})", "−∞"):
        assert number in shown


def test_the_flow_of_attention_refuses_tokens_that_do_not_match() -> None:
    with pytest.raises(ValueError, match="2 words, 1 tokens"):
        figures.drawings.attention_flow(**{**TOY, "x": [(1, 0)]})
    with pytest.raises(ValueError, match="as long as the query, 3"):
        figures.drawings.attention_flow(**{**TOY, "q": (2, 0, 0)})


def test_the_shares_of_a_search_are_the_softmax_of_its_scores() -> None:
    cards = [("a", "noun", "1"), ("b", "verb", "2")]
    picture = figures.drawings.soft_search("a noun?", cards, [math.log(3), 0.0])
    assert "75 %" in words(picture)
    assert "25 %" in words(picture)
    with pytest.raises(ValueError, match="2 cards, 1 scores"):
        figures.drawings.soft_search("a noun?", cards, [1.0])


POWER = r"$\mathdefault{10^{2}}$"


def labels_of(svg: str) -> set[str]:
    return set(re.findall(r">([^<>\n]+)</text>", svg))


def test_a_target_is_the_letter_after_its_place_in_the_text() -> None:
    line = "O Romeo, Romeo! wherefore art thou Romeo?"
    shown = words(figures.drawings.batches(line, [16, 30], 8))
    letters = [text for text in shown if len(text) == 1]
    x, y = "wherefor" + "thou␣Rom", "herefore" + "hou␣Rome"
    assert "".join(letters) == line.replace(" ", "␣") + x + y


@pytest.mark.parametrize(
    ("starts", "fault"), [([], "fit"), ([-1], "fit"), ([33], "fit"), ([2, 10], "overlap")]
)
def test_windows_that_do_not_fit_the_text_or_its_drawing_are_refused(
    starts: list[int], fault: str
) -> None:
    line = "O Romeo, Romeo! wherefore art thou Romeo?"
    figures.drawings.batches(line, [32], 8)
    with pytest.raises(ValueError, match=fault):
        figures.drawings.batches(line, starts, 8)


def test_dollars_in_labels_are_dollars() -> None:
    labels = ["$$", "$x_$", "_$^$", "costs $1 or $2", r"\$5", r"\mathdefault", POWER]
    with axes() as ax:
        ax.semilogy([1, 10, 100, 1000, 10, 10, 10], label="$a$")
        ax.set_xticks(range(7), labels)
        ax.annotate("$^$", (1, 10))
        ax.legend()
        svg = show(ax, caption="A caption.", alt="A line.").svg
    assert {*labels, "$a$", "$^$"} <= labels_of(svg)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.0005, 20_000], {"0.001", "0.01", "0.1", "1", "10", "100", "1,000", "10,000"}),
        ([2e-13, 5e8], {"1e−12", "1e−9", "1e−6", "0.001", "1", "1,000", "1,000,000"}),
        ([0.3, 0.7], {"0.3", "0.4", "0.6"}),  # less than a power: ticks between have names
    ],
)
def test_the_ticks_of_a_log_axis_are_named_in_letters_of_one_size(
    values: list[float], labels: set[str]
) -> None:
    with axes() as ax:
        ax.semilogy(values)
        ax.set_xticks([0, 1], ["a", "b"])
        svg = show(ax, caption="A caption.", alt="A line.").svg
    assert labels <= labels_of(svg)
    assert len(set(re.findall(r"font(?:-size)?: ([\d.]+)", svg))) == 1


@pytest.mark.parametrize("make", ["categories", "function", "log axis"])
def test_dollars_of_labels_that_matplotlib_asks_for_late_are_dollars(make: str) -> None:
    with axes() as ax:
        if make == "categories":
            ax.barh(["$a$", POWER], [1, 2])
        elif make == "function":
            ax.plot([1, 2, 3])
            ax.xaxis.set_major_formatter(lambda x, at: "$a$" if at % 2 else POWER)
        else:
            ax.loglog([1, 10, 100])
            ax.set_xticks([1, 2], ["$a$", POWER])
        svg = show(ax, caption="A caption.", alt="A line.").svg
    assert {"$a$", POWER} <= labels_of(svg)


def test_tables_and_figures_are_literal_for_mathjax() -> None:
    made = table(["t"], [["$x$"]], caption="costs $5 and $6")._repr_html_()
    assert ElementTree.fromstring(made).attrib["class"] == "gpt-table mathjax_ignore"
    figure = figures.inline(html_of(drawn()))
    assert ElementTree.fromstring(figure).attrib["class"] == "gpt-figure mathjax_ignore"


def test_a_line_that_is_merged_keeps_its_text_and_brackets_what_comes_next() -> None:
    stages = [list("ab ab"), ["ab", " ", "ab"], ["ab", " ab"]]
    picture = figures.drawings.merging(stages)
    assert picture.svg.count("<rect") == 5 + 3 + 2
    assert picture.svg.count("<path") == 2 + 1  # two pairs, then one
    assert "[ab] [␣] [ab]" in picture.alt
    with pytest.raises(ValueError, match="'ba' is not 'ab'"):
        figures.drawings.merging([["a", "b"], ["ba"]])


# --- messages of the backward pass


def test_the_graph_of_backward_shows_the_slopes_that_steps_measure() -> None:
    w, x, y, h = 0.3, 1.5, -0.4, 1e-6

    def loss(w: float, x: float) -> float:
        return (math.tanh(w * x) - y) ** 2

    by_w = (loss(w + h, x) - loss(w - h, x)) / (2 * h)
    by_x = (loss(w, x + h) - loss(w, x - h)) / (2 * h)
    shown = words(drawings.backward_graph(w, x, y))
    assert {f"{by_w:.3g}", f"{by_x:.3g}", f"{loss(w, x):.3g}"} <= set(shown)


def test_the_graph_of_backward_refuses_what_is_not_finite() -> None:
    with pytest.raises(ValueError, match="w, x and y must be finite"):
        drawings.backward_graph(w=math.inf)


def test_backward_gives_each_part_of_the_machine_its_rule() -> None:
    picture = drawings.backward_machine()
    assert picture.alt.index("loss") < picture.alt.index("head") < picture.alt.index("token")
    assert words(picture).count("a copy around, a copy through") == 2


def test_the_rules_of_backward_cross_over_at_a_product_only() -> None:
    assert [w for w in words(drawings.backward_rules()) if "·" in w or "+ h" in w] == [
        *("g · b", "g · a", "g + h"),
    ]


# --- the dice


def test_the_dice_fall_on_the_piece_that_is_drawn_as_hit() -> None:
    shares = [("a", 0.5), ("b", 0.25), ("c", 0.25)]
    for thrown, name in ((0.0, "a"), (0.4999, "a"), (0.5, "b"), (0.75, "c"), (0.9999, "c")):
        picture = figures.drawings.dice(shares, thrown)
        assert f"the piece of “{name}”" in picture.caption
        assert picture.svg.count('fill-opacity="0.75"') == 1
    assert {"0", "0.50", "0.75", "1"} <= set(words(figures.drawings.dice(shares, 0.3)))


@pytest.mark.parametrize(
    ("shares", "thrown", "what"),
    [
        ([("a", 0.5)], 0.1, "must sum to 1"),
        ([("a", 1.0)], 1.0, "below 1"),
        ([("a", 1.0)], -0.1, "0"),
    ],
)
def test_the_dice_refuse_what_is_no_line_from_0_to_1(
    shares: list[tuple[str, float]], thrown: float, what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        figures.drawings.dice(shares, thrown)
