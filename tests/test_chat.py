"""Conversations: the form of turns, a cache that is gone on with, refusals that change nothing."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from switches import LLAMA, TINY

from gptlib import GPT, ByteTokenizer, Chat, for_decoding, generate, stream
from gptlib.chat import END, START


class Turns(ByteTokenizer):
    """Bytes, and the two marks of turns."""

    name = "turns"

    def __init__(self):
        super().__init__()
        self.n_vocab = 258

    def encode(self, text, allowed_special=()):
        for i, mark in enumerate((START, END)):
            if text == mark and mark in allowed_special:
                return [256 + i]
        return super().encode(text)

    def _piece(self, position, token_id):
        return b"" if token_id > 255 else super()._piece(position, token_id)


@pytest.fixture
def model():
    return GPT(replace(TINY, **LLAMA, vocab_size=258, context_length=160)).eval()


def written(*turns):
    """Return the ids of (role, text) pairs, as the form says."""
    form = "".join(f"{START}{role}\n{text}{END}\n" for role, text in turns)
    ids = []
    while form:
        mark = next((m for m in (START, END) if form.startswith(m)), form[0])
        ids += [256 + (mark == END)] if len(mark) > 1 else mark.encode()
        form = form[len(mark) :]
    return ids


def test_turns_are_written_in_the_form_of_the_training(model):
    chat = Chat(model, Turns(), system="Be brief.")
    assert chat.ids == written(("system", "Be brief."))
    answer = "".join(chat.say("Hi", 7, temperature=0))
    start = written(("system", "Be brief."), ("user", "Hi"))
    opening = [256, *b"assistant\n"]
    assert chat.ids[: len(start) + len(opening)] == start + opening
    drawn = chat.ids[len(start) + len(opening) : -2]
    assert answer == Turns().decode(drawn)
    assert chat.ids[-2:] == [257, 10]
    assert drawn == generate(model, start + opening, 7, temperature=0, stop_id=257)[-len(drawn) :]


@pytest.mark.parametrize("fast", [False, True])
def test_a_second_turn_reads_only_what_is_new_and_answers_as_if_all_were_read(model, fast):
    engine = for_decoding(model) if fast else model
    chat = Chat(engine, Turns())
    read = []
    plain = engine.next_logits
    engine.next_logits = lambda ids, cache=None: (read.append(len(ids)), plain(ids, cache))[1]
    for text in ("One", "Two"):
        read.clear()
        held = chat.cache.length
        drawn = "".join(chat.say(text, 5, seed=3))
        prompt = chat.ids[: -2 - 5]
        assert read[0] == len(prompt) - held
        assert drawn == Turns().decode(generate(engine, prompt, 5, seed=3)[len(prompt) :])
    assert held > 0


def test_an_answer_left_early_counts_as_ended_and_the_chat_goes_on(model):
    chat = Chat(model, Turns())
    answer = chat.say("Hi", 20, seed=1)
    next(answer)
    answer.close()
    before = list(chat.ids)
    assert before[-2:] == [257, 10]
    "".join(chat.say("Again", 3, seed=1))
    assert chat.ids[: len(before)] == before


def test_wrong_turns_are_refused_and_change_nothing(model):
    chat = Chat(model, Turns(), system="S")
    before = list(chat.ids)
    for text, part in (("", "empty"), (" \n", "empty"), ("x" * 200, "reads at most 160")):
        with pytest.raises(ValueError, match=part):
            chat.say(text)
    with pytest.raises(ValueError, match="temperature"):
        chat.say("Hi", temperature=-1)
    chat.say("never asked for")
    assert chat.ids == before
    assert chat.cache.length == 0
    with pytest.raises(ValueError, match=r"'bytes' has no token <\|im_start\|>"):
        Chat(model, ByteTokenizer())


def test_an_answer_ends_where_the_context_ends_and_reset_makes_room(model):
    chat = Chat(model, Turns(), system="S")
    model.next_logits = lambda ids, cache=None: np.eye(258)[65] * 50
    assert len("".join(chat.say("Hi"))) > 100
    assert len(chat.ids) == 160 - 1 + 1
    with pytest.raises(ValueError, match="begin anew"):
        chat.say("More")
    chat.reset()
    assert chat.ids == written(("system", "S"))


def test_a_cache_that_was_filled_before_is_gone_on_with(model):
    ids = list(range(20))
    cache = model.new_cache()
    with torch.no_grad():
        model(torch.tensor([ids[:12]]), cache=cache)
    went_on = [step.token_id for step in stream(model, ids, 6, seed=0, cache=cache)]
    assert went_on == generate(model, ids, 6, seed=0)[20:]
    assert cache.length == 25
    with pytest.raises(ValueError, match="holds 25 of at most 160"):
        stream(model, ids, 6, cache=cache)
    with pytest.raises(ValueError, match="holds 0 of at most 10"):
        stream(model, ids, 6, cache=model.new_cache(10))
