"""The ladder of losses: tables that are chances, stored losses that come out again."""

import itertools
import re

import numpy as np
import pytest
import torch

from gptlib import figures, ladder

BAR = r'<g opacity="([\d.]+)">.*?<rect [^>]*width="([\d.]+)"[^>]*fill="(#\w+)"'

TEXT = np.frombuffer(b"abracadabra", dtype=np.uint8)


@pytest.mark.parametrize("rung", ladder.RUNGS, ids=lambda rung: rung.name)
def test_a_rung_pays_what_is_stored_of_it(rung: ladder.Rung) -> None:
    assert ladder.measure(rung.name) == pytest.approx(rung.loss, abs=2e-3)


@pytest.mark.parametrize("rung", ladder.RUNGS, ids=lambda rung: rung.name)
def test_a_rung_keeps_as_many_numbers_as_is_stored_of_it(rung: ladder.Rung) -> None:
    if rung.order is None:
        assert ladder.load(rung.name).num_params() == rung.parameters
    else:
        assert rung.parameters == (256 ** (rung.order + 1) if rung.order >= 0 else 0)


@pytest.mark.parametrize("order", [-1, 0, 1, 2])
def test_each_row_of_a_table_is_a_list_of_chances(order: int) -> None:
    chances = ladder.table(TEXT, order)
    assert (chances > 0).all()
    np.testing.assert_allclose(chances.sum(axis=-1), 1)


def test_a_row_trusts_its_counts_and_one_part_of_the_shorter_past() -> None:
    once, pairs, triples = (ladder.table(TEXT, order) for order in (0, 1, 2))
    a, b, c, r = b"abcr"
    assert once[a] == pytest.approx((5 + 1 / 256) / (11 + 1))
    assert pairs[a, b] == pytest.approx(
        (2 + once[b]) / (4 + 1)
    )  # the last a is followed by nothing
    assert triples[a, b, r] == pytest.approx((2 + pairs[b, r]) / (2 + 1))
    assert triples[c, c, a] == pytest.approx(pairs[c, a])  # never seen: the shorter past alone


@pytest.mark.parametrize("order", [-1, 0, 1, 2])
def test_the_loss_of_a_table_is_the_mean_surprise_without_the_first_byte(order: int) -> None:
    chances, x, y = ladder.table(TEXT, order), TEXT[None, :-1], TEXT[None, 1:]
    rows = [chances[tuple(TEXT[i + 1 - order : i + 1]) if order > 0 else ()] for i in range(1, 10)]
    by_hand = -np.mean([np.log(row[TEXT[i + 1]]) for i, row in enumerate(rows, start=1)])
    assert ladder.table_loss(chances, x, y) == pytest.approx(by_hand)


def test_the_mean_of_the_past_sees_no_later_position() -> None:
    x = torch.randn(1, 6, 3, generator=torch.Generator().manual_seed(0))
    mean = ladder.MeanOfThePast()
    torch.testing.assert_close(mean(x)[0, 3], x[0, :4].mean(dim=0))
    changed = torch.cat([x[:, :4], x[:, 4:] + 1], dim=1)
    torch.testing.assert_close(mean(changed)[:, :4], mean(x)[:, :4])


def test_a_rung_with_one_block_only_reads() -> None:
    model = ladder.load("one head")
    x = torch.randn(1, 5, model.cfg.emb_dim, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(model.blocks[0](x), x + model.blocks[0].read(x))


def test_wrong_names_tables_and_caches_are_refused() -> None:
    with pytest.raises(ValueError, match="no rung 'fourths'; there are: nothing known"):
        ladder.picture("fourths")
    with pytest.raises(ValueError, match="pairs is a table"):
        ladder.load("pairs")
    model = ladder.load("one head")
    with pytest.raises(ValueError, match="takes no cache"), torch.no_grad():
        model(torch.zeros(1, 1, dtype=torch.int64), cache=model.new_cache())


def test_the_picture_names_every_rung_and_marks_those_of_the_chapter() -> None:
    picture = ladder.picture(["pairs", "triples"], note="A note.")
    assert all(rung.name in picture.svg for rung in ladder.RUNGS)
    assert picture.alt.count("(this chapter)") == 2
    assert picture.caption.endswith("A note.")


def test_the_picture_draws_every_bar_as_long_as_its_loss_and_every_step_with_its_sign() -> None:
    svg = ladder.picture(["one head"]).svg
    bars = [
        (float(wide), colour, opacity == "1")
        for opacity, wide, colour in re.findall(
            r'<g opacity="([\d.]+)">.*?<rect [^>]*width="([\d.]+)"[^>]*fill="(#\w+)"',
            svg,
            re.DOTALL,
        )
    ]
    losses = [rung.loss for rung in ladder.RUNGS]
    lengths = [wide for wide, *_ in bars]
    assert lengths == pytest.approx([loss * lengths[0] / losses[0] for loss in losses], abs=0.1)
    at = [rung.name for rung in ladder.RUNGS].index("one head")
    assert [i for i, bar in enumerate(bars) if bar[1] == figures.HEAD] == [at]
    assert [full for *_, full in bars] == [i <= at for i in range(len(bars))]
    for before, rung in itertools.pairwise(ladder.RUNGS):
        assert f">{rung.loss - before.loss:+.2f}<".replace("-", "−") in svg
        assert f">{rung.parameters:,}<" in svg


def test_stored_losses_are_in_the_order_that_the_book_tells() -> None:
    falling = ["nothing known", "frequencies", "pairs", "triples", "four heads", "one block"]
    falling += ["two blocks", "packaged"]
    losses = [ladder.rung(name).loss for name in falling]
    assert losses == sorted(losses, reverse=True)
    mean, head = ladder.rung("mean of the past").loss, ladder.rung("one head").loss
    assert ladder.rung("pairs").loss < mean  # by a thousandth
    assert ladder.rung("triples").loss < head < ladder.rung("pairs").loss


def test_the_tables_are_scored_to_the_fourth_digit_that_is_stored() -> None:
    for name in ("nothing known", "frequencies", "pairs", "triples"):
        assert ladder.measure(name) == pytest.approx(ladder.rung(name).loss, abs=6e-5)
