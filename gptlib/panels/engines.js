// What the playground plays with: the page's own model, or one in JupyterLab's kernel.

import { loadModel } from "./gpt.js";
import { decodeText, encodeText, streamTokens, textStream } from "./sampling.js";

/** The packaged model, run by the page itself; what it has read of a prompt it keeps. */
class PageEngine {
  constructor(packed) {
    this.model = loadModel(packed);
    this.cache = this.model.newCache();
    this.read = []; // the ids with which the cache begins
    this.unit = "byte";
  }

  /** Return the scores of the byte after a prompt; null where there is none. */
  scores(prompt) {
    const { vocab_size, context_length } = this.model.config;
    const ids = encodeText(prompt).slice(-context_length);
    if (!ids.length) return null;
    this.#keep(ids);
    const unread = ids.slice(this.cache.length);
    return this.model.forward(unread, { cache: this.cache }).slice(-vocab_size);
  }

  async next({ prompt }) {
    return this.scores(prompt);
  }

  async *write({ prompt, length, ...settings }, signal) {
    const text = textStream();
    const ids = encodeText(prompt);
    this.#keep(ids);
    const more = { ...settings, signal, cache: this.cache };
    [this.cache, this.read] = [this.model.newCache(), []]; // nobody else may use that one now
    for await (const step of streamTokens(this.model, ids, length, more))
      yield { ...step, piece: text.push(step.id) };
  }

  /** Cut the cache back to what it shares with the ids to be read now, all but their last. */
  #keep(ids) {
    const other = ids.findIndex((id, i) => id !== this.read[i] || i === ids.length - 1);
    this.cache.length = Math.max(0, Math.min(other, this.cache.length)); // 0 where ids is empty
    this.read = ids;
  }

  label(id) {
    return id > 32 && id < 127 ? String.fromCharCode(id) : nameOf(decodeText([id]), id);
  }
}

/** A model in JupyterLab's kernel; questions and answers carry a number. */
class KernelEngine {
  constructor(view, vocabulary) {
    this.view = view;
    this.vocabulary = vocabulary;
    this.unit = "token";
    this.waiting = new Map();
    view.on("msg:custom", (message, buffers) => {
      const [resolve, reject] = this.waiting.get(message.reply) ?? [];
      this.waiting.delete(message.reply);
      if (message.error) reject?.(new Error(message.error));
      else resolve?.({ ...message, logits: (buffers ?? []).map(floatsOf) });
    });
  }

  ask(question) {
    const number = (this.asked = (this.asked ?? 0) + 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(number, [resolve, reject]);
      this.view.model.send({ ...question, number });
    });
  }

  async next({ prompt }) {
    return (await this.ask({ ask: "next", prompt })).logits[0];
  }

  async *write({ length, ...settings }, signal) {
    await this.ask({ ask: "start", n: length, ...settings, top_k: settings.top_k || null });
    for (let done = false; !done;) {
      const { steps, logits, ...reply } = await this.ask({ ask: "more" });
      if (signal.aborted) return;
      for (const [i, step] of steps.entries())
        yield { ...step, logits: logits[i], piece: this.vocabulary[step.id] };
      done = reply.done;
    }
  }

  label(id) {
    return nameOf(this.vocabulary[id], id);
  }
}

function floatsOf(view) {
  return new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength));
}

/** Write a token so that it can be seen. */
function nameOf(piece, id) {
  if (piece === "" || piece.includes("\ufffd")) return `#${id}`;
  return piece.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

export { KernelEngine, PageEngine };
