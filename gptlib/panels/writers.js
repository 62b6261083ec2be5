// What the playground plays with: the page's own model, or one in JupyterLab's kernel.

import { loadModel } from "../page_gpt/gpt.js";
import {
  decodeText,
  encodeText,
  readTokens,
  streamTokens,
  textStream,
} from "../page_gpt/sampling.js";

/**
 * The packaged model, run by the page itself. It does one thing at a time, so that one cache, which
 * keeps what was read, serves all: to ask for something else ends what it is doing.
 */
class PageWriter {
  constructor(packed) {
    this.model = loadModel(packed);
    this.cache = this.model.newCache();
    this.unit = "byte";
  }

  /** Return the scores of the byte after a prompt and what was written; null without any. */
  async next({ prompt, written }) {
    const ids = [...encodeText(prompt), ...written];
    const signal = this.#begin();
    return ids.length ? readTokens(this.model, ids, { cache: this.cache, signal }) : null;
  }

  async *write({ prompt, length, ...settings }, stopped) {
    const signal = AbortSignal.any([this.#begin(), stopped]);
    const text = textStream();
    const more = { ...settings, signal, cache: this.cache };
    for await (const step of streamTokens(this.model, encodeText(prompt), length, more))
      yield { ...step, piece: text.push(step.id) };
  }

  /** Say what of a text is read, where that is not all. */
  limit(prompt, written) {
    const length = encodeText(prompt).length + written.length;
    return sayLimit(length, this.model.config.context_length, this.unit);
  }

  #begin() {
    this.doing?.abort();
    this.doing = new AbortController();
    return this.doing.signal;
  }

  label(id) {
    return id > 32 && id < 127 ? String.fromCharCode(id) : nameOf(decodeText([id]), id);
  }
}

/**
 * A model in JupyterLab's kernel. All views of a panel hear all answers: each question carries a
 * number that no other has, and each text is written for one view.
 */
class KernelWriter {
  constructor(view, { vocabulary, window }) {
    this.view = view;
    this.vocabulary = vocabulary;
    this.window = window;
    this.length = 0; // of the prompt, in tokens
    this.unit = "token";
    this.name = String(Math.random());
    this.waiting = new Map();
    view.on("msg:custom", (message, buffers) => {
      const [resolve, reject] = this.waiting.get(message.reply) ?? [];
      this.waiting.delete(message.reply);
      if (message.error) reject?.(new Error(message.error));
      else resolve?.({ ...message, logits: (buffers ?? []).map(floatsOf) });
    });
  }

  ask(question) {
    this.asked = (this.asked ?? 0) + 1;
    const number = `${this.name}/${this.asked}`;
    return new Promise((resolve, reject) => {
      this.waiting.set(number, [resolve, reject]);
      this.view.model.send({ ...question, number, view: this.name });
    });
  }

  /** Of the texts that come while another is read, only the last one is asked about. */
  async next({ prompt, written }) {
    const mine = (this.last = {});
    await this.reading;
    if (this.last !== mine) return null;
    const answer = this.ask({ ask: "next", prompt, written });
    this.reading = answer.catch(() => null);
    const { logits, length } = await answer;
    this.length = length;
    return logits[0];
  }

  async *write({ length, ...settings }, signal) {
    const start = { ask: "start", n: length, ...settings, top_k: settings.top_k || null };
    this.length = (await this.ask(start)).length;
    for (let done = false; !done && !signal.aborted;) {
      const { steps, logits, ...reply } = await this.ask({ ask: "more" });
      for (const [i, step] of steps.entries()) {
        if (signal.aborted) return;
        yield { ...step, logits: logits[i] };
      }
      done = reply.done;
    }
  }

  limit(prompt, written) {
    return sayLimit(this.length + written.length, this.window, this.unit);
  }

  label(id) {
    return nameOf(this.vocabulary[id], id);
  }
}

function sayLimit(length, window, unit) {
  if (length <= window) return "";
  return `Of a text this long the model reads the last ${window} ${unit}s, anew for each ${unit}. `;
}

function floatsOf(view) {
  return new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

/** Write a token so that it can be seen. */
function nameOf(piece, id) {
  if (piece === "" || piece.includes("\ufffd")) return `#${id}`;
  return piece.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

export { KernelWriter, PageWriter };
