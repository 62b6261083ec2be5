// From logits to a token to a stream of tokens: the rule of gptlib/sampling.py, stage by stage.

const TOP_P_SLACK = 1e-6; // a mass that equals top_p but for rounding counts as reached
const SLICE_MS = 12; // most milliseconds of work between two turns of the page: less than a frame
const CHUNK = 8; // prompt tokens read between two looks at the clock

/** Return the settings with defaults for what is absent or null, or throw what is wrong. */
function checkSettings(settings) {
  const { temperature, top_k, top_p } = settings;
  for (const [name, value] of Object.entries({ temperature, top_k, top_p })) {
    if (!["number", "undefined"].includes(typeof (value ?? undefined))) {
      throw new TypeError(`${name} must be a number, got the ${typeof value} ${value}`);
    }
  }
  const checked = { temperature: temperature ?? 1, top_k: top_k ?? 0, top_p: top_p ?? 1 };
  if (!(checked.temperature >= 0 && checked.temperature < Infinity)) {
    throw new RangeError(`temperature must be finite and at least 0, got ${temperature}`);
  }
  if (!(Number.isInteger(checked.top_k) && checked.top_k >= 0)) {
    throw new RangeError(`top_k must be an integer and at least 0 (0 keeps all), got ${top_k}`);
  }
  if (!(checked.top_p >= 0 && checked.top_p <= 1)) {
    throw new RangeError(`top_p must be in [0, 1], got ${top_p}`);
  }
  return checked;
}

/**
 * Follow one row of logits (V) through the rule: temperature, top-k, top-p on the renormalised rest.
 *
 * Settings: { temperature, top_k, top_p }, each of which may be absent or null. Temperature 0 is
 * greedy; top_k 0 and top_p 1 keep everything. Returns the distribution after each stage as `raw`,
 * `temperature`, `top_k` and `top_p` (what is drawn from), each a Float64Array (V); `ranked`, the
 * ids from best to worst, of equals the lower first; and `kept`, how many of them are still possible
 * after each stage: { temperature, top_k, top_p }.
 */
function traceFilters(logits, settings = {}) {
  const { temperature, top_k, top_p } = checkSettings(settings);
  const ranked = rank(logits);
  const raw = masses(logits, ranked, 1);
  const mass = masses(logits, ranked, temperature);
  const possible = ranked.filter((id) => mass[id] > 0);
  const best = possible.slice(0, top_k || possible.length);
  const enough = top_p < 1 ? best.slice(0, countToReach(top_p, mass, best)) : best;
  return {
    raw: normalised(raw, ranked),
    temperature: normalised(mass, ranked),
    top_k: normalised(mass, best),
    top_p: normalised(mass, enough),
    ranked,
    kept: { temperature: possible.length, top_k: best.length, top_p: enough.length },
  };
}

function rank(logits) {
  const bad = logits.findIndex((logit) => !(logit < Infinity)); // NaN or Infinity
  if (bad >= 0) throw new RangeError(`logits are not finite: ${logits[bad]} at id ${bad}`);
  const ranked = [...logits.keys()].toSorted((i, j) => logits[j] - logits[i] || i - j);
  if (logits[ranked[0]] > -Infinity) return ranked;
  throw new RangeError("logits are not finite: -Infinity at every id, so no token is possible");
}

/** Return each id's mass relative to the best one's, which has 1; at temperature 0 all of it. */
function masses(logits, ranked, temperature) {
  const best = logits[ranked[0]];
  const mass = new Float64Array(logits.length);
  if (temperature > 0)
    for (const id of ranked) mass[id] = Math.exp((logits[id] - best) / temperature);
  mass[ranked[0]] = 1;
  return mass;
}

/** Count how many of the ids, best first, have the share top_p of their mass; at least 1. */
function countToReach(top_p, mass, ids) {
  const target = (top_p - TOP_P_SLACK) * total(mass, ids);
  let sum = 0;
  return ids.findIndex((id) => (sum += mass[id]) >= target) + 1;
}

function normalised(mass, ids) {
  const all = total(mass, ids);
  const probs = new Float64Array(mass.length);
  for (const id of ids) probs[id] = mass[id] / all;
  return probs;
}

function total(mass, ids) {
  return ids.reduce((sum, id) => sum + mass[id], 0);
}

/** Draw an id from probs (V) by inverting their running sum; `random` returns numbers in [0, 1). */
function drawToken(probs, random) {
  let rest = random() * probs.reduce((sum, p) => sum + p, 0);
  const drawn = probs.findIndex((p) => p > 0 && (rest -= p) < 0);
  return drawn < 0 ? probs.findLastIndex((p) => p > 0) : drawn; // when rounding leaves a rest
}

/** Return the entropy in nats of probs (V). */
function entropy(probs) {
  return probs.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
}

/** Return a function that gives numbers in [0, 1), the same for the same seed (mulberry32). */
function seededRandom(seed) {
  let state = seed ?? Math.random() * 2 ** 32;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Text and streams ------------------------------------------------------------------------------

/** Return the UTF-8 bytes of a text as token ids. */
function encodeText(text) {
  return [...new TextEncoder().encode(text)];
}

/** Return the text of byte ids; what is not UTF-8 becomes U+FFFD. */
function decodeText(ids) {
  return newDecoder().decode(Uint8Array.from(ids));
}

/** Return { push, end }: push(id) gives the text that is now certain, end() what is left. */
function textStream() {
  const decoder = newDecoder();
  return {
    push: (id) => decoder.decode(Uint8Array.of(id), { stream: true }), // never half a character
    end: () => decoder.decode(),
  };
}

function newDecoder() {
  return new TextDecoder("utf-8", { ignoreBOM: true }); // keeps a byte-order mark, as Python does
}

/**
 * Read ids (T) and return the logits (V) of the token after them, or null once `signal` is aborted.
 *
 * Only the last context_length ids are read, at positions from 0 on, and of these only what `cache`
 * does not hold yet. `turn` lets the page go on in between, also within a long text.
 */
async function readTokens(model, ids, options = {}) {
  const { cache = model.newCache(), turn = pageTurns(), signal } = options;
  const { vocab_size: V, context_length } = model.config;
  if (signal?.aborted) return null; // the cache may be somebody else's by now
  const window = ids.slice(-context_length);
  const other = window.findIndex((id, i) => id !== cache.ids[i] || i === window.length - 1);
  cache.ids.length = Math.max(0, Math.min(other, cache.ids.length)); // what both begin with
  const unread = window.slice(cache.ids.length); // the last id at least: its logits are wanted
  let logits;
  do {
    logits = model.forward(unread.splice(0, CHUNK), { cache }).slice(-V);
    await turn();
    if (signal?.aborted) return null;
  } while (unread.length);
  return logits;
}

/**
 * Generate up to n tokens after a prompt; yields { id, prob, entropy, logits } for each.
 *
 * Past the context window the last context_length tokens are read again from position 0. Settings:
 * those of `traceFilters`; `seed`, which repeats the draws (not Python's: the generators differ);
 * an AbortSignal `signal`, which ends the stream without an error; and a `cache` to read into.
 */
async function* streamTokens(model, prompt, n, options = {}) {
  const { seed, signal, cache = model.newCache(), ...settings } = options;
  const [ids, random, turn] = [[...prompt], seededRandom(seed), pageTurns()];
  for (let made = 0; made < n; made++) {
    const logits = await readTokens(model, ids, { cache, turn, signal });
    if (!logits) return;
    const probs = traceFilters(logits, settings).top_p;
    const id = drawToken(probs, random);
    ids.push(id);
    yield { id, prob: probs[id], entropy: entropy(probs), logits };
  }
}

/** Return a function to await between two pieces of work: the page draws and answers when due. */
function pageTurns() {
  let due = performance.now() + SLICE_MS;
  return async () => {
    if (performance.now() < due) return;
    const { port1, port2 } = new MessageChannel(); // a timer would wait 4 ms each time
    await new Promise((resolve) => {
      port1.addEventListener("message", resolve, { once: true });
      port1.start();
      port2.postMessage(null);
    });
    port1.close();
    due = performance.now() + SLICE_MS;
  };
}

export {
  checkSettings,
  decodeText,
  drawToken,
  encodeText,
  entropy,
  readTokens,
  seededRandom,
  streamTokens,
  textStream,
  traceFilters,
};
